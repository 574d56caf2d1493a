"""One real sshd with a GPU that passes every check, for all cases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from stubs.gpu_stubs import GpuStubs, build_driver
from support_sshd import Sshd


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    folder = tmp_path_factory.mktemp("sshd")
    stubs = GpuStubs(folder / "gpu", build_driver(folder))
    with Sshd(folder, env=stubs.env()) as running:
        yield running
