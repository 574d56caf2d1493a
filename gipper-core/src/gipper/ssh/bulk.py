"""Connections for file transfers: opened when needed, a few at most, apart from the control one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from gipper.errors import ConnectionLost
from gipper.ssh.channel import CommandChannel
from gipper.ssh.connection import Connection

# One connection is bounded by the 2 MiB window that sshd grants and by one TCP stream; beyond four
# nothing is won, and sshd's MaxStartups turns too many at once away.
MAX_CONNECTIONS: Final = 4


class BulkPool:
    """Spreads channels over at most four connections, a fresh one before a shared one."""

    def __init__(self, dial: Callable[[], Connection], *, start_s: float = 60.0) -> None:
        self._dial = dial
        self._start_s = start_s
        self._lock = threading.Lock()
        self._connections: list[Connection] = []
        self._dialling = 0
        self._closed = False

    def open(self, command: str) -> CommandChannel:
        """Start `command` on the connection that has least to do. Raises ConnectFailed,
        ConnectionLost, CommandTimeout, RemoteError."""
        connection = self._idle() or self._dialled() or self._least()
        return CommandChannel(connection, command, start_s=self._start_s)

    def close(self) -> None:
        """Close all connections; idempotent."""
        with self._lock:
            self._closed = True
            connections, self._connections = self._connections, []
        for connection in connections:
            connection.close()

    def _idle(self) -> Connection | None:
        with self._lock:
            self._check_open()
            self._prune()
            return next((c for c in self._fit() if c.channels == 0), None)

    def _dialled(self) -> Connection | None:
        with self._lock:
            if len(self._fit()) + self._dialling >= MAX_CONNECTIONS:
                return None
            self._dialling += 1
        try:
            return self._keep(self._dial())
        finally:
            with self._lock:
                self._dialling -= 1

    def _keep(self, connection: Connection) -> Connection:
        with self._lock:
            if not self._closed:
                self._connections.append(connection)
                return connection
        connection.close()
        raise ConnectionLost("the connection was closed while another one was opened")

    def _least(self) -> Connection:
        with self._lock:
            self._check_open()
            fit = self._fit()
        if not fit:
            raise ConnectionLost("no connection for transfers is left")
        return min(fit, key=lambda c: c.channels)

    def _fit(self) -> list[Connection]:
        return [c for c in self._connections if c.alive and not c.worn]

    def _prune(self) -> None:
        for connection in list(self._connections):
            if not connection.alive or (connection.worn and connection.channels == 0):
                self._connections.remove(connection)
                connection.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ConnectionLost("this connection was closed")
