"""A job's folder, a data folder, and a user whose processes are all gone at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support_cli import World, world

from gipper.values.jobs import Job, RunTable

HEAD = "from gipper.api import *\nfrom gipper.api import hookimpl\n\nGIPPER_API = 1\n"
EXCLUDES = "\n\n@hookimpl\ndef gipper_exclude_offers(offers, job):\n    return {}\n"
MakeJob = Callable[..., Job]


@pytest.fixture
def make_job(tmp_path: Path) -> MakeJob:
    """`make_job(text)`: a job whose one hooks file, `gipper_hooks.py` in its folder, has this text."""
    folder = tmp_path / "job"
    folder.mkdir(mode=0o755)

    def make(
        text: str | bytes | None = HEAD + EXCLUDES, names: tuple[str, ...] = ("gipper_hooks.py",)
    ) -> Job:
        if text is not None:
            (folder / "gipper_hooks.py").write_bytes(text if isinstance(text, bytes) else text.encode())
            (folder / "gipper_hooks.py").chmod(0o644)
        return Job(name="t", run=RunTable(command="true"), folder=folder, hooks=names)

    return make


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """GIPPER_DATA, not made yet."""
    return tmp_path / "data"


@pytest.fixture
def user(own_folders: Path) -> Iterator[World]:
    """A user with an empty HOME; nothing of theirs may run when the test is over."""
    with world(own_folders) as made:
        yield made
