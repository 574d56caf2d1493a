"""The byte channel that transfers use, and the connections behind it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import attrs
import pytest
from support_sshd import Relay, Sshd, wait_until

from gipper.errors import CommandTimeout, ConnectFailed, ConnectionLost, RemoteError
from gipper.runtime import RealRuntime
from gipper.ssh.bulk import MAX_CONNECTIONS
from gipper.ssh.bytechannel import ByteChannel, InputClosed
from gipper.ssh.remote import SshRemote
from gipper.ssh.settings import Patience

Dial = Callable[..., SshRemote]
MIB = 1 << 20


def read_all(channel: ByteChannel) -> bytes:
    parts = []
    while data := channel.read(256 * 1024):
        parts.append(data)
    return b"".join(parts)


def test_bytes_up_and_down(remote: SshRemote, runtime: RealRuntime) -> None:
    """Bytes, memoryviews and odd sizes arrive in order and whole, while the answer is read beside."""
    data = hashlib.shake_128(b"x").digest(12 * MIB)
    channel = remote.open_channel("cat")

    def write() -> None:
        channel.write(data[:1])
        channel.write(memoryview(data)[1 : 5 * MIB + 7])
        channel.write(data[5 * MIB + 7 :])
        channel.close_write()
        channel.close_write()

    writer = runtime.spawn("write", write)
    assert read_all(channel) == data
    writer.result()
    assert channel.read(10) == b""
    assert channel.status(10) == 0
    channel.close()
    channel.close()


def test_small_reads(remote: SshRemote) -> None:
    """No byte is lost at the border of a read, however small, the first one after the marker too."""
    channel = remote.open_channel("printf abcdefg")
    assert [channel.read(3), channel.read(3), channel.read(3), channel.read(3)] == [b"abc", b"def", b"g", b""]
    channel.close()


def test_stderr_and_status(remote: SshRemote) -> None:
    """stderr is handed out as it comes, without waiting; the status is exact."""
    channel = remote.open_channel("echo first >&2; cat; echo second >&2; exit 2")
    seen = bytearray()

    def first() -> bool:
        seen.extend(channel.poll_stderr())
        return seen == b"first\n"

    wait_until(first, what="stderr")
    assert channel.poll_stderr() == b""
    channel.close_write()
    assert (channel.status(10), channel.poll_stderr()) == (2, b"second\n")
    channel.close()


def test_status_without_reading(remote: SshRemote) -> None:
    """The status comes although nobody read the output before."""
    channel = remote.open_channel("head -c 20971520 /dev/zero; head -c 20971520 /dev/zero >&2; exit 3")
    assert channel.status(60) == 3
    channel.close()


def test_status_has_a_deadline(remote: SshRemote) -> None:
    """Waiting for a status ends at its limit."""
    channel = remote.open_channel("exec sleep 1000")
    with pytest.raises(CommandTimeout):
        channel.status(0.3)
    channel.close()


def test_command_that_takes_no_more(remote: SshRemote) -> None:
    """A command that ended early is InputClosed, and can still be asked why."""
    channel = remote.open_channel("head -c 1 >/dev/null; echo disk full >&2; exit 28")
    with pytest.raises(InputClosed):
        for _ in range(1000):
            channel.write(bytes(MIB))
    assert (channel.status(10), channel.poll_stderr()) == (28, b"disk full\n")
    channel.close()
    assert remote.run("true").status == 0


def test_no_headway(sshd: Sshd, dial: Dial) -> None:
    """A peer that lives but takes or gives nothing is given up at the idle limit."""
    remote = dial(sshd.target(), patience=Patience(idle_s=0.5))
    channel = remote.open_channel("exec sleep 1000")
    with pytest.raises(CommandTimeout):
        channel.read(1)
    with pytest.raises(CommandTimeout):
        channel.write(bytes(64 * MIB))
    channel.close()


def test_d_047_cut_in_the_middle(sshd: Sshd, dial: Dial) -> None:
    """A reset after 5 of 20 MB is ConnectionLost; the same remote opens a fresh connection and succeeds."""
    with Relay(sshd.port) as relay:
        remote = dial(sshd.target(addresses=[relay.address]))
        relay.cut_after(5_000_000)
        with pytest.raises(ConnectionLost):
            send(remote)
        assert send(remote) == b"20000000\n"


def send(remote: SshRemote) -> bytes:
    channel = remote.open_channel("wc -c")
    try:
        channel.write(bytes(20_000_000))
        channel.close_write()
        return read_all(channel)
    finally:
        channel.close()


def test_connections_are_spread_and_bounded(sshd: Sshd, dial: Dial) -> None:
    """Four channels get four connections, more share them, and idle ones are used again."""
    with Relay(sshd.port) as relay:
        remote = dial(sshd.target(addresses=[relay.address]))
        channels = [remote.open_channel("cat") for _ in range(2 * MAX_CONNECTIONS)]
        assert relay.connections == 1 + MAX_CONNECTIONS
        for i, channel in enumerate(channels):
            channel.write(b"%d" % i)
            channel.close_write()
        assert [read_all(channel) for channel in channels] == [b"%d" % i for i in range(len(channels))]
        for channel in channels:
            channel.close()
        remote.open_channel("true").close()
        assert relay.connections == 1 + MAX_CONNECTIONS


def test_bulk_cannot_connect(sshd: Sshd, dial: Dial) -> None:
    """No second connection is ConnectFailed; the control connection goes on."""
    remote = dial(sshd.target())
    sshd.authorized_keys.write_text("")
    with pytest.raises(ConnectFailed):
        remote.open_channel("true")
    assert remote.run("echo on").text == "on"


def test_bulk_needs_the_same_host(sshd: Sshd, dial: Dial) -> None:
    """A second connection must show the pinned key, too."""
    remote = dial(sshd.target())
    target = sshd.target()
    pin = target.pins.read_text().split()
    target.pins.write_text(" ".join([pin[0], "ssh-ed25519", "AAAA" + pin[2][4:-4] + "AAAA"]) + "\n")
    with pytest.raises(ConnectFailed) as caught:
        remote.open_channel("true")
    assert caught.value.kind == "host_key"


def test_worn_connection_is_replaced(sshd: Sshd, dial: Dial) -> None:
    """Once as much as new keys would be due for went through, the next channel gets a new connection."""
    with Relay(sshd.port) as relay:
        remote = dial(sshd.target(addresses=[relay.address]))
        first = remote.open_channel("cat")
        remote._bulk._connections[0].carried(32 << 30)
        first.write(b"goes on")
        first.close_write()
        assert read_all(first) == b"goes on"
        first.close()
        remote.open_channel("true").close()
        assert relay.connections == 3


def test_fewer_sessions_than_channels(tmp_path_factory: pytest.TempPathFactory, dial: Dial) -> None:
    """A server that grants one session per connection refuses the next as RemoteError; the link lives."""
    with Sshd(tmp_path_factory.mktemp("sshd"), extra=["MaxSessions 1"]) as sshd:
        remote = dial(sshd.target())
        remote.ask("true")
        with pytest.raises(RemoteError, match="refused another channel") as caught:
            remote.run("true")
        assert not isinstance(caught.value, ConnectionLost)
        assert remote.ask("echo on").text == "on"


def test_patience_is_what_was_promised() -> None:
    """With the product's settings a dead peer is noticed in under 30 s."""
    patience = Patience()
    assert patience.probe_every_s + patience.probe_wait_s * 1.2 < 30
    assert attrs.asdict(patience)["unacked_s"] < 30
