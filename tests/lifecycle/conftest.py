"""A real sshd with a GPU that passes every check, in place of a rented machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from stubs.gpu_stubs import GpuStubs, build_driver
from support_sshd import Relay, Sshd


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stub of the GPU's driver library, compiled once."""
    return build_driver(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def host(tmp_path_factory: pytest.TempPathFactory, driver: Path) -> Iterator[Sshd]:
    """A machine of this test alone, which may be stopped or given another host key."""
    folder = tmp_path_factory.mktemp("host")
    with Sshd(folder, env=GpuStubs(folder / "gpu", driver).env()) as running:
        yield running


@pytest.fixture
def relay(host: Sshd) -> Iterator[Relay]:
    """What stands between the client and `host`."""
    with Relay(host.port) as made:
        yield made
