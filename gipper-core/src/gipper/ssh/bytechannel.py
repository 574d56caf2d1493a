"""The byte pipe between a command on a rented machine and the code that moves files.

`OpenChannel` starts a command (POSIX shell text, run by ``/bin/sh`` whatever the login shell is) on
a connection for bulk data and returns a `ByteChannel` once the command has begun. Raises
ConnectFailed or ConnectionLost where no connection can be had.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from gipper.errors import ConnectionLost

# What fits into one SSH packet of sshd's 32 KiB with its header: writes of this size are neither
# split nor copied again. Longer writes work too.
BLOCK: Final = 32_704
# Reads below this cost more than the copy that they save: each one moves the rest of a buffer.
READ: Final = 256 * 1024


class InputClosed(ConnectionLost):
    """The command ended, or closed its stdin, before it took everything; the connection may be well.

    `ByteChannel.status` and `ByteChannel.poll_stderr` can still be asked why.
    """


class ByteChannel(Protocol):
    """A running remote command. One thread may write while another one reads.

    Every call may raise ConnectionLost (the connection died; nothing is known about the command) and
    is bounded: a link without life is noticed by a watchdog, a live peer that makes no headway for
    the channel's idle limit raises CommandTimeout.
    """

    def write(self, data: bytes | memoryview) -> None:
        """Feed all of `data` to the command's stdin. Raises InputClosed where nobody takes it any more."""

    def close_write(self) -> None:
        """End the command's stdin; idempotent."""

    def read(self, n: int) -> bytes:
        """Wait for the next 1..`n` bytes of the command's stdout; ``b""`` at its end.

        Exactly the command's own bytes: what a shell start file printed is not among them.
        """

    def poll_stderr(self) -> bytes:
        """Whatever arrived on stderr since the last call; doesn't wait."""

    def status(self, timeout_s: float) -> int:
        """Wait for the command's exit status (128 + n for signal n); CommandTimeout at the limit.

        Output that nobody read until then is thrown away, so that the command can end.
        """

    def close(self) -> None:
        """Give the channel up, at once, whatever the command does; idempotent."""


OpenChannel = Callable[[str], ByteChannel]
