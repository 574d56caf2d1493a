"""Round trips to hosts: ICMP where this system lets ordinary users send it, else the time of a TCP connect.

Each probe runs beside the others; none is waited for beyond the limit. What doesn't answer, or has no
address that can be reached, is simply not measured.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any, Final, Literal

import attrs

from gipper.runtime import Runtime

LIMIT_S: Final = 2.0
Basis = Literal["icmp", "tcp"]

_TRIES: Final = 3
_ICMP_SHARE: Final = 0.5  # of the limit; a host that drops echoes still has time for a connect
_PORT: Final = 22
_REQUEST: Final[Mapping[int, int]] = {socket.AF_INET: 8, socket.AF_INET6: 128}
_REPLY: Final[Mapping[int, int]] = {socket.AF_INET: 0, socket.AF_INET6: 129}
_PROTOCOL: Final[Mapping[int, int]] = {
    socket.AF_INET: socket.IPPROTO_ICMP,
    socket.AF_INET6: socket.IPPROTO_ICMPV6,
}
_Where = tuple[Any, ...]  # what getaddrinfo gives: host, port, and for IPv6 flow and scope
_HEAD: Final = struct.Struct("!BBHHH")
_TOKEN_BYTES: Final = 16


@attrs.frozen(kw_only=True)
class RoundTrip:
    """A measured round trip in milliseconds, and how it was measured."""

    ms: float
    basis: Basis


Prober = Callable[[str, Runtime, float], RoundTrip | None]


def measure(
    addresses: Sequence[str], runtime: Runtime, *, limit_s: float = LIMIT_S, probe: Prober | None = None
) -> Mapping[str, RoundTrip]:
    """Round trips by address, all probed side by side and over after `limit_s` seconds in all.

    Addresses that didn't answer are missing. `probe` stands in for the network.
    """
    one, deadline = probe or round_trip, runtime.monotonic() + limit_s
    tasks = {
        address: runtime.spawn(f"rtt-{address}", lambda to=address: one(to, runtime, deadline))  # type: ignore[misc]
        for address in dict.fromkeys(addresses)
    }
    found: dict[str, RoundTrip] = {}
    for address, task in tasks.items():
        if runtime.wait_any([task.done], deadline) is None:
            task.cancel()
            continue
        if (trip := task.result()) is not None:
            found[address] = trip
    return found


def round_trip(address: str, runtime: Runtime, deadline: float, port: int = _PORT) -> RoundTrip | None:
    """The shortest of a few echoes, else the time to connect to `port` (a refusal is an answer too)."""
    try:
        infos = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    for family, _, _, _, to in infos:
        if family in _PROTOCOL:
            return _echoes(family, to, runtime, deadline) or _connect(family, to, runtime, deadline)
    return None


def _echoes(family: int, to: _Where, runtime: Runtime, deadline: float) -> RoundTrip | None:
    until = runtime.monotonic() + (deadline - runtime.monotonic()) * _ICMP_SHARE
    times: list[float] = []
    try:
        with closing(socket.socket(family, socket.SOCK_DGRAM, _PROTOCOL[family])) as sock:
            for number in range(_TRIES):
                if (ms := _echo(sock, family, to, number, runtime, until)) is None:
                    break
                times.append(ms)
    except OSError:  # not permitted here, no route, or the host says no
        pass
    return RoundTrip(ms=min(times), basis="icmp") if times else None


def _echo(
    sock: socket.socket, family: int, to: _Where, number: int, runtime: Runtime, until: float
) -> float | None:
    token = os.urandom(_TOKEN_BYTES)
    started = runtime.monotonic()
    sock.sendto(_packet(_REQUEST[family], number, token), (to[0], 0, *to[2:]))
    while (left := until - runtime.monotonic()) > 0:
        sock.settimeout(left)
        try:
            answer = sock.recv(1024)
        except TimeoutError:
            return None
        if answer[:1] == bytes([_REPLY[family]]) and answer[_HEAD.size :] == token:
            return (runtime.monotonic() - started) * 1000
    return None


def _packet(kind: int, number: int, body: bytes) -> bytes:
    """An echo request; the system fills in the identifier, and the checksum again where it changed it."""
    bare = _HEAD.pack(kind, 0, 0, 0, number) + body
    return _HEAD.pack(kind, 0, _checksum(bare), 0, number) + body


def _checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def _connect(family: int, to: _Where, runtime: Runtime, deadline: float) -> RoundTrip | None:
    if (left := deadline - runtime.monotonic()) <= 0:
        return None
    with closing(socket.socket(family, socket.SOCK_STREAM)) as sock:
        sock.settimeout(left)
        started = runtime.monotonic()
        try:
            sock.connect(to)
        except ConnectionRefusedError:
            pass
        except OSError:
            return None
        return RoundTrip(ms=(runtime.monotonic() - started) * 1000, basis="tcp")
