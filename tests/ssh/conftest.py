"""A server for each test, and connections to it that are closed when the test is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support_sshd import Sshd

from gipper.remote import Target
from gipper.runtime import RealRuntime
from gipper.ssh.remote import SshDialer, SshRemote
from gipper.ssh.settings import Patience

QUICK = Patience(probe_every_s=0.2, probe_wait_s=0.6, close_s=1.0)
Dial = Callable[..., SshRemote]


@pytest.fixture
def runtime() -> RealRuntime:
    return RealRuntime()


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    """OpenSSH's server with default settings."""
    with Sshd(tmp_path / "sshd") as server:
        yield server


@pytest.fixture
def dial(runtime: RealRuntime) -> Iterator[Dial]:
    """dial(target, patience=..., timeout_s=...) → SshRemote, closed at the end of the test."""
    opened: list[SshRemote] = []

    def one(
        target: Target, *, patience: Patience | None = None, timeout_s: float = 20.0, **more: Any
    ) -> SshRemote:
        remote = SshDialer(runtime, patience=patience).dial(target, timeout_s=timeout_s, **more)
        opened.append(remote)
        return remote

    yield one
    for remote in opened:
        remote.close()


@pytest.fixture
def quick() -> Patience:
    """A watchdog that looks every 0.2 s and waits 0.6 s."""
    return QUICK


@pytest.fixture
def remote(sshd: Sshd, dial: Dial) -> SshRemote:
    """A connection to `sshd`."""
    return dial(sshd.target())
