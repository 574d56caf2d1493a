"""Key exchanges in the middle of everything: no connection dies of one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support_sshd import Sshd

from gipper.errors import ConnectionLost
from gipper.runtime import Event, RealRuntime
from gipper.ssh.remote import SshRemote

Dial = Callable[..., SshRemote]
MIB = 1 << 20


def stream(remote: SshRemote, mib: int) -> int:
    """Read so much from the machine over its control connection."""
    done = remote.run(f"head -c {mib * MIB} /dev/zero", limit=mib * MIB, timeout_s=120)
    return len(done.stdout)


def short_channels(remote: SshRemote, at_most: int, until: Event) -> list[int]:
    """The statuses of short commands, one after the other, while the stream runs."""
    statuses: list[int] = []
    while len(statuses) < at_most and not until.is_set():
        statuses.append(remote.run("exit 3").status)
    return statuses


def test_short_channels_beside_a_stream(remote: SshRemote, runtime: RealRuntime) -> None:
    """Short channels beside a long stream on one connection all end well, and so does the stream."""
    task = runtime.spawn("stream", lambda: stream(remote, 128))
    assert set(short_channels(remote, 200, task.done)) <= {3}
    assert task.result() == 128 * MIB


def test_server_that_changes_keys_all_the_time(tmp_path: Path, dial: Dial, runtime: RealRuntime) -> None:
    """The same while the server wants new keys with each MiB: closes meet exchanges, none is lost."""
    with Sshd(tmp_path / "sshd", extra=["RekeyLimit 1M", "LogLevel DEBUG1"]) as sshd:
        remote = dial(sshd.target())
        task = runtime.spawn("stream", lambda: stream(remote, 40))
        statuses = short_channels(remote, 200, task.done)
        assert task.result() == 40 * MIB
        assert set(statuses) == {3}
        assert sshd.log.count("rekeying out") >= 20, "the server changed no keys: nothing was tried"


def test_upload_to_a_server_that_changes_keys(tmp_path: Path, dial: Dial) -> None:
    """Upwards, too, an exchange every MiB costs nothing but time."""
    with Sshd(tmp_path / "sshd", extra=["RekeyLimit 1M"]) as sshd:
        channel = dial(sshd.target()).open_channel("wc -c")
        for _ in range(24):
            channel.write(bytes(MIB))
        channel.close_write()
        assert channel.read(100) == b"%d\n" % (24 * MIB)
        channel.close()


@pytest.mark.parametrize("close", [True, False])
def test_paramiko_never_asks(remote: SshRemote, close: bool) -> None:
    """gipper's side never asks for new keys by itself, long after paramiko would have."""
    transport = remote._control._transport
    assert transport.packetizer.REKEY_BYTES == 1 << 36
    assert transport.packetizer.REKEY_PACKETS == 1 << 31
    if close:
        remote.close()
        with pytest.raises(ConnectionLost):
            remote.run("true")
