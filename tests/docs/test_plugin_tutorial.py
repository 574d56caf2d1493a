"""The plugin tutorial, followed from its published text in an environment with nothing in it."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gipper.scaffold import plan

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "plugin-tutorial.md"
TEXT = PAGE.read_text(encoding="utf-8")
MOST_LINES = 150


def _blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def _script() -> str:
    """Every command of the page in its order, as one shell reads them."""
    lines = [line for block in _blocks("console") for line in block.splitlines()]
    assert all(line.startswith("$ ") for line in lines)
    return "\n".join(line.removeprefix("$ ") for line in lines)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _serve_for_real(script: str, port: int) -> str:
    """The script with a port that is free here, waiting until the toy market answers, and ending it."""
    wait = (
        f"toy=$!; trap 'kill $toy' EXIT; for i in $(seq 200); do "
        f"python -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 1)' 2>/dev/null && break; "
        "sleep 0.1; done"
    )
    return script.replace("8731", str(port)).replace(" &\n", f" & {wait}\n")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """gipper-core's wheel, for pip to find."""
    folder = tmp_path_factory.mktemp("wheels")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--wheel-dir",
        str(folder),
        str(ROOT / "gipper-core"),
    ]
    subprocess.run(command, check=True, timeout=300)
    return folder


@pytest.mark.timeout(900)
def test_the_tutorial_leads_to_a_provider(tmp_path: Path, wheels: Path) -> None:
    """From an empty environment to a green suite, an offer in the table, a named mistake and a wheel."""
    script = _serve_for_real(_script(), _free_port())
    env = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(tmp_path),
        "PIP_FIND_LINKS": str(wheels), "GIPPER_DATA": str(tmp_path / "data"), "LANG": "C.UTF-8",
        **{k: v for k, v in os.environ.items() if k.startswith(("PIP_", "SSL_")) or k.lower().endswith("_proxy")},
    }  # fmt: skip
    env["PIP_FIND_LINKS"] = str(wheels)
    done = subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=880
    )  # fmt: skip
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    assert told.count("43 of 49 sentences proved") == 2
    assert "end-3" in (tmp_path / "broken.txt").read_text(encoding="utf-8")
    assert re.search(r"acme.*RTX 4090.*0\.34", told)
    assert list((tmp_path / "dist").glob("gipper_acme-*.whl"))
    assert "Traceback" not in told


def test_what_the_page_quotes_is_in_the_repository() -> None:
    """Each piece of Python on the page stands word for word in what `plugin new` writes."""
    texts = plan("acme", "provider", 2026)
    quoted = _blocks("python")
    assert len(quoted) >= 4
    assert all(any(piece in text for text in texts.values()) for piece in quoted)


def test_the_provider_is_short() -> None:
    """The tutorial's provider has fewer than 150 lines of its own, all files of the package together."""
    texts = plan("acme", "provider", 2026)
    lines = sum(text.count("\n") for path, text in texts.items() if path.startswith("src/"))
    assert 50 < lines < MOST_LINES
