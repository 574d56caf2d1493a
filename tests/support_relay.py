"""A TCP relay on loopback that can be made to misbehave; tests import it from `support_sshd`."""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from gipper.values.machines import Address


def wait_until(condition: Callable[[], bool], *, seconds: float = 30.0, what: str = "condition") -> None:
    """Poll until `condition` holds; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not hold within {seconds} s"
        time.sleep(0.01)


class Relay:
    """Forwards TCP connections to a port on loopback, until it is told to do worse.

    Counts `up` and `down` bytes, `connections`, and `round_trips`: bursts from the client that follow
    a burst from the server.
    """

    def __init__(self, port: int, *, host: str = "127.0.0.1") -> None:
        self.up = 0
        self.down = 0
        self.connections = 0
        self.round_trips = 0
        self._upstream = (host, port)
        self._mode = "forward"
        self._cut: int | None = None
        self._cuts_left = 0
        self._server_spoke = False
        self._lock = threading.Lock()
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._clients: set[socket.socket] = set()
        self._pending: dict[socket.socket, bytearray] = {}
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._wake_r, self._wake_w = socket.socketpair()
        self._stopped = False
        self._thread = threading.Thread(target=self._loop, name="relay", daemon=True)

    def __enter__(self) -> Self:
        for sock in (self._listener, self._wake_r):
            sock.setblocking(False)
            self._selector.register(sock, selectors.EVENT_READ)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped = True
        self._poke()
        self._thread.join(10)
        assert not self._thread.is_alive()

    @property
    def port(self) -> int:
        """Where clients connect."""
        port: int = self._listener.getsockname()[1]
        return port

    @property
    def address(self) -> Address:
        """Where clients connect."""
        return Address(host="127.0.0.1", port=self.port)

    def drop(self) -> None:
        """Take everything and forward nothing: a link that went away without a word."""
        self._set("drop")

    def stall(self) -> None:
        """Read nothing any more: buffers fill up, then writers block."""
        self._set("stall")

    def heal(self) -> None:
        """Forward again (what was dropped stays lost)."""
        self._set("forward")

    def refuse(self) -> None:
        """Reset what is open, and each new connection as it comes."""
        self._set("refuse")
        self.reset()

    def reset(self) -> None:
        """Send RST on both sides of every open connection."""
        with self._lock:
            self._mode = {"forward": "reset", "drop": "reset+drop"}.get(self._mode, "reset+" + self._mode)
        self._poke()
        wait_until(lambda: not self._mode.startswith("reset"), what="relay reset")

    def cut_after(self, count: int, *, times: int = 1) -> None:
        """Reset a connection once `count` more bytes came from clients; that often (-1: always)."""
        with self._lock:
            self._cut, self._cuts_left = count, times
            self._cut_base = count

    def reset_counts(self) -> None:
        """Begin to count anew, for example after the login."""
        with self._lock:
            self.up = self.down = self.connections = self.round_trips = 0
            self._server_spoke = False

    def _set(self, mode: str) -> None:
        with self._lock:
            self._mode = mode
        self._poke()

    def _poke(self) -> None:
        with contextlib.suppress(OSError):
            self._wake_w.send(b"x")

    def _loop(self) -> None:
        while not self._stopped:
            if self._mode.startswith("reset"):
                self._reset_all()
            for key, mask in self._selector.select(timeout=None if self._mode != "stall" else 0.05):
                self._serve(key.fileobj, mask)  # type: ignore[arg-type]
        self._reset_all()
        for sock in (self._listener, self._wake_r, self._wake_w):
            sock.close()
        self._selector.close()

    def _serve(self, sock: socket.socket, mask: int) -> None:
        if sock is self._wake_r:
            self._wake_r.recv(4096)
        elif sock is self._listener:
            self._accept()
        elif sock in self._pairs:
            self._move(sock, mask)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        if self._mode == "refuse":
            _abort(client)
            return
        try:
            server = socket.create_connection(self._upstream, timeout=5)
        except OSError:
            _abort(client)
            return
        with self._lock:
            self.connections += 1
        self._clients.add(client)
        for one, other in ((client, server), (server, client)):
            one.setblocking(False)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._pairs[one] = other
            self._pending[one] = bytearray()
            self._selector.register(one, selectors.EVENT_READ)

    def _move(self, sock: socket.socket, mask: int) -> None:
        if self._mode == "stall":
            time.sleep(0.01)
            return
        try:
            if mask & selectors.EVENT_WRITE:
                self._flush(sock)
            if mask & selectors.EVENT_READ:
                self._read(sock)
        except BlockingIOError:
            pass
        except OSError:
            self._abort_pair(sock)

    def _read(self, sock: socket.socket) -> None:
        data = sock.recv(256 * 1024)
        other = self._pairs[sock]
        if not data:
            self._close_pair(sock)
        elif self._count(sock, len(data)):
            self._abort_pair(sock)
        elif self._mode != "drop":
            self._pending[other] += data
            self._flush(other)

    def _flush(self, sock: socket.socket) -> None:
        """Send what waits for `sock`; while something is left, its partner is not read."""
        waiting = self._pending[sock]
        with contextlib.suppress(BlockingIOError):
            while waiting:
                del waiting[: sock.send(waiting)]
        self._watch(sock, selectors.EVENT_WRITE, on=bool(waiting))
        self._watch(self._pairs[sock], selectors.EVENT_READ, on=not waiting)

    def _watch(self, sock: socket.socket, event: int, *, on: bool) -> None:
        registered = self._selector.get_map().get(sock)
        before = registered.events if registered else 0
        after = before | event if on else before & ~event
        if registered and not after:
            self._selector.unregister(sock)
        elif registered and after != before:
            self._selector.modify(sock, after)
        elif not registered and after:
            self._selector.register(sock, after)

    def _count(self, sock: socket.socket, count: int) -> bool:
        """Account for `count` bytes; True where the connection is to be cut."""
        with self._lock:
            if sock not in self._clients:
                self.down += count
                self._server_spoke = True
                return False
            self.up += count
            self.round_trips += self._server_spoke
            self._server_spoke = False
            if self._cut is None or self._cuts_left == 0:
                return False
            self._cut -= count
            if self._cut > 0:
                return False
            self._cuts_left -= 1
            self._cut = self._cut_base
            return True

    def _reset_all(self) -> None:
        for sock in list(self._clients):
            self._abort_pair(sock)
        with self._lock:
            self._mode = self._mode.partition("+")[2] or ("forward" if self._mode == "reset" else self._mode)

    def _abort_pair(self, sock: socket.socket) -> None:
        for one in self._forget(sock):
            _abort(one)

    def _close_pair(self, sock: socket.socket) -> None:
        for one in self._forget(sock):
            one.close()

    def _forget(self, sock: socket.socket) -> list[socket.socket]:
        other = self._pairs.get(sock)
        if other is None:
            return []
        for one in (sock, other):
            self._pairs.pop(one, None)
            self._pending.pop(one, None)
            self._clients.discard(one)
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(one)
        return [sock, other]


def _abort(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
