"""A remote command in a channel of its own: bytes in, bytes out, an exact status."""

from __future__ import annotations

import threading

from gipper.errors import CommandTimeout, ConnectionLost, RemoteError
from gipper.remote import Completed
from gipper.ssh.bytechannel import READ
from gipper.ssh.connection import Connection
from gipper.ssh.framing import MarkerFilter, Sink
from gipper.ssh.quoting import exec_line, new_marker
from gipper.ssh.streams import Streams

# sshd grants far more than this at once: stdin of that size can't block on what we haven't read.
_SMALL_INPUT = 256 * 1024
_STDERR_KEPT = 1 << 20
_SLICE_S = 1.0


class CommandChannel:
    """A `gipper.ssh.bytechannel.ByteChannel`: `command` runs under ``/bin/sh``, noise is dropped.

    The constructor returns once the command began. It raises ConnectionLost, CommandTimeout, or
    RemoteError where the login shell ended before it got to the command, whatever status it gave.
    """

    def __init__(self, connection: Connection, command: str, *, start_s: float) -> None:
        self._connection = connection
        self._clock = connection.runtime.monotonic
        marker = new_marker()
        self._out, self._err = MarkerFilter(marker), MarkerFilter(marker)
        self._head = b""
        self._pending = bytearray()
        self._lock = threading.Lock()
        deadline = self._clock() + start_s
        self._streams = Streams(connection, exec_line(command, marker), deadline)
        try:
            self._await_start(deadline)
        except RemoteError:
            self.close()
            raise

    def write(self, data: bytes | memoryview) -> None:
        """See `ByteChannel.write`."""
        self._streams.send(data, self._connection.patience.idle_s)

    def close_write(self) -> None:
        """See `ByteChannel.close_write`."""
        self._streams.close_write()

    def read(self, n: int) -> bytes:
        """See `ByteChannel.read`."""
        deadline = self._clock() + self._connection.patience.idle_s
        while True:
            data = self.read_until(n, min(deadline, self._clock() + _SLICE_S))
            if data is not None:
                return data
            if self._clock() >= deadline:
                raise CommandTimeout(f"no output from {self._connection.address} for too long")

    def read_until(self, n: int, deadline: float) -> bytes | None:
        """As `read`, but None once `deadline` (monotonic) passed, or stderr came, without stdout."""
        self._streams.rearm()
        ended = self._streams.ended
        fresh = self._drain_stderr()
        data = self._take(n)
        if data:
            return data
        if ended:
            self._streams.check_whole()
            return b""
        if not fresh:
            self._streams.wait(deadline - self._clock())
            data = self._take(n)
        return data or None

    def poll_stderr(self) -> bytes:
        """See `ByteChannel.poll_stderr`."""
        while self._drain_stderr():
            pass
        return self._pop_stderr()

    def status(self, timeout_s: float) -> int:
        """See `ByteChannel.status`."""
        deadline = self._clock() + timeout_s
        quiet_since: float | None = None
        while (data := self.read_until(READ, min(deadline, self._clock() + _SLICE_S))) != b"":
            quiet_since = self._quiet_since(quiet_since, data)
            if self._lingers(quiet_since) or self._clock() >= deadline:
                break
        return self._streams.status(deadline)

    def collect(self, out: Sink, err: Sink, deadline: float) -> int:
        """Drain both streams into the sinks until the command ended; its status.

        Raises CommandTimeout at `deadline` (monotonic).
        """
        quiet_since: float | None = None
        while (data := self.read_until(READ, min(deadline, self._clock() + _SLICE_S))) != b"":
            out.add(data or b"")
            fresh = self._pop_stderr()
            err.add(fresh)
            quiet_since = self._quiet_since(quiet_since, data or fresh)
            if self._lingers(quiet_since):
                break
            if self._clock() >= deadline:
                raise CommandTimeout(f"a command on {self._connection.address} did not end in time")
        more = True
        while more:
            more = self._drain_stderr()
            err.add(self._pop_stderr())
        return self._streams.status(deadline)

    def close(self) -> None:
        """See `ByteChannel.close`."""
        self._streams.close()

    def _quiet_since(self, since: float | None, data: bytes | None) -> float | None:
        """Since when the command is over and silent; None while it isn't."""
        if data or not self._streams.exited:
            return None
        return self._clock() if since is None else since

    def _lingers(self, quiet_since: float | None) -> bool:
        limit_s = self._connection.patience.linger_s
        return quiet_since is not None and self._clock() - quiet_since >= limit_s

    def _await_start(self, deadline: float) -> None:
        while not self._out.seen:
            data = self.read_until(READ, deadline)
            if data == b"" and not self._out.seen:
                raise self._never_began()
            self._head += data or b""
            if not self._out.seen and self._clock() >= deadline:
                raise CommandTimeout(f"the shell on {self._connection.address} did not start in time")

    def _never_began(self) -> RemoteError:
        said = self._out.noise or self._err.noise or "nothing"
        return RemoteError(f"the login shell on {self._connection.address} ran no command; it said: {said}")

    def _take(self, n: int) -> bytes:
        if self._head:
            data, self._head = self._head[:n], self._head[n:]
            return data
        while data := self._streams.take(n):
            if mine := self._out.feed(data):
                return mine
        return b""

    def _pop_stderr(self) -> bytes:
        with self._lock:
            data = bytes(self._pending)
            self._pending.clear()
        return data

    def _drain_stderr(self) -> bool:
        """Take one piece over; False where there was none."""
        with self._lock:
            data = self._streams.take_stderr()
            self._pending += self._err.feed(data)
            # Whoever polls after each read loses nothing; who never does keeps the last of it.
            del self._pending[:-_STDERR_KEPT]
        return bool(data)


def run_command(
    connection: Connection, command: str, *, stdin: bytes, timeout_s: float, limit: int
) -> Completed:
    """Run `command` to its end; see `gipper.remote.Remote.run`."""
    deadline = connection.runtime.monotonic() + timeout_s
    channel = CommandChannel(connection, command, start_s=timeout_s)
    try:
        _feed(connection, channel, stdin)
        out, err = Sink(limit), Sink(limit)
        status = channel.collect(out, err, deadline)
        return Completed(status=status, stdout=out.value(), stderr=err.value())
    finally:
        channel.close()


def _feed(connection: Connection, channel: CommandChannel, stdin: bytes) -> None:
    if len(stdin) <= _SMALL_INPUT:
        _feed_all(channel, stdin)
    else:
        connection.runtime.spawn("ssh-stdin", lambda: _feed_all(channel, stdin))


def _feed_all(channel: CommandChannel, stdin: bytes) -> None:
    try:
        channel.write(stdin)
        channel.close_write()
    except (ConnectionLost, CommandTimeout):
        pass  # A command needn't read its input; whoever reads its output hears of a lost link.
