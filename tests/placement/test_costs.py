"""The cost model: worked examples, sources of each figure, and properties."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gipper.cost_client import Client
from gipper.cost_history import Failures, NoHistory, Sourced, Spread, p_fail
from gipper.cost_interval import percentiles
from gipper.costs import CostModel
from gipper.errors import ConfigError
from gipper.estimate_wire import distance_km, estimate
from gipper.values.estimates import CostAdjustment
from gipper.values.jobs import Budget, Job, Placement, RunTable, Units
from gipper.values.offers import GpuModel, Offer
from gipper.values.plugins import ProviderInfo
from gipper.values.settings import Settings

INFO = ProviderInfo(name="acme", title="Acme", ready_s=90)


class Lessons(NoHistory):
    """A history that knows what a test puts in."""

    def __init__(self, **known):
        self.known = known

    def hosts(self, provider):
        return self.known.get("hosts", ())

    def ready_s(self, provider, host):
        return self.known.get(("ready", host)) or self.known.get("ready")

    def link_mbps(self, provider, host, region, direction):
        return self.known.get(direction)

    def compute_s(self, workload, gpu):
        return self.known.get((workload, gpu))

    def setup_s(self, workload):
        return self.known.get(("setup", workload))

    def billing_factor(self, provider):
        return self.known.get("billing")

    def failures(self, provider, host):
        return self.known.get(("failures", host)) or self.known.get("failures") or Failures(0, 0, 0, 0)

    def spread(self, phase):
        return self.known.get("spread") or Spread(0.5, 0)


def model(job, history=None, info=INFO, **client):
    return CostModel(job, info, Client(**client), history or NoHistory())


def on_time(place, wall_s, **keys):
    """A job whose phases add up to `wall_s` with ready 90."""
    return place(setup_s=0, compute_s=wall_s - 90, **keys)


def failing(offer, chance, place, wall_s, usd_h, **keys):
    """The score of an offer at a set chance of failure."""
    cost_model = model(on_time(place, wall_s, **keys))
    where = cost_model.where(offer(usd_h=usd_h))
    cost_model.where = lambda _offer: where._replace(p_fail=chance)
    return cost_model.figures(offer(usd_h=usd_h)).score


def test_on_a_short_job_the_reliable_host_wins(offer, place):
    """15 minutes: $0.40/h at p 0.26 scores 1.147, $0.80/h at p 0.02 scores 0.973."""
    assert failing(offer, 0.26, place, 900, "0.40") == pytest.approx(1.147, abs=5e-4)
    assert failing(offer, 0.02, place, 900, "0.80") == pytest.approx(0.973, abs=5e-4)


def test_on_a_long_job_the_cheap_host_wins(offer, place):
    """Ten hours: 34.30 against 38.02."""
    assert failing(offer, 0.26, place, 36000, "0.40") == pytest.approx(34.30, abs=5e-3)
    assert failing(offer, 0.02, place, 36000, "0.80") == pytest.approx(38.02, abs=5e-3)


def test_objective_cost_keeps_failures_priced(offer, place):
    """Without a value of time, a failure still costs its dollars."""
    score = failing(offer, 0.26, place, 900, "0.40", objective="cost")
    assert score == pytest.approx(0.1 + 0.26 * (1.0 + 150 / 3600 * 0.40))


def test_objective_time_values_an_hour_at_fifty(offer, place):
    """`time` replaces the settings' value of an hour."""
    assert model(place(objective="time")).hour_value == 50
    assert model(place(objective="latency"), hour_value_usd=7).hour_value == 7


def test_interactive_means_latency(offer, place):
    """Profile and objective set each other on the wire."""
    for job in (place(profile="interactive"), place(objective="latency")):
        found = estimate(model(job), offer()).wire()
        assert (found["objective"], found["profile"]) == ("latency", "interactive")


def test_transfers_follow_the_slower_side(offer, place):
    """Uploads and results are held to the client's rate where it is lower; the job's own fetch isn't."""
    job = place(
        upload_gb=1, setup_download_gb=1, download_gb=1, client_upload_mbps=100, client_download_mbps=50
    )
    found = model(job).phases(offer(down_mbps=1000, up_mbps=500))
    assert found.upload == pytest.approx(8000 / 70)
    assert found.fetch == pytest.approx(8000 / 700)
    assert found.download == pytest.approx(8000 / 35)


def test_unknown_rates_fall_back(offer, place):
    """Without an advertised rate (or with a nonsensical one) the fallback counts, less the efficiency."""
    job = place(upload_gb=1)
    for rate in (None, 0, -5):
        assert model(job).phases(offer(down_mbps=rate)).upload == pytest.approx(8000 / 140)


def test_measured_rates_are_taken_as_they_are(offer, place):
    """History's rates win over advertised ones and aren't cut again."""
    seen = Lessons(down=Sourced(80.0, "history: 4 rentals"), up=Sourced(40.0, "history: 4 rentals"))
    found = estimate(model(place(upload_gb=1, download_gb=1), seen), offer(down_mbps=9000, up_mbps=9000))
    assert found.phases.upload == pytest.approx(100)
    assert found.phases.download == pytest.approx(200)
    assert "history" in found.basis["fetch"]


@pytest.mark.parametrize("rate", [0.0, 1e-9])
def test_an_absurd_configuration_stays_finite(offer, place, rate):
    """A rate of nothing makes a job slow, not infinite."""
    job = place(
        upload_gb=1, download_gb=1, fallback_mbps=rate, client_upload_mbps=rate, client_download_mbps=rate
    )
    assert math.isfinite(model(job).figures(offer()).score)


def test_compute_takes_the_best_source(offer, job):
    """By GPU, then units over throughput, then compute_s, then history, then 30 min or max_hours."""
    by_gpu = Placement(compute_s=50, compute_s_by_gpu={"H100": 7, "RTX 4090": 10})
    units, seen = Units(count=1000), Lessons()
    seen.known[("w", "RTX 4090")] = Sourced(33.0, "history")
    cases = [
        (job(placement=by_gpu, units=units), {"throughput": 10.0}, 10),
        (job(placement=Placement(compute_s=50), units=units), {"throughput": 10.0}, 100),
        (job(placement=Placement(compute_s=50), units=units, workload="w"), {}, 50),
        (job(workload="w"), {}, 33),
        (job(), {}, 1800),
        (job(), {"max_hours": 0.1}, 360),
    ]
    for one, client, expected in cases:
        assert model(one, seen, **client).phases(
            offer(gpu="NVIDIA GeForce RTX 4090")
        ).compute == pytest.approx(expected)


def test_setup_takes_the_best_source(offer, job):
    """placement.setup_s, then history, then 0 where nothing can run before the command, then 120 s."""
    run, told = RunTable(command="true", setup="make"), Placement(setup_s=7)
    seen = Lessons()
    seen.known[("setup", "w")] = Sourced(33.0, "history: 3 runs")
    bare = attrs.evolve(INFO, bootstrap=False)
    cases = [
        (job(run=run, workload="w", placement=told), bare, 7, "placement.setup_s"),
        (job(run=run, workload="w"), bare, 33, "history: 3 runs"),
        (job(workload="w"), bare, 0, "no run.setup"),
        (job(workload="w"), INFO, 120, "usual set-up time"),
        (job(run=run), bare, 120, "usual set-up time"),
    ]
    for one, info, seconds, source in cases:
        found = estimate(model(one, seen, info), offer())
        assert (found.phases.setup, found.basis["setup"]) == (seconds, source)


def test_a_throughput_of_nothing_is_wrong_use():
    """Zero, negative and endless throughputs are refused."""
    for bad in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ConfigError):
            Client(throughput=bad)


def test_upload_size_is_the_inputs_unless_the_job_says(offer, place):
    """`placement.upload_gb` wins over what was counted."""
    assert estimate(model(place(), upload_bytes=5 * 10**8), offer())["upload_gb"] == 0.5
    assert estimate(model(place(upload_gb=2), upload_bytes=5 * 10**8), offer())["upload_gb"] == 2


def test_ready_comes_from_the_machine_then_the_provider_then_its_default(offer, place):
    """A machine with a history of its own is not judged by its provider's."""
    seen = Lessons(hosts={"m1"}, ready=Sourced(60.0, "provider"))
    seen.known[("ready", "m1")] = Sourced(20.0, "machine")
    assert model(place(), seen).phases(offer(host_id="m1")).ready == 20
    assert model(place(), seen).phases(offer(host_id="m2")).ready == 60
    assert model(place()).phases(offer()).ready == 90
    assert model(place(), info=attrs.evolve(INFO, ready_s=0)).phases(offer()).ready == 180


def test_bandwidth_is_priced_by_the_hosts_side(offer, place):
    """What goes to the host pays its download fee, what comes home its upload fee."""
    job = place(upload_gb=2, setup_download_gb=3, download_gb=4)
    priced = offer(download_usd_per_gb=Decimal("0.01"), upload_usd_per_gb=Decimal("0.05"))
    found = estimate(model(job), priced)
    assert found.bandwidth_usd == pytest.approx(0.25)
    assert (found.bandwidth_known, found["cost_is_lower_bound"]) == (True, False)


def test_untold_fees_make_a_lower_bound(offer, place):
    """A fee that isn't told counts as nothing and marks the total."""
    found = estimate(model(place(upload_gb=2)), offer(upload_usd_per_gb=None))
    assert (found["estimated_bandwidth_usd"], found["known_bandwidth_usd"]) == (None, 0)
    assert (found["bandwidth_fees_known"], found["cost_is_lower_bound"]) == (False, True)


def test_adjustments_and_the_billing_factor(offer, place):
    """Dollars are added, factors multiply the rental, and nothing else is touched."""
    fees = (CostAdjustment(label="start fee", usd=0.5), CostAdjustment(label="free loading", factor=0.5))
    seen = Lessons(billing=Sourced(1.2, "5 bills"))
    found = estimate(model(place(setup_s=0, compute_s=3510), seen), offer(usd_h="2"), fees)
    assert found.rental_usd == pytest.approx(2.0)
    assert found.usd == pytest.approx(2.0 * 1.2 * 0.5 + 0.5)
    assert [a["label"] for a in found.wire()["adjustments"]] == ["start fee", "free loading"]


def test_p_fail_shrinks_towards_prior_and_provider():
    """The formula by hand: provider (3+0.5)/(10+5), machine (2+2p)/(2+2)."""
    assert p_fail(Failures(0, 0, 0, 0)) == pytest.approx(0.10)
    provider = 3.5 / 15
    assert p_fail(Failures(3, 10, 0, 0)) == pytest.approx(provider)
    assert p_fail(Failures(3, 10, 2, 2)) == pytest.approx((2 + 2 * provider) / 4)


WIRE = """
wall_s usd score rtt_ms rtt_basis phases_s rental_usd bandwidth_usd bandwidth_known billing_factor
p_fail risk_usd objective hour_value_usd basis adjustments interval profile estimated_total_usd
estimated_bandwidth_usd known_bandwidth_usd bandwidth_fees_known cost_is_lower_bound setup_s
setup_download_s upload_s download_s compute_s upload_gb download_gb setup_download_gb
host_download_mbps host_upload_mbps host_download_usd_per_gb host_upload_usd_per_gb
effective_upload_mbps effective_download_mbps dlperf measured_rtt_ms latency_target distance_km
assumptions
"""


def test_the_wire_format_has_exactly_these_keys(offer, job):
    """The estimate is a public format: no key more, none less, whatever is known."""
    for one in (offer(), offer(gpu=None), offer(down_mbps=5, download_usd_per_gb=None, location=(1.0, 2.0))):
        found = estimate(model(job()), one).wire()
        assert set(found) == set(WIRE.split())
        assert set(found["phases_s"]) == {"ready", "setup", "upload", "fetch", "compute", "download"}
        assert set(found["interval"]) == {"wall_s", "usd", "thin"}
        assert found["usd"] == found["estimated_total_usd"]


def test_the_estimate_is_made_of_the_ranked_figures(offer, place):
    """What is shown and what ranked are the same numbers."""
    cost_model, one = model(place(upload_gb=3, download_gb=1)), offer(down_mbps=300, up_mbps=30)
    figures, shown = cost_model.figures(one), estimate(cost_model, one)
    assert (shown.score, shown.usd, shown.wall_s) == (
        figures.score,
        figures.expected_usd,
        pytest.approx(figures.wall_s),
    )


def test_percentiles_of_one_phase_are_its_own():
    """A single log-normal comes back as it is: median times exp(-+1.2816 sigma)."""
    low, high = percentiles([(100.0, 0.5)])
    assert (low, high) == (pytest.approx(52.69, abs=0.01), pytest.approx(189.8, abs=0.05))


def test_independent_phases_are_surer_than_one():
    """Ten equal phases spread less, relative to their sum, than one of them."""
    low, high = percentiles([(10.0, 0.5)] * 10)
    assert high / low < 189.8 / 52.69
    assert low < 100 * math.exp(0.125) < high


def test_an_interval_is_thin_until_five_runs(offer, place):
    """Below five observations the usual spread counts and is marked; above it history's own."""
    few = estimate(model(place(), Lessons(spread=Spread(0.01, 4))), offer()).interval
    many = estimate(model(place(), Lessons(spread=Spread(0.01, 5))), offer()).interval
    assert (few.thin, many.thin) == (True, False)
    assert many.wall_s[1] / many.wall_s[0] < 1.05 < few.wall_s[1] / few.wall_s[0]


def test_the_dollar_interval_follows_wall_time(offer, place):
    """Fixed dollars don't spread: a price of nothing leaves only them."""
    fee = (CostAdjustment(label="fee", usd=0.5),)
    found = estimate(model(place()), offer(usd_h="0"), fee).interval
    assert found.usd == (0.5, 0.5)


def test_distance_between_cities():
    """Great-circle kilometres; unknown places give None."""
    assert distance_km((52.52, 13.405), (48.857, 2.352)) == pytest.approx(878, abs=5)
    assert distance_km(None, (0.0, 0.0)) is None


def test_the_clients_figures_come_from_settings_and_job(job):
    """`budget.max_hours` wins over `default_max_hours`."""
    settings = Settings(hour_value_usd=9.0, failure_cost_usd=2.0, default_max_hours=4.0)
    found = Client.of(settings, job(budget=Budget(max_hours=1.5)))
    assert (found.hour_value_usd, found.failure_cost_usd, found.max_hours) == (9.0, 2.0, 1.5)
    assert Client.of(settings, job()).max_hours == 4.0


amounts = st.floats(0, 1e6)
prices = st.decimals(0, 10_000, places=6)


@st.composite
def situations(draw):
    """A provider's chance of failure, an offer and a job."""
    place = Placement(
        objective=draw(st.sampled_from(["auto", "cost", "time", "latency"])),
        setup_s=draw(amounts),
        compute_s=draw(amounts),
        upload_gb=draw(st.floats(0, 1e4)),
        download_gb=draw(st.floats(0, 1e4)),
        setup_download_gb=draw(st.floats(0, 1e4)),
    )
    one = Offer(
        provider="acme",
        id="o",
        usd_h=draw(prices),
        gpu=GpuModel(name="L4", memory_gb=24),
        gpu_count=1,
        down_mbps=draw(st.none() | st.floats(-10, 1e5)),
        up_mbps=draw(st.none() | st.floats(-10, 1e5)),
        download_usd_per_gb=draw(st.none() | st.decimals(0, 10, places=4)),
        upload_usd_per_gb=draw(st.none() | st.decimals(0, 10, places=4)),
    )
    n = draw(st.integers(0, 100))
    failures = Failures(draw(st.integers(0, n)), n, 0, 0)
    job = Job(name="j", run=RunTable(command="x"), folder=Path("/"), placement=place)
    return job, one, Lessons(failures=failures, ready=Sourced(draw(amounts), "h"))


def score(job, one, history):
    return model(job, history).figures(one).score


@given(situations())
def test_scores_are_finite_and_not_negative(situation):
    """Whatever the market says, a score can be compared."""
    assert 0 <= score(*situation) < math.inf


@given(situations(), st.decimals(0, 1000, places=6))
def test_a_dearer_offer_never_scores_better(situation, more):
    """The score grows with dollars an hour."""
    job, one, history = situation
    assert score(job, attrs.evolve(one, usd_h=one.usd_h + more), history) >= score(job, one, history)


@given(situations(), amounts)
@pytest.mark.parametrize("key", ["setup_s", "compute_s", "upload_gb", "download_gb", "setup_download_gb"])
def test_a_longer_phase_never_scores_better(key, situation, more):
    """The score grows with every phase that the job sets."""
    job, one, history = situation
    longer = attrs.evolve(job.placement, **{key: getattr(job.placement, key) + more})
    assert score(attrs.evolve(job, placement=longer), one, history) >= score(job, one, history)


@given(situations(), amounts)
def test_a_longer_wait_never_scores_better(situation, more):
    """The score grows with the time until SSH answers."""
    job, one, history = situation
    later = Lessons(**{**history.known, "ready": Sourced(history.known["ready"].value + more, "h")})
    assert score(job, one, later) >= score(job, one, history)


@given(situations())
def test_a_worse_record_never_scores_better(situation):
    """The score grows with the chance of failure."""
    job, one, history = situation
    bad, n, _, _ = history.known["failures"]
    worse = Lessons(**{**history.known, "failures": Failures(bad + 1, n + 1, 0, 0)})
    assert p_fail(worse.known["failures"]) > p_fail(history.known["failures"])
    assert score(job, one, worse) >= score(job, one, history)


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000))
def test_p_fail_stays_a_chance(bad, good, bad_m, good_m):
    """Strictly between 0 and 1, and near the machine's own rate once that is well known."""
    found = p_fail(Failures(bad, bad + good, bad_m, bad_m + good_m))
    assert 0 < found < 1
    n = bad_m + good_m
    assert n == 0 or abs(found - bad_m / n) <= 2 / (n + 2)


@given(st.lists(st.tuples(st.floats(0, 1e7), st.floats(0, 50)), max_size=6))
def test_percentiles_are_ordered_and_finite(terms):
    """No history makes an interval upside down or endless."""
    low, high = percentiles(terms)
    assert 0 <= low <= high < math.inf
