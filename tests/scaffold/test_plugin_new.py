"""`gipper plugin new`: whole repositories, and refusals that leave nothing behind."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from gipper.cli.plugin import plugin
from gipper.errors import ConfigError
from gipper.scaffold import check_name, plan, write


@pytest.mark.parametrize("kind", ["provider", "checks"])
@pytest.mark.parametrize("name", ["acme", "x9"])
def test_a_new_repository_is_green(kind: str, name: str, tmp_path: Path) -> None:
    """Its tests pass as they were written, imported from where they lie."""
    write(tmp_path / "repo", plan(name, kind, 2026))  # type: ignore[arg-type]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path / "repo",
        env={"PYTHONPATH": str(tmp_path / "repo" / "src"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.mark.parametrize("kind", ["provider", "checks"])
def test_no_placeholder_is_left(kind: str) -> None:
    """Every word in braces was replaced, in names too, and the project file can be read."""
    texts = plan("acme", kind, 2026)  # type: ignore[arg-type]
    assert not any("{{" in text or "NAME" in path for path, text in texts.items())
    project = tomllib.loads(texts["pyproject.toml"])["project"]
    assert project["name"] == "gipper-acme"
    assert project["dependencies"] == ["gipper-core>=0.1.0"]
    group = "gipper.providers" if kind == "provider" else "gipper.plugins"
    assert list(project["entry-points"]) == [group]


@pytest.mark.parametrize(
    "name", ["Acme", "acme-2", "2acme", "class", "core", "a", "a" * 21, "../x", "local", ""]
)
def test_a_bad_name_is_refused(name: str) -> None:
    """Names that no package, entry point or variable could bear, and names that are taken."""
    with pytest.raises(ConfigError):
        check_name(name, "provider")


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """A folder that holds something is refused, and stays as it was."""
    (tmp_path / "gipper-acme").mkdir()
    (tmp_path / "gipper-acme" / "mine.txt").write_text("mine")
    with pytest.raises(ConfigError, match="is there already"):
        write(tmp_path / "gipper-acme", plan("acme", "checks", 2026))
    assert [p.name for p in (tmp_path / "gipper-acme").iterdir()] == ["mine.txt"]


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """A file stands where a folder should be: a message, no traceback."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="can't be written"):
        write(tmp_path / "file" / "repo", plan("acme", "checks", 2026))


def test_the_command_says_what_comes_next(tmp_path: Path) -> None:
    """It names its files and the line to type."""
    done = CliRunner().invoke(plugin, ["new", "acme", "--folder", str(tmp_path / "here")])
    assert done.exit_code == 0, done.output
    assert "provider.py" in done.output
    assert "pip install -e '.[test]'" in done.output
