"""A month of 500 runs on both markets' meters: what is recorded is what was metered, however it was read."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from money_world import RUNPOD, VAST, Plan, World, plans

from gipper.billing.rentals import KINDS, Rentals
from gipper.cli.cost import collect, total
from gipper.history import open_history
from gipper.ledger.store import SqliteLedger
from gipper.values.receipts import SpendBilled

DAY = 86400.0
CENT = Decimal("0.01")
SCHEDULES: dict[str, list[tuple[float, int]]] = {
    "once at the end": [(32 * DAY, 30)],
    "once, with a window that is far too short": [(32 * DAY, 1)],
    "every day": [(n * DAY + 777, 7) for n in range(1, 33)],
    "wildly": [(random.Random(7).uniform(0, 31 * DAY), random.Random(n).randrange(0, 40)) for n in range(40)]
    + [(random.Random(n).uniform(0, 31 * DAY), n % 9) for n in range(30)]
    + [(32 * DAY, 2)],
}


def _holds(world: World) -> None:
    """Every machine's bill is the meter's, and so are the sums, to the cent."""
    for provider in (VAST, RUNPOD):
        charged = {pod: usd for pod, usd in world.charged(provider).items() if usd}
        assert world.recorded(provider) == charged
    recorded = sum(world.recorded(RUNPOD).values(), Decimal(0))
    assert abs(recorded - world.metered(RUNPOD)) < CENT
    # This market shows no more than a tenth of a cent of each line: that much is its own rounding.
    recorded, lines = sum(world.recorded(VAST).values(), Decimal(0)), len(world.vast.market.contracts) * 10
    assert abs(recorded - world.metered(VAST)) <= Decimal("0.0005") * lines


@pytest.mark.slow
@pytest.mark.parametrize("schedule", sorted(SCHEDULES))
def test_what_is_recorded_is_what_was_metered(tmp_path: Path, schedule: str) -> None:
    """30 days, 500 runs, across a month's end: any number of reconciles in any order come to the meter's sum."""
    world = World(tmp_path)
    world.live(plans(1, 500), SCHEDULES[schedule])
    assert (world.sim.now().month, len(world.recorded(VAST)) > 150) == (12, True)
    _holds(world)
    assert world.reconcile(30).recorded == ()
    # And the table says it: what `cost` shows as billed is that sum.
    billed = total(
        c for j in collect(world.ledger, world.sim.now().replace(month=11, day=1), None) for c in j.charges
    ).billed
    assert billed == sum(world.charged(VAST).values()) + sum(world.charged(RUNPOD).values())


@pytest.mark.slow
def test_one_market_is_down_for_a_week(tmp_path: Path) -> None:
    """While one market's API is down, the other's bills are recorded; afterwards nothing is missing."""
    world = World(tmp_path)
    planned = plans(2, 500)
    world.live([p for p in planned if p.begin_s + p.length_s < 8 * DAY], [(n * DAY, 2) for n in range(1, 8)])
    world.down(RUNPOD)
    before, other = dict(world.recorded(RUNPOD)), dict(world.recorded(VAST))
    late = [p for p in planned if p.begin_s >= 8 * DAY]
    world.live([p for p in late if p.begin_s + p.length_s < 15 * DAY], [(n * DAY, 2) for n in range(8, 15)])
    told = world.reconcile(2)
    assert [a.error is not None for a in told.answers] == [False, True]
    assert world.recorded(RUNPOD) == before and world.recorded(VAST) != other
    world.up(RUNPOD)
    world.until(17 * DAY)
    world.reconcile(2)
    _holds(world)


def test_the_real_ledger_and_two_at_once(tmp_path: Path) -> None:
    """On the ledger's file: two reconciles that read the same answer record each bill once; history learns."""
    world = World(tmp_path, ledger=lambda sim: SqliteLedger.open(tmp_path / "ledger", sim))
    world.live(plans(3, 30, days=6))
    world.until(8 * DAY)
    tasks = [world.sim.spawn(f"reconcile {n}", lambda: world.reconcile(7)) for n in range(2)]
    recorded = [len(task.result().recorded) for task in tasks]
    assert sum(recorded) == len(list(world.ledger.read(kinds={SpendBilled.kind})))
    _holds(world)
    assert world.ledger.verify().whole
    history = open_history(world.ledger, tmp_path / "ledger", now=world.sim.now(), days=90)
    for provider in (VAST, RUNPOD):
        rentals = Rentals.of(world.ledger.read(kinds=KINDS)).at(provider)
        both = [(m.computed.seconds, _share(m)) for m in rentals if m.computed and m.billed]
        factor = history.billing_factor(provider)
        expected = sum(s * share for s, share in both) / sum(s for s, _ in both)
        assert factor is not None and factor.value == pytest.approx(expected, rel=1e-6)
    world.ledger.close()


def _share(machine: object) -> float:
    billed, computed = machine.billed, machine.computed  # type: ignore[attr-defined]
    return float((billed.usd - billed.detail.get("bandwidth", 0)) / computed.usd)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10**6),
    reads=st.lists(st.tuples(st.floats(0, 9.5), st.integers(0, 20)), max_size=8),
    last=st.integers(0, 20),
)
def test_windows_cut_anywhere(
    tmp_path_factory: pytest.TempPathFactory, seed: int, reads: list[tuple[float, int]], last: int
) -> None:
    """Any reads at any moments with any windows, and one of any width two days after all: the meter's sum."""
    world = World(tmp_path_factory.mktemp("world"))
    world.live(plans(seed, 12, days=8), [(at * DAY, days) for at, days in reads])
    world.until(10 * DAY)
    world.reconcile(last)
    _holds(world)


def test_a_machine_older_than_any_look_back(tmp_path: Path) -> None:
    """One that was rented 60 days ago and ended today is billed as a whole, though 7 days were asked for."""
    world = World(tmp_path)
    plan = Plan(provider=RUNPOD, number=1, begin_s=0, length_s=60 * DAY, ready_s=60.0, usd_h=Decimal("0.5"))
    world.live([plan], [(30 * DAY, 7)])
    world.until(60 * DAY + 3600)
    world.reconcile(7)
    _holds(world)
