"""One authenticated SSH connection: its channels, its watchdog, its end."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from gipper.errors import CommandTimeout, ConnectionLost, RemoteError
from gipper.runtime import Runtime
from gipper.ssh.imports import paramiko
from gipper.ssh.liveness import Watchdog
from gipper.ssh.pins import HostKey
from gipper.ssh.settings import Patience
from gipper.ssh.sockets import CountingSocket
from gipper.ssh.wire import WORN, WireTransport
from gipper.values.machines import Address

# sshd's MaxSessions is 10 unless its owner changed it.
MAX_CHANNELS: Final = 8
_REFUSED_PAUSES_S: Final = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
_PROBE: Final = "keepalive@gipper"


class Connection:
    """An open connection to one machine. Safe to use from several tasks.

    Every failure of the link is a ConnectionLost; after one, the connection is closed for good.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        address: Address,
        host_key: HostKey,
        transport: WireTransport,
        sock: CountingSocket,
        patience: Patience,
    ) -> None:
        self.address = address
        self.host_key = host_key
        self.runtime = runtime
        self.patience = patience
        self._transport = transport
        self._sock = sock
        self._slots = threading.Semaphore(MAX_CHANNELS)
        self._lock = threading.Lock()
        self._open = 0
        self._carried = 0
        self._cause: str | None = None
        self._watchdog = self._new_watchdog()
        self._watchdog.start()

    @property
    def alive(self) -> bool:
        """False once the link is known to be gone or closed."""
        return bool(self._transport.is_active())

    @property
    def channels(self) -> int:
        """How many channels are open."""
        return self._open

    @property
    def worn(self) -> bool:
        """True once so much went through that fresh keys, thus a fresh connection, are due."""
        return self._carried >= WORN

    def carried(self, count: int) -> None:
        """Count payload bytes, either way."""
        self._carried += count

    def open_channel(self, deadline: float, command: str) -> paramiko.Channel:
        """A session channel that executes `command`, by `deadline` (monotonic).

        Give it back with `drop_channel`. Raises CommandTimeout, ConnectionLost, or RemoteError where
        the server grants no more channels.
        """
        if not self._slots.acquire(timeout=max(0.0, deadline - self.runtime.monotonic())):
            raise CommandTimeout(f"no channel to {self.address} became free in time")
        with self._lock:
            self._open += 1
        try:
            return self._start(deadline, command)
        except RemoteError:
            self._release()
            raise

    def send(self, channel: paramiko.Channel, data: memoryview) -> int:
        """See `WireTransport.send_data`."""
        return self._transport.send_data(channel, data)

    def drop_channel(self, channel: paramiko.Channel) -> None:
        """Close a channel of `open_channel`, once; doesn't wait for a link that is stuck."""
        try:
            if not channel.closed:
                task = self.runtime.spawn("ssh-drop", lambda: self._close_quietly(channel))
                self.runtime.wait_any([task.done], self.runtime.monotonic() + self.patience.close_s)
        finally:
            self._release()

    def lost(self) -> ConnectionLost:
        """The error to raise for this connection, with what is known of the cause."""
        cause = self._cause or self._transport.farewell or _told(self._transport.saved_exception)
        return ConnectionLost(f"the connection to {self.address} was lost: {cause}")

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Inside, whatever paramiko or a socket raises becomes a ConnectionLost."""
        try:
            yield
        except (paramiko.SSHException, EOFError, OSError) as error:
            self._cause = self._cause or self._transport.farewell or _told(error)
            raise self.lost() from None

    def close(self, cause: str = "closed") -> None:
        """End the connection; everything that waits on it gets a ConnectionLost. Never waits long."""
        self._cause = self._cause or cause
        self._watchdog.stop()
        try:
            # Wakes the transport's thread, and a writer that is stuck in the kernel, at once.
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # The link is gone already.
        task = self.runtime.spawn("ssh-close", self._transport.close)
        self.runtime.wait_any([task.done], self.runtime.monotonic() + self.patience.close_s)

    def _start(self, deadline: float, command: str) -> paramiko.Channel:
        # paramiko waits for the answer to an exec without a limit of its own.
        decided = threading.Lock()
        task = self.runtime.spawn("ssh-exec", lambda: self._exec(deadline, command, decided))
        ended = self.runtime.wait_any([task.done], deadline)
        if ended is None and decided.acquire(blocking=False):
            raise CommandTimeout(f"{self.address} did not start a command in time")
        return task.result()

    def _exec(self, deadline: float, command: str, decided: threading.Lock) -> paramiko.Channel:
        with self.translated():
            channel = self._open_session(deadline)
            # paramiko's own signature says str; it takes bytes, and only those keep every byte.
            channel.exec_command(command.encode("utf-8", "surrogateescape"))
        if not decided.acquire(blocking=False):
            self._close_quietly(channel)
        return channel

    def _open_session(self, deadline: float) -> paramiko.Channel:
        """sshd counts a channel for a moment after it was closed: a refusal is asked about again."""
        for pause in _REFUSED_PAUSES_S:
            try:
                return self._transport.open_session(timeout=max(0.1, deadline - self.runtime.monotonic()))
            except paramiko.SSHException:
                # paramiko keeps one error for all threads: which one we got says nothing.
                if not self.alive:
                    raise
            self.runtime.sleep(pause)
        raise RemoteError(f"{self.address} refused another channel")

    def _close_quietly(self, channel: paramiko.Channel) -> None:
        try:
            channel.close()
        except (paramiko.SSHException, EOFError, OSError):
            pass  # A channel of a dead link is closed with it.

    def _release(self) -> None:
        with self._lock:
            self._open -= 1
        self._slots.release()

    def _new_watchdog(self) -> Watchdog:
        return Watchdog(
            self.runtime,
            ask=self._probe,
            received=lambda: self._sock.received,
            dead=self.close,
            every_s=self.patience.probe_every_s,
            wait_s=self.patience.probe_wait_s,
        )

    def _probe(self) -> bool:
        try:
            self._transport.global_request(_PROBE, wait=True)
        except (paramiko.SSHException, EOFError, OSError) as error:
            self._cause = self._cause or _told(error)
        return self.alive


def _told(error: BaseException | None) -> str:
    if error is None or isinstance(error, EOFError):
        return "the other side hung up"
    return str(error) or type(error).__name__
