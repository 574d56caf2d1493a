"""Fixtures: rented machines with stubs instead of GPUs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from stubs.gpu_stubs import build_driver
from stubs.gpu_world import SHELLS, TOOLS, World, make_world
from support_root import need_program

from gipper.core import Gipper


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled driver library."""
    return build_driver(tmp_path_factory.mktemp("libcuda"))


@pytest.fixture
def world(tmp_path: Path, built: Path) -> World:
    """A good machine, seen through /bin/sh."""
    return make_world(tmp_path, built)


@pytest.fixture(params=sorted(SHELLS))
def any_shell(request: pytest.FixtureRequest, tmp_path: Path, built: Path) -> World:
    """A good machine whose /bin/sh is one of several; busybox brings its own tools."""
    shell = SHELLS[request.param]
    need_program(shell[0])
    found = make_world(tmp_path, built)
    found.remote.shell = (shutil.which(shell[0]) or "", *shell[1:])
    if request.param == "busybox":
        # A copy: whatever a test does to a tool, it never does it to this computer's own.
        own = Path(shutil.copy(found.remote.shell[0], tmp_path / "busybox"))
        for tool in TOOLS:
            (found.stubs.bin / tool).symlink_to(own)
    return found


@pytest.fixture
def gipper(own_folders: Path) -> Iterator[Gipper]:
    """A gipper with its built-in plugins."""
    yield Gipper(env=dict(os.environ))
