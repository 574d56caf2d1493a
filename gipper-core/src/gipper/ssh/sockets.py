"""TCP connections: several address families raced, and a socket tuned for SSH."""

from __future__ import annotations

import errno
import os
import select
import socket
from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import Any, Final

from gipper.runtime import Runtime

# Keep-alive probes (idle seconds, interval, count) find an idle peer that is gone in under 30 s.
_KEEPALIVE: Final = (10, 5, 3)
# How long the address that was tried last is given before the next one starts beside it.
_HEAD_START_S: Final = 0.25

AddrInfo = tuple[int, Any]


class CountingSocket(socket.socket):
    """A socket that tells how many bytes came in: any of them proves that the peer lives."""

    received = 0

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        data = super().recv(bufsize, flags)
        self.received += len(data)
        return data


def resolve(host: str, port: int) -> list[AddrInfo]:
    """(family, socket address) pairs, families taken in turn. Raises OSError. May block: use a task."""
    found = socket.getaddrinfo(host.strip().strip("[]"), port, type=socket.SOCK_STREAM)
    pairs = [(int(family), address) for family, _, _, _, address in found]
    return interleaved(pairs)


def interleaved(pairs: Sequence[AddrInfo]) -> list[AddrInfo]:
    """The same pairs, first of each family first, so that one dead family costs little."""
    families = list(dict.fromkeys(family for family, _ in pairs))
    columns = [[p for p in pairs if p[0] == family] for family in families]
    return [p for p in chain.from_iterable(zip_longest(*columns)) if p is not None]


def connect_first(addresses: Sequence[AddrInfo], runtime: Runtime, limit_s: float) -> CountingSocket:
    """Connect to whichever of `addresses` answers first. Raises OSError, TimeoutError after `limit_s`."""
    race = _Race(runtime, limit_s)
    try:
        return race.run(list(addresses))
    finally:
        race.close()


def tune(sock: socket.socket, unacked_s: float) -> None:
    """No delay for small packets, and the kernel's own signs of life."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in zip(("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT"), _KEEPALIVE, strict=True):
        _set_if_known(sock, name, value)
    _set_if_known(sock, "TCP_USER_TIMEOUT", int(unacked_s * 1000))


def _set_if_known(sock: socket.socket, option: str, value: int) -> None:
    number = getattr(socket, option, None)
    if number is not None:
        sock.setsockopt(socket.IPPROTO_TCP, number, value)


class _Race:
    """Connects that run side by side, each started a little after the one before."""

    def __init__(self, runtime: Runtime, limit_s: float) -> None:
        self._runtime = runtime
        self._deadline = runtime.monotonic() + limit_s
        self._runners: dict[int, CountingSocket] = {}
        self._error: OSError = OSError(errno.EADDRNOTAVAIL, "no address to connect to")

    def run(self, waiting: list[AddrInfo]) -> CountingSocket:
        while waiting or self._runners:
            if waiting:
                self._start(*waiting.pop(0))
            winner = self._wait(_HEAD_START_S if waiting else None)
            if winner is not None:
                return winner
            if self._runtime.monotonic() >= self._deadline:
                raise TimeoutError(errno.ETIMEDOUT, "timed out")
        raise self._error

    def close(self) -> None:
        for sock in self._runners.values():
            sock.close()

    def _start(self, family: int, address: Any) -> None:
        try:
            sock = CountingSocket(family, socket.SOCK_STREAM)
        except OSError as error:
            self._error = error
            return
        sock.setblocking(False)
        self._runners[sock.fileno()] = sock
        code = sock.connect_ex(address)
        if code not in (0, errno.EINPROGRESS):
            self._fail(sock.fileno(), code)

    def _wait(self, limit_s: float | None) -> CountingSocket | None:
        if not self._runners:
            return None
        left = max(0.0, self._deadline - self._runtime.monotonic())
        poll = select.poll()
        for fd in self._runners:
            poll.register(fd, select.POLLOUT)
        for fd, _ in poll.poll(1000 * (left if limit_s is None else min(left, limit_s))):
            code = self._runners[fd].getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code == 0:
                return self._runners.pop(fd)
            self._fail(fd, code)
        return None

    def _fail(self, fd: int, code: int) -> None:
        self._runners.pop(fd).close()
        self._error = OSError(code, os.strerror(code))
