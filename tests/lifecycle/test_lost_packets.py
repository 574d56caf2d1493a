"""Packets that are really lost: client and machine in networks of their own, a router between them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from support_root import cannot, need_program, need_root

NOTICED_S = 30.0
SCRIPT = Path(__file__).with_name("lost_packets.py")


@attrs.frozen
class Network:
    """Three namespaces; none of them leads anywhere else."""

    client: str
    router: str
    machine: str


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def _wire(one: str, other: str, net: str) -> None:
    """A cable between two namespaces: `net`.1 on one end, `net`.2 on the other."""
    ends = f"{one}-b", f"{other}-a"
    _ip("link", "add", ends[0], "netns", one, "type", "veth", "peer", "name", ends[1], "netns", other)
    for last, (space, end) in enumerate(zip((one, other), ends, strict=True), start=1):
        _ip("-n", space, "addr", "add", f"{net}.{last}/24", "dev", end)
        _ip("-n", space, "link", "set", end, "up")


@pytest.fixture
def network() -> Iterator[Network]:
    """Client, router and machine in a row."""
    need_root("to make networks")
    need_program("ip")
    made = Network(*(f"gp{os.getpid()}{letter}" for letter in "crm"))
    names = (made.client, made.router, made.machine)
    try:
        try:
            for name in names:
                _ip("netns", "add", name)
        except subprocess.CalledProcessError as error:
            cannot(f"no network namespaces here: {error.stderr.decode().strip()}")
        for name in names:
            _ip("-n", name, "link", "set", "lo", "up")
        _wire(made.client, made.router, "10.77.1")
        _wire(made.router, made.machine, "10.77.2")
        _ip("-n", made.client, "route", "add", "10.77.2.0/24", "via", "10.77.1.2")
        _ip("-n", made.machine, "route", "add", "10.77.1.0/24", "via", "10.77.2.1")
        forward = "echo 1 >/proc/sys/net/ipv4/ip_forward"
        subprocess.run(["ip", "netns", "exec", made.router, "sh", "-c", forward], check=True)
        yield made
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


@pytest.mark.slow
def test_lost_packets_are_noticed_and_the_run_goes_on(network: Network, tmp_path: Path) -> None:
    """The router forwards nothing any more: noticed within 30 s, connected again, nothing lost."""
    env = {**os.environ, "PYTHONPATH": str(SCRIPT.parents[1])}
    done = subprocess.run(
        ["ip", "netns", "exec", network.client, sys.executable, str(SCRIPT), str(tmp_path),
         network.machine, network.router, "10.77.2.2"],
        capture_output=True, text=True, timeout=110, check=False, env=env, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told.pop("noticed_s") <= NOTICED_S
    assert (told.pop("outcome"), told.pop("whole")) == ("succeeded", True), told
    assert told["blames"] == [None]
    assert told["alive"] == 0
