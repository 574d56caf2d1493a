"""One and the same job file, byte for byte, on every provider: only the command line names the market."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from stubs.gpu_stubs import GpuStubs, build_driver, card
from support_cli import World, world
from support_markets import runpod_world, vast_world

pytestmark = [
    pytest.mark.skipif(
        os.getuid() != 0 and not os.environ.get("CI"),
        reason="only root may make a machine with processes of its own",
    ),
    pytest.mark.timeout(240),
]
# No provider is named.
JOB = """\
name = "anywhere"

[gpu]
count = 1

[[inputs]]
src = "in.txt"
dst = "data/"

[[outputs]]
src = "out"
dst = "home-out"

[run]
setup = "tr a-z A-Z <data/in.txt >upper.txt"
command = "mkdir -p out && cp upper.txt out/x && echo $GIPPER_RUN_ID >out/run"

[budget]
max_usd = 0.5
max_hours = 0.2
"""


def _local(folder: Path, stack: ExitStack) -> World:
    user = stack.enter_context(world(folder / "user"))
    stubs = GpuStubs(folder / "gpu", build_driver(folder))
    stubs.smi(cards=[card()])
    user.env.update({k: v for k, v in stubs.env().items() if k in ("PATH", "LD_LIBRARY_PATH")})
    return user


def _vast(folder: Path, stack: ExitStack) -> World:
    return stack.enter_context(vast_world(folder, build_driver(folder))).user


def _runpod(folder: Path, stack: ExitStack) -> World:
    return stack.enter_context(runpod_world(folder, build_driver(folder))).user


WORLDS: dict[str, Callable[[Path, ExitStack], World]] = {"local": _local, "vast": _vast, "runpod": _runpod}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.mark.parametrize("provider", WORLDS)
def test_the_same_file_everywhere(provider: str, tmp_path: Path, stack: ExitStack) -> None:
    """The file runs unchanged; the same bytes come home."""
    user = WORLDS[provider](tmp_path, stack)
    (user.work / "in.txt").write_text("the same everywhere\n")
    job = user.work / "job.toml"
    job.write_text(JOB)
    done = user.gipper("pod", "run", job, "--provider", provider, timeout=150)
    assert done.code == 0, done.all
    assert user.out("x").read_text() == "THE SAME EVERYWHERE\n"
    user.sound()
