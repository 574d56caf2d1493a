"""Measuring round trips on loopback."""

from __future__ import annotations

import socket

import pytest

from gipper import rtt
from gipper.rtt import RoundTrip, measure, round_trip
from gipper.runtime import RealRuntime
from gipper.testing import SimRuntime


@pytest.fixture
def runtime():
    return RealRuntime()


@pytest.fixture
def no_icmp(monkeypatch):
    """A system that lets nobody send echoes."""
    real = socket.socket

    def refused(family=-1, kind=-1, proto=-1, *more):
        if proto in (socket.IPPROTO_ICMP, socket.IPPROTO_ICMPV6):
            raise PermissionError(13, "Permission denied")
        return real(family, kind, proto, *more)

    monkeypatch.setattr(rtt.socket, "socket", refused)


def test_loopback_answers(runtime):
    """Something is measured on loopback, by whichever way this system allows."""
    found = round_trip("127.0.0.1", runtime, runtime.monotonic() + 2)
    assert found is not None and 0 < found.ms < 2000 and found.basis in ("icmp", "tcp")


def test_without_icmp_a_connect_is_timed(runtime, no_icmp):
    """Where echoes aren't permitted, a listening port answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = round_trip("127.0.0.1", runtime, runtime.monotonic() + 2, server.getsockname()[1])
    assert found is not None and found.basis == "tcp" and 0 < found.ms < 2000


def test_a_refused_connect_is_an_answer(runtime, no_icmp):
    """A closed port's refusal took a round trip, too."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    found = round_trip("127.0.0.1", runtime, runtime.monotonic() + 2, port)
    assert found is not None and found.basis == "tcp"


def test_an_echo_is_measured_by_its_own_answer(runtime):
    """Strangers' answers on the same socket are passed over; only the own token counts."""
    ours, theirs = socket.socketpair(type=socket.SOCK_DGRAM)

    class Echoing:
        def sendto(self, packet, _to):
            theirs.send(b"\0" + packet[1:-1] + b"?")
            theirs.send(b"\0" + packet[1:])

        def settimeout(self, left):
            ours.settimeout(left)

        def recv(self, size):
            return ours.recv(size)

    with ours, theirs:
        until = runtime.monotonic() + 2
        assert rtt._echo(Echoing(), socket.AF_INET, ("127.0.0.1", 0), 1, runtime, until) is not None
        assert len(theirs.getsockname()) >= 0


def test_an_echo_request_has_its_checksum():
    """The internet checksum over a whole request is zero when summed again."""
    packet = rtt._packet(8, 7, b"0123456789abcdef")
    assert rtt._checksum(packet) == 0 and packet[0] == 8


def test_what_is_no_address_is_not_measured(runtime):
    """Names that don't resolve give nothing, and no exception."""
    for odd in ("", "no such host", "a" * 300, "256.1.1.1.1", "\udcff"):
        found = round_trip(odd, runtime, runtime.monotonic() + 0.5) if odd else None
        assert found is None


def test_all_are_probed_side_by_side_within_the_limit():
    """Eight probes of a second each, and one that never answers, take the limit of two, not ten."""
    runtime = SimRuntime()

    def slow(address, rt, deadline):
        rt.sleep(1000 if address == "dead" else 1)
        return RoundTrip(ms=1.0, basis="icmp")

    found = measure([*map(str, range(8)), "dead"], runtime, probe=slow)
    assert set(found) == set(map(str, range(8)))
    assert runtime.monotonic() <= 2.0


def test_an_address_is_probed_once():
    """Offers of one host share one probe."""
    asked = []

    def counting(address, rt, deadline):
        asked.append(address)

    assert measure(["a", "a", "b"], SimRuntime(), probe=counting) == {}
    assert sorted(asked) == ["a", "b"]
