"""Choosing on crowds of hosts with hidden truths: what it saves, and whether forecasts hold."""

from __future__ import annotations

import pytest
from support_crowd import World, covered

from gipper.runtime import RealRuntime
from gipper.testing import CrowdMarket, Load

FIRST = 30


def test_a_crowd_is_the_same_every_time():
    """One seed gives one market and one luck; another seed another."""
    a, b, c = (CrowdMarket(RealRuntime(), seed=seed, hosts=25) for seed in (3, 3, 4))
    load = Load(compute_s=100, upload_gb=1)
    assert a.offers == b.offers != c.offers
    assert len(a.offers) == len(a.truths) == 25
    host = str(a.offers[0].host_id)
    assert a.draw(host, load, "k") == b.draw(host, load, "k") != a.draw(host, load, "l")
    assert a.free("k") == b.free("k") != a.offers


def test_hosts_break_as_often_as_their_truth_says():
    """Drawn often enough, a host's broken rentals are its hidden rate."""
    market = CrowdMarket(RealRuntime(), seed=1, hosts=10)
    host, truth = max(market.truths.items(), key=lambda item: item[1].p_fail)
    broken = sum(market.draw(host, Load(compute_s=1), str(n)).broken for n in range(2000))
    assert broken / 2000 == pytest.approx(truth.p_fail, abs=0.04)


@pytest.mark.slow
def test_choosing_on_the_whole_run_pays():
    """200 jobs on each of 3 crowds: 25 % below the cheapest hour, and within 1.25 x of an oracle."""
    gipper = cheapest = oracle = 0.0
    for seed in range(3):
        world = World(seed)
        for number in range(200):
            gipper += world.gipper(number)
            cheapest += world.cheapest(number)
            oracle += world.oracle(number)
    assert gipper <= 0.75 * cheapest
    assert oracle <= gipper <= 1.25 * oracle


def test_experience_pays():
    """The last 50 of 150 jobs come nearer to the oracle than the first 50, over a few crowds."""
    first = last = first_oracle = last_oracle = 0.0
    for seed in range(20, 24):
        world = World(seed)
        for number in range(150):
            usd, best = world.gipper(number), world.oracle(number)
            if number < 50:
                first, first_oracle = first + usd, first_oracle + best
            elif number >= 100:
                last, last_oracle = last + usd, last_oracle + best
    assert last / last_oracle < first / first_oracle


@pytest.mark.slow
def test_intervals_hold_what_they_promise():
    """200 runs on each of a few crowds with hidden distributions: after the first 30, the 80 % interval
    covers 75 to 85 % of actual wall times and dollars."""
    graded = []
    for seed in range(4):
        world = World(2000 + seed, knows=False)
        for number in range(200):
            world.gipper(number)
        assert len(world.graded) == 200
        graded += world.graded[FIRST:]
    time, usd = covered(graded)
    assert 0.75 <= time <= 0.85
    assert 0.75 <= usd <= 0.85
    assert not any(g.estimate.interval.thin for g in graded)
