"""What a command imports before it does anything, seen in a fresh interpreter."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = (
    "requests",
    "paramiko",
    "rich",
    "cattrs",
    "cryptography",
    "pluggy",
    "importlib.metadata",
    "gipper.plugins",
)
NETWORK = ("requests", "paramiko", "urllib3", "gipper.ssh", "gipper.http")

_PROBE = """
import json, sys
sys.argv = ["gipper", *json.loads(sys.argv[1])]
from gipper.__main__ import main
code = main()
sys.stdout.flush()
print("\\nIMPORTED " + json.dumps(sorted(sys.modules)), file=sys.stderr)
raise SystemExit(code)
"""

_PEAK = """
import os, sys
pid = os.posix_spawn(sys.argv[1], [sys.argv[1], "--help"], os.environ,
    file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
_, status, usage = os.wait4(pid, 0)
assert status == 0
print(usage.ru_maxrss)
"""


def _run(args: list[str]) -> tuple[subprocess.CompletedProcess[str], set[str]]:
    """Run one command line in a new interpreter; its result and all that it imported."""
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, json.dumps(args)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "IMPORTED " in done.stderr, done.stderr
    return done, set(json.loads(done.stderr.rpartition("IMPORTED ")[2]))


@pytest.mark.parametrize("args", [["--version"], ["--help"], [], ["-h"]], ids=" ".join)
def test_first_words_import_little(args: list[str]) -> None:
    """Help and version import neither a heavy library nor a plugin, and scan no entry points."""
    done, imported = _run(args)
    assert done.returncode == 0, done.stderr
    assert not imported.intersection(HEAVY)
    assert not {name for name in imported if name.startswith("gipper.builtin")}


@pytest.mark.parametrize(
    "args", [["pod", "cost"], ["pod", "hosts"], ["ledger"], ["ledger", "verify"]], ids=" ".join
)
def test_reading_the_ledger_needs_no_network(args: list[str]) -> None:
    """What only reads receipts imports nothing that could talk to a market or a machine."""
    done, imported = _run(args)
    assert done.returncode == 0, done.stderr
    assert not imported.intersection(NETWORK)


def test_version_is_the_distribution_s() -> None:
    """The literal version that start-up prints is the one in the metadata."""
    from importlib.metadata import version

    done, _ = _run(["--version"])
    assert done.stdout.split() == ["gipper", version("gipper-core")]


def test_start_up_needs_little_memory() -> None:
    """The installed command's help peaks at no more than 22 MiB."""
    # Peak memory is inherited by a fork, so a small process has to be between this one and the command.
    script = Path(sys.executable).parent / "gipper"
    asked = [sys.executable, "-c", _PEAK, str(script)]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True)
    assert int(done.stdout) / 1024 <= 22
