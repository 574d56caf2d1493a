"""The transfer probe: how fast bytes really go up and down, where the job asks for a least rate.

Up is from here to the machine. Times are read on the machine (hundredths of a second since its start), so
that no clock of this side is needed; the time that the last answer and the next question spend on their
way is measured with two questions and taken off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs

from gipper.api import BadHost, CheckResult, CommandTimeout, Job, Machine, Probe, Remote, hookimpl
from gipper.builtin.checks.common import skipped, with_facts

_LIMIT_S: Final = 20.0
# Two seconds' worth at the rate that is asked for: long enough to come up to speed, short enough to pay.
_SECONDS: Final = 2.0
_LEAST: Final = 4_000_000
_MOST: Final = 32_000_000
_TICK_S: Final = 0.01
_NOW: Final = 'read -r up _ </proc/uptime; echo "$up"'
_UP: Final = f"head -c 1 >/dev/null; {_NOW}; cat >/dev/null; {_NOW}"
_DOWN: Final = f"{_NOW}; head -c {{}} /dev/zero"


@attrs.frozen(kw_only=True)
class Measured:
    """One direction. `mbps` is None where the machine's clock couldn't be read."""

    bytes: int
    mbps: float | None


@hookimpl
def gipper_preflight(remote: Remote, job: Job, machine: Machine) -> CheckResult:
    """Measure the directions for which `placement.probe` has a floor. Raises BadHost for a slower one."""
    probe = job.placement.probe
    if probe is None or not (probe.min_up_mbps or probe.min_down_mbps):
        return skipped("the job asks for no rates")
    rtt_s = _round_trip(remote)
    facts: dict[str, Any] = {"rtt_ms": None if rtt_s is None else round(rtt_s * 1000)}
    for direction, floor, measure in _directions(probe):
        if floor:
            facts |= _judged(remote, direction, floor, measure, rtt_s or 0.0, facts)
    return CheckResult(facts=facts)


def amount(floor_mbps: float) -> int:
    """How many bytes tell whether a rate of `floor_mbps` is reached."""
    return int(min(max(floor_mbps * 1e6 / 8 * _SECONDS, _LEAST), _MOST))


def rate(count: int, begun: float | None, ended: float | None, rtt_s: float) -> float | None:
    """Mb/s for `count` bytes between two readings of the machine's clock, a round trip taken off."""
    if begun is None or ended is None:
        return None
    return count * 8 / 1e6 / max(ended - begun - rtt_s, _TICK_S)


Measure = Callable[[Remote, int, float], float | None]


def _directions(probe: Probe) -> tuple[tuple[str, float, Measure], ...]:
    return (("up", probe.min_up_mbps, _up), ("down", probe.min_down_mbps, _down))


def _judged(
    remote: Remote, direction: str, floor: float, measure: Measure, rtt_s: float, known: dict[str, Any]
) -> dict[str, Any]:
    count = amount(floor)
    try:
        mbps = measure(remote, count, rtt_s)
    except CommandTimeout as error:
        most = count * 8 / 1e6 / _LIMIT_S
        text = f"{count / 1e6:g} MB {direction} took over {_LIMIT_S:g} s (under {most:.3g} Mb/s)"
        raise with_facts(BadHost(f"{text}, the job asks for {floor:g} Mb/s"), known) from error
    facts = {f"{direction}_mbps": None if mbps is None else round(mbps, 1), f"{direction}_bytes": count}
    if mbps is not None and mbps < floor:
        text = f"{mbps:.3g} Mb/s {direction} were measured, the job asks for {floor:g} Mb/s"
        raise with_facts(BadHost(text), {**known, **facts})
    return facts


def _up(remote: Remote, count: int, rtt_s: float) -> float | None:
    # The clock starts with the first byte: nothing of the round trip is in it.
    done = remote.run(_UP, stdin=bytes(count), timeout_s=_LIMIT_S)
    times = done.text.split()
    return rate(count, _seconds(times[0]), _seconds(times[1]), 0.0) if len(times) == 2 else None


def _down(remote: Remote, count: int, rtt_s: float) -> float | None:
    done = remote.run(_DOWN.format(count), timeout_s=_LIMIT_S, limit=count + 4096)
    ended = _now(remote)
    head, _, data = done.stdout.partition(b"\n")
    begun = _seconds(head.decode("ascii", "replace"))
    return rate(len(data), begun, ended, rtt_s)


def _round_trip(remote: Remote) -> float | None:
    begun, ended = _now(remote), _now(remote)
    return None if begun is None or ended is None else max(0.0, ended - begun)


def _now(remote: Remote) -> float | None:
    return _seconds(remote.ask(_NOW, timeout_s=_LIMIT_S).text)


def _seconds(text: str) -> float | None:
    try:
        return float(text.strip())
    except ValueError:
        return None
