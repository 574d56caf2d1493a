"""`gipper job`: check, schema and new, as a person or a script meets them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HELLO = Path(__file__).parents[2] / "examples" / "hello.toml"


def gipper(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gipper", *args],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
        timeout=60,
        env={**os.environ, **env},
    )


def test_check_says_ok_for_the_example() -> None:
    """The example is right, and its input is there."""
    done = gipper("job", "check", str(HELLO))
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{HELLO}: ok\n", "")


def test_check_as_json(tmp_path: Path) -> None:
    """A script gets one object, of a good file and of one whose input is missing."""
    file = tmp_path / "job.toml"
    file.write_text('name = "größe"\n[run]\ncommand = "x"\n', encoding="utf-8")
    answer = json.loads(gipper("job", "check", str(file), "--json").stdout)
    assert (answer["ok"], answer["name"]) == (True, "größe")
    file.write_text('name = "größe"\n[run]\ncommand = "x"\n[[inputs]]\nsrc = "gone"\n', encoding="utf-8")
    answer = json.loads(gipper("job", "check", str(file), "--json").stdout)
    assert answer["ok"] is False
    assert any("gone" in problem for problem in answer["problems"])


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"[budget]\nmax_use = 1\n", b"x = ["])
def test_check_of_a_wrong_file_is_exit_2(tmp_path: Path, content: bytes | None) -> None:
    """Missing and wrong files end with 2, the mistake on stderr, and no traceback."""
    file = tmp_path / "job.toml"
    if content is not None:
        file.write_bytes(content)
    done = gipper("job", "check", str(file))
    assert done.returncode == 2
    assert str(file) in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_d_091_check_in_the_c_locale(tmp_path: Path) -> None:
    """In the C locale neither names nor mistakes with other letters end in an encoding error."""
    file = tmp_path / "größe.toml"
    file.write_text('name = "größe-01"\n"schlüssel" = 1\n[run]\ncommand = "x"\n', encoding="utf-8")
    done = gipper("job", "check", str(file), LC_ALL="C", PYTHONUTF8="0")
    assert done.returncode == 2
    assert "unknown key" in done.stderr
    assert "Traceback" not in done.stderr


def test_new_writes_a_job_that_checks_and_never_overwrites(tmp_path: Path) -> None:
    """The starter file is right as it is; a file that is there stays untouched."""
    file = tmp_path / "job.toml"
    assert gipper("job", "new", str(file)).returncode == 0
    assert gipper("job", "check", str(file)).returncode == 0
    file.write_text("mine", encoding="utf-8")
    done = gipper("job", "new", str(file))
    assert done.returncode == 2
    assert "already there" in done.stderr
    assert file.read_text(encoding="utf-8") == "mine"
    assert gipper("job", "new", str(tmp_path / "no" / "job.toml")).returncode == 2


def test_schema_prints_json() -> None:
    """The schema can be piped into a file, and knows the installed providers."""
    schema = json.loads(gipper("job", "schema").stdout)
    assert "local" in schema["properties"]["provider"]["properties"]
