"""Interactive jobs: the round trip comes before the score."""

from __future__ import annotations

import attrs
import pytest

from gipper.rtt import RoundTrip
from gipper.testing import SimRuntime
from gipper.values.jobs import GpuWants, Placement

BERLIN = (52.5, 13.4)


@pytest.fixture
def near(job, run_plan):
    """Plans an interactive job; `times` are what probes measure by address."""

    def planned(provider, times=None, *, asked=None, location=BERLIN, **more):
        def probe(address, _runtime, _deadline):
            if asked is not None:
                asked.append(address)
            ms = (times or {}).get(address)
            return None if ms is None else RoundTrip(ms=ms, basis="icmp")

        wanted = job(placement=Placement(profile="interactive", client_location=location), **more)
        return run_plan(wanted, provider, runtime=SimRuntime(), probe=probe)

    return planned


def ids(plan):
    return [r.offer.id for r in plan.ranked]


def test_measured_before_distance_before_unknown(near, offer, provider):
    """RTT first whatever the price; then the nearer country; a place unknown comes last."""
    offers = [
        offer("unknown", "0.01", region=None),
        offer("far", "0.02", region="JP"),
        offer("close", "0.90", region="PL"),
        offer("slow", "0.03", address="10.0.0.1"),
        offer("quick", "2.00", address="10.0.0.2"),
    ]
    found = near(provider("acme", offers), {"10.0.0.1": 180.0, "10.0.0.2": 12.0})
    assert ids(found) == ["quick", "slow", "close", "far", "unknown"]


def test_an_own_location_beats_the_country(near, offer, provider):
    """A host that tells where it stands isn't put in the middle of its country."""
    offers = [offer("us", region="US"), offer("us-but-here", region="US", location=(52.4, 13.1), usd_h="3")]
    assert ids(near(provider("acme", offers))) == ["us-but-here", "us"]


def test_without_a_place_of_its_own_the_score_decides(near, offer, provider):
    """No client_location and no answer: as in any other job."""
    offers = [offer("b", "0.5", region="PL"), offer("a", "0.4", region="JP")]
    assert ids(near(provider("acme", offers), location=None)) == ["a", "b"]


def test_equal_round_trips_keep_the_score(near, offer, provider):
    """Two offers of one host: the better score first."""
    offers = [offer("dear", "2", address="h"), offer("cheap", "1", address="h")]
    assert ids(near(provider("acme", offers), {"h": 5.0})) == ["cheap", "dear"]


def test_preferred_gpus_still_come_first(near, offer, provider):
    """Nearness orders GPUs that are equally preferred."""
    offers = [offer("l4", gpu="L4", address="x"), offer("h", gpu="H100", usd_h="3")]
    found = near(provider("acme", offers), {"x": 1.0}, gpu=GpuWants(prefer=("H100",)))
    assert ids(found) == ["h", "l4"]


def test_only_the_best_eight_with_an_address_are_probed(near, offer, provider):
    """Eight packets at most, to the offers with the best scores."""
    offers = [offer(f"{n:02}", f"0.{n + 10}", address=f"10.0.0.{n}") for n in range(12)]
    asked = []
    near(provider("acme", [offer("none", "0.01"), *offers]), asked=asked)
    assert sorted(asked) == sorted(f"10.0.0.{n}" for n in range(8))


def test_the_estimate_tells_round_trip_and_basis(near, offer, provider):
    """Measured: ms and how; else the distance; the flat name agrees; the key set stays."""
    offers = [offer("m", address="h"), offer("d", region="PL"), offer("u", region=None)]
    m, d, u = (r.estimate.wire() for r in near(provider("acme", offers), {"h": 7.5}).ranked)
    assert (m["rtt_ms"], m["measured_rtt_ms"], m["rtt_basis"]) == (7.5, 7.5, "icmp")
    assert d["rtt_ms"] is None and d["rtt_basis"].startswith("distance, ") and d["distance_km"] < 700
    assert (u["rtt_ms"], u["rtt_basis"], u["distance_km"]) == (None, "unknown", None)
    assert m.keys() == d.keys() == u.keys()


def test_the_plan_holds_what_was_measured_for_receipts(near, offer, provider):
    """One entry for each probed offer that answered; other jobs measure nothing."""
    found = near(provider("acme", [offer("a", address="x"), offer("b", address="y")]), {"x": 3.0})
    assert [attrs.asdict(r) for r in found.rtts] == [
        {"provider": "acme", "offer": "a", "ms": 3.0, "basis": "icmp"}
    ]


def test_other_jobs_are_not_probed(job, offer, provider, run_plan):
    """A batch job sends no packet to anybody."""

    def never(*_given):
        raise AssertionError("probed")

    found = run_plan(job(), provider("acme", [offer(address="h")]), probe=never)
    assert found.rtts == () and found.ranked[0].estimate.rtt_basis is None
