"""What only root may do: where it can't be done a test skips itself and says why; in CI it fails instead."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


def in_ci() -> bool:
    """Whether this run has to prove everything (CI=true)."""
    return os.environ.get("CI", "").lower() in ("true", "1")


def cannot(why: str) -> None:
    """Leave the test: skipped with `why`, or failed with it where CI=true."""
    if in_ci():
        pytest.fail(f"CI may not skip this: {why}", pytrace=False)
    pytest.skip(why)


def need_root(why: str) -> None:
    """Go on as root only; `why` ends the sentence "needs root, ..."."""
    if os.geteuid() != 0:
        cannot(f"needs root, {why}")


def as_ordinary_user() -> dict[str, Any]:
    """What subprocess.run needs so that the command is no root's (65534 is nobody)."""
    return {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}


def need_program(name: str) -> str:
    """The path of a program that the test can't do without."""
    found = shutil.which(name)
    if found is None:
        cannot(f"needs {name}")
    return str(found)


def need_bash_login() -> None:
    """Go on where an SSH session of this user is a bash, which reads ~/.bashrc."""
    shell = pwd.getpwuid(os.geteuid()).pw_shell
    if Path(shell).name != "bash":
        cannot(f"needs a user whose login shell is bash, not {shell}")


@contextmanager
def tmpfs(place: Path, size: str) -> Iterator[Path]:
    """`place`, made and mounted as a file system of `size` ("1m") until the end."""
    need_root("to mount a file system")
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(place)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        cannot(f"may not mount a file system here: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
