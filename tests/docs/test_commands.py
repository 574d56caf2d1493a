"""Every command that the README and the docs show is run, as a reader would, in a copy of the project."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SKIP = shutil.ignore_patterns(".git", ".nox", ".venv", "__pycache__", ".*_cache", "hello-out")
_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _commands() -> list[tuple[str, str]]:
    """(page, command) for each line of each block that is marked as shell."""
    found = []
    for page in PAGES:
        for block in _BLOCK.findall(page.read_text(encoding="utf-8")):
            found += [(page.name, line) for line in block.splitlines() if line and not line.startswith("#")]
    return found


def _runs_the_tests(command: str) -> bool:
    """The README's second command runs all tests: whoever runs these has just typed it."""
    return ".venv/bin/nox" in command


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project as a clean clone would be."""
    copy = tmp_path_factory.mktemp("clone") / "gipper"
    shutil.copytree(ROOT, copy, ignore=SKIP)
    return copy


def _environment(project: Path, home: Path) -> dict[str, str]:
    path = f"{project / '.venv' / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "HOME": str(home)}


def test_the_readme_has_two_commands() -> None:
    """The README sets up and runs the example with one command, and the tests with another; no third."""
    commands = [command for page, command in _commands() if page == "README.md"]
    assert len(commands) == 2
    assert "gipper pod run examples/hello.toml" in commands[0]
    assert _runs_the_tests(commands[1])


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("page", "command"), [c for c in _commands() if not _runs_the_tests(c[1])])
def test_command_works(page: str, command: str, project: Path, own_folders: Path) -> None:
    """The command ends with 0 and without a traceback."""
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=project,
        env=_environment(project, own_folders),
        capture_output=True,
        text=True,
        timeout=590,
        check=False,
    )
    assert done.returncode == 0, f"{page}: {command}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Relative links name files that exist."""
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8"))
    missing = [t for t in targets if not (page.parent / t).exists()]
    assert not missing


def test_the_readme_example_is_a_job(tmp_path: Path) -> None:
    """The job file that the README shows is accepted, beside the example's input."""
    from gipper.job import load

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"^```toml\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    assert shown is not None
    shutil.copytree(ROOT / "examples", tmp_path, dirs_exist_ok=True)
    (tmp_path / "shown.toml").write_text(shown[1], encoding="utf-8")
    assert load(tmp_path / "shown.toml").name == "hello"
