"""The three streams of one channel, without a way to block for ever."""

from __future__ import annotations

import threading

from gipper.errors import CommandTimeout
from gipper.ssh.bytechannel import BLOCK, READ, InputClosed
from gipper.ssh.connection import Connection
from gipper.ssh.imports import paramiko

# How often a writer that waits for the other side's window looks at its limit.
_SEND_SLICE_S = 1.0
# One system call takes this much; the connection's other channels wait meanwhile.
_AT_ONCE = 8 * BLOCK


class _Wake:
    """What paramiko's buffers call when bytes or an end arrive.

    They lower the flag as soon as one of the two is empty, which would hide what lies in the other:
    here only the reader lowers it, before it looks.
    """

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def clear(self) -> None:
        pass

    def rearm(self) -> None:
        self._event.clear()

    def wait(self, seconds: float) -> None:
        self._event.wait(max(0.0, seconds))


class Streams:
    """A channel that executes `command`; one task may write while another one reads.

    The constructor raises what `Connection.open_channel` raises.
    """

    def __init__(self, connection: Connection, command: str, deadline: float) -> None:
        self._connection = connection
        self._channel = connection.open_channel(deadline, command)
        self._channel.settimeout(_SEND_SLICE_S)
        self._wake = _Wake()
        self._closed = False
        self._lock = threading.Lock()
        for buffer in (self._channel.in_buffer, self._channel.in_stderr_buffer):
            buffer.set_event(self._wake)  # type: ignore[arg-type]  # it needs set and clear alone

    @property
    def ended(self) -> bool:
        """True where nothing more will arrive than what is buffered."""
        return bool(self._channel.eof_received or self._channel.closed)

    @property
    def exited(self) -> bool:
        """True once the command's status arrived; output may still follow."""
        return self._channel.exit_status_ready() and self._channel.exit_status >= 0

    def take(self, n: int = READ) -> bytes:
        """Up to `n` bytes of stdout that are here already; ``b""`` for none."""
        if not self._channel.recv_ready():
            return b""
        with self._connection.translated():
            return self._counted(self._channel.recv(n))

    def take_stderr(self, n: int = READ) -> bytes:
        """Up to `n` bytes of stderr that are here already; ``b""`` for none."""
        if not self._channel.recv_stderr_ready():
            return b""
        with self._connection.translated():
            return self._counted(self._channel.recv_stderr(n))

    def rearm(self) -> None:
        """To be called before looking for bytes, so that `wait` sees all that comes after."""
        self._wake.rearm()

    def wait(self, seconds: float) -> None:
        """Until something arrived since `rearm`, or that long."""
        self._wake.wait(seconds)

    def check_whole(self) -> None:
        """Raise ConnectionLost where the channel ended without the other side's word for it."""
        if not self._channel.eof_received:
            raise self._connection.lost()

    def send(self, data: bytes | memoryview, limit_s: float) -> None:
        """Write all of `data`. Raises InputClosed, ConnectionLost, or CommandTimeout after `limit_s`
        without headway."""
        view = memoryview(data)
        for at in range(0, len(view), _AT_ONCE):
            self._send_block(view[at : at + _AT_ONCE], limit_s)

    def close_write(self) -> None:
        """End of stdin; idempotent."""
        with self._connection.translated():
            if not self._channel.closed:
                self._channel.shutdown_write()

    def status(self, deadline: float) -> int:
        """The exit status, by `deadline` (monotonic); ConnectionLost where there is none to come."""
        left = deadline - self._connection.runtime.monotonic()
        if not self._channel.status_event.wait(max(0.0, left)):
            raise CommandTimeout(f"a command on {self._connection.address} did not end in time")
        if self._channel.exit_status < 0:
            raise self._connection.lost()
        return self._channel.exit_status

    def close(self) -> None:
        """Give the channel up; idempotent."""
        with self._lock:
            first, self._closed = not self._closed, True
        if first:
            self._connection.drop_channel(self._channel)

    def _send_block(self, block: memoryview, limit_s: float) -> None:
        clock = self._connection.runtime.monotonic
        since = clock()
        while len(block):
            sent = self._try_send(block)
            if sent:
                self._connection.carried(sent)
                block, since = block[sent:], clock()
            elif clock() - since >= limit_s:
                raise CommandTimeout(f"{self._connection.address} took no input for {limit_s:g} s")

    def _try_send(self, block: memoryview) -> int:
        try:
            sent = self._connection.send(self._channel, block)
        except TimeoutError:
            return 0
        except (paramiko.SSHException, EOFError, OSError):
            sent = 0
        if sent == 0 or not self._connection.alive:
            raise self._refused()
        return sent

    def _refused(self) -> Exception:
        if self._connection.alive:
            return InputClosed("the remote command ended before it took all of its input")
        return self._connection.lost()

    def _counted(self, data: bytes) -> bytes:
        self._connection.carried(len(data))
        return data
