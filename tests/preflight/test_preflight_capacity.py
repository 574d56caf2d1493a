"""Disk, memory and transfer rates."""

from __future__ import annotations

import os
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stubs.gpu_world import World

from gipper.builtin.checks.capacity import read
from gipper.builtin.checks.probe import amount, rate
from gipper.errors import BadHost, CommandTimeout
from gipper.remote import Completed


def free_gb(world: World) -> float:
    """GB free where the machine's home is."""
    return shutil.disk_usage(world.remote.home).free / 1e9


def test_enough_of_both_passes(any_shell: World) -> None:
    """What there is and what was promised are both in the receipt; one round trip."""
    any_shell.offered(disk_gb=0.001, memory_gb=64.0)
    facts = any_shell.check("capacity").facts
    assert facts["memory_gb"] == round(67108864 * 1024 / 1e9, 2)
    assert abs(facts["disk_gb"] - free_gb(any_shell)) < 5
    assert (facts["disk_promised_gb"], facts["memory_promised_gb"]) == (0.001, 64.0)
    assert any_shell.remote.asked == 1


def test_too_little_disk_is_bad(any_shell: World) -> None:
    """A tenth less than promised is let pass, more isn't; both numbers are told."""
    promised = free_gb(any_shell) * 1.5
    any_shell.offered(disk_gb=promised)
    bad = any_shell.fails("capacity", BadHost)
    assert f"{promised:.4g} GB of disk free were promised" in bad.message
    assert bad.facts["disk_promised_gb"] == promised
    any_shell.offered(disk_gb=free_gb(any_shell) * 1.05)
    any_shell.check("capacity")


def test_too_little_memory_is_bad(any_shell: World) -> None:
    """A machine with half the memory isn't the one that was rented."""
    any_shell.offered(memory_gb=128.0)
    bad = any_shell.fails("capacity", BadHost)
    assert "128 GB of memory were promised, there are 68.72 GB" in bad.message


def test_a_containers_limit_is_its_memory(any_shell: World) -> None:
    """What the host has doesn't help a container that may use 8 GB; either kind of control group."""
    groups = any_shell.remote.root / "cgroup"
    (groups / "memory").mkdir(parents=True)
    (groups / "memory" / "memory.limit_in_bytes").write_text("8000000000\n")
    any_shell.offered(memory_gb=32.0)
    assert "there are 8 GB" in any_shell.fails("capacity", BadHost).message
    (groups / "memory" / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    (groups / "memory.max").write_text("max\n")
    assert any_shell.check("capacity").facts["limit_gb"] is None
    (groups / "memory.max").write_text("7000000000\n")
    bad = any_shell.fails("capacity", BadHost)
    assert "there are 7 GB" in bad.message
    assert bad.facts["limit_gb"] == 7.0


def test_a_promise_of_the_whole_host_is_held_to_the_host(world: World) -> None:
    """A market that tells what the host has didn't promise more than that."""
    (world.remote.root / "cgroup").mkdir()
    (world.remote.root / "cgroup" / "memory.max").write_text("8000000000\n")
    world.offered(memory_gb=68.0)
    assert world.check("capacity").facts["limit_gb"] == 8.0
    world.offered(memory_gb=80.0)
    world.fails("capacity", BadHost)


def test_what_nobody_promised_or_tells_is_not_judged(world: World) -> None:
    """Unknown isn't too little."""
    world.check("capacity")
    world.offered(disk_gb=40.0, memory_gb=64.0)
    world.program("df", "#!/bin/sh\nexit 1\n")
    (world.remote.root / "meminfo").write_text("nothing\n")
    facts = world.check("capacity").facts
    assert (facts["disk_gb"], facts["memory_gb"]) == (None, None)


@given(st.text(max_size=200))
def test_any_answer_can_be_read(text: str) -> None:
    """Nonsense is unknown; nothing of it raises."""
    room = read(text)
    assert room.disk_gb is None or room.disk_gb >= 0


def test_no_probe_costs_nothing(world: World) -> None:
    """Without `placement.probe`, or with floors of 0, nothing is moved."""
    assert "skipped" in world.check("probe").facts
    world.probes(min_up_mbps=0, min_down_mbps=0)
    assert "skipped" in world.check("probe").facts
    assert world.remote.asked == 0


def real_clock(world: World) -> None:
    """The machine's clock is this computer's."""
    (world.remote.root / "uptime").unlink()
    (world.remote.root / "uptime").symlink_to("/proc/uptime")


def test_a_fast_enough_link_passes(any_shell: World) -> None:
    """Both directions are really moved and told in the receipt."""
    real_clock(any_shell)
    any_shell.probes(min_up_mbps=1, min_down_mbps=2)
    facts = any_shell.check("probe").facts
    assert facts["up_mbps"] >= 1
    assert facts["down_mbps"] >= 2
    assert facts["up_bytes"] == facts["down_bytes"] == 4_000_000


def test_only_what_has_a_floor_is_measured(world: World) -> None:
    """A job that asks for one direction pays for one."""
    real_clock(world)
    world.probes(min_down_mbps=1)
    assert "up_mbps" not in world.check("probe").facts


@pytest.mark.parametrize("direction", ["up", "down"])
def test_a_slow_link_is_bad(world: World, direction: str) -> None:
    """No pipe of this computer moves 10 Pb/s: the rate that was measured and the floor are told."""
    real_clock(world)
    world.probes(**{f"min_{direction}_mbps": 1e10})
    bad = world.fails("probe", BadHost)
    assert f"Mb/s {direction} were measured, the job asks for 1e+10 Mb/s" in bad.message
    assert bad.facts[f"{direction}_mbps"] > 0


@pytest.mark.parametrize("direction", ["up", "down"])
def test_a_link_that_takes_too_long_is_bad(world: World, direction: str) -> None:
    """Over 20 s: the rate is under what those bytes in that time would be."""

    class Slow:
        def ask(self, script: str, *, timeout_s: float) -> Completed:
            return Completed(status=0, stdout=b"5.0\n")

        def run(self, command: str, *, timeout_s: float, **_more: object) -> Completed:
            assert timeout_s == 20.0
            raise CommandTimeout("too slow")

    world.remote = Slow()
    world.probes(**{f"min_{direction}_mbps": 50})
    bad = world.fails("probe", BadHost)
    assert f"12.5 MB {direction} took over 20 s (under 5 Mb/s)" in bad.message
    assert bad.facts["rtt_ms"] == 0


def test_a_machine_without_a_clock_is_not_judged(world: World) -> None:
    """What can't be measured isn't blamed."""
    os.unlink(world.remote.root / "uptime")
    world.probes(min_up_mbps=10, min_down_mbps=10)
    facts = world.check("probe").facts
    assert (facts["up_mbps"], facts["down_mbps"], facts["rtt_ms"]) == (None, None, None)


@given(floor=st.floats(min_value=0, max_value=1e12), count=st.integers(0, 1 << 30))
def test_amounts_and_rates_are_bounded(floor: float, count: int) -> None:
    """4 to 32 MB are moved; a clock that ran backwards gives a high rate, never a crash."""
    assert 4_000_000 <= amount(floor) <= 32_000_000
    assert (rate(count, 10.0, 5.0, 0.1) or 0) >= 0
    assert rate(count, None, 5.0, 0.1) is None
