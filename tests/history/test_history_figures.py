"""What rentals teach, figure by figure, from receipts made by hand."""

from __future__ import annotations

import math
import statistics
from datetime import timedelta
from decimal import Decimal

import pytest
from history_world import MB, NOW, Trail, told

from gipper.cost_client import Client
from gipper.cost_history import DEFAULT_SIGMA, Failures, History, Sourced, Spread
from gipper.costs import CostModel
from gipper.estimate_wire import estimate
from gipper.history_report import calibration_lines, machine_lines, provider_lines
from gipper.values.jobs import Job, RunTable
from gipper.values.offers import GpuModel, Offer
from gipper.values.plugins import ProviderInfo
from gipper.values.receipts import PodCreate, PodReady, PodReappeared, PodTerminate, SpendBilled


def test_nothing_is_known_at_first(trail: Trail) -> None:
    """An empty ledger answers like a client that never rented, and leaves no file."""
    history: History = trail.history()
    assert list(history.hosts("acme")) == []
    assert history.ready_s("acme", "h1") is None
    assert history.link_mbps("acme", "h1", "US", "up") is None
    assert history.compute_s("train", "RTX 4090") is None
    assert history.billing_factor("acme") is None
    assert history.failures("acme", "h1") == Failures(0, 0, 0, 0)
    assert not history.bad_twice("acme", "h1")
    assert history.spread("compute") == Spread(DEFAULT_SIGMA, 0)
    assert not (trail.folder / "history.summary").exists()


def test_ready_is_the_median_of_three(trail: Trail) -> None:
    """Three rentals of a provider give its median, three of a machine the machine's own."""
    for host, ready in (("h1", 10.0), ("h2", 40.0)):
        trail.rent(host=host, ready=ready)
    assert trail.history().ready_s("acme", None) is None
    trail.rent(host="h1", ready=20.0)
    trail.rent(host="h1", ready=None)
    history = trail.history()
    assert history.ready_s("acme", "h1") == (20.0, "history: this provider, 3 rentals")
    assert history.ready_s("emca", None) is None
    trail.rent(host="h1", ready=12.0)
    history = trail.history()
    assert history.ready_s("acme", "h1") == (12.0, "history: this machine, 3 rentals")
    assert history.ready_s("acme", "new") == (16.0, "history: this provider, 4 rentals")


def test_letting_in_again_is_no_boot(trail: Trail) -> None:
    """A client that takes a run over and is let in at once doesn't change how long the machine took."""
    for _ in range(3):
        trail.rent(ready=50.0)
    trail.add("run3", PodReady(provider="acme", pod="p3", seconds=0.1, address="a", port=22, host_key="k"))
    ready = trail.history().ready_s("acme", None)
    assert ready is not None and ready.value == 50.0


def test_links_by_machine_country_and_provider(trail: Trail) -> None:
    """Mb/s of what was brought home: the machine's own, else of its country, else of the provider."""
    trail.rent(host="h1", region="US", brought=[(100 * MB, 8.0)])
    for _ in range(3):
        trail.rent(host="h2", region="SE", brought=[(100 * MB, 4.0)])
    history = trail.history()
    assert history.link_mbps("acme", "h1", "US", "up") == (100.0, "measured on this machine, 1 rental")
    assert history.link_mbps("acme", "new", "SE", "up") == (200.0, "measured in SE, 3 rentals")
    assert history.link_mbps("acme", "new", "US", "up") == (200.0, "measured on this provider, 4 rentals")
    assert history.link_mbps("acme", None, None, "down") is None


def test_uploads_measure_the_host_s_download(trail: Trail) -> None:
    """Bytes that went up over the run's upload seconds; under 1 MB nothing is measured."""
    trail.rent(host="h1", sent=50 * MB, actual={"upload": 4.0})
    trail.rent(host="h2", sent=MB - 1, actual={"upload": 4.0}, brought=[(MB - 1, 1.0), (0, 0.0)])
    history = trail.history()
    down = history.link_mbps("acme", "h1", None, "down")
    assert down is not None and down.value == pytest.approx(100.0)
    assert history.link_mbps("acme", "h2", None, "down") is None
    assert history.link_mbps("acme", "h2", None, "up") is None


def test_compute_is_of_succeeded_runs_of_one_workload_and_model(trail: Trail) -> None:
    """The median of the command's seconds; any spelling of the model; failed runs teach nothing."""
    for gpu, seconds in (("RTX 4090", 100.0), ("NVIDIA GeForce RTX 4090", 300.0), ("L4", 900.0)):
        trail.rent(gpu=gpu, actual={"compute": seconds})
    trail.rent(outcome="failed", actual={"compute": 1.0})
    trail.rent(workload="other", actual={"compute": 2.0})
    trail.rent(gpu=None, actual={"compute": 5.0})
    history = trail.history()
    assert history.compute_s("train", "RTX 4090") == (200.0, "history: 2 runs on RTX 4090")
    assert history.compute_s("train", "cpu") == (5.0, "history: 1 runs on cpu")
    assert history.compute_s("train", "H100") is None
    assert history.compute_s("unheard of", "RTX 4090") is None


def test_names_that_are_used_twice_are_kept_apart(trail: Trail) -> None:
    """A workload may be called like a provider: an unknown model of it is still unknown."""
    trail.rent(provider="acme", workload="acme", gpu="L4", actual={"compute": 7.0})
    history = trail.history()
    assert history.compute_s("acme", "acme") is None
    assert history.compute_s("acme", "L4") == (7.0, "history: 1 runs on L4")


def test_billing_factor_needs_three_and_weighs_by_seconds(trail: Trail) -> None:
    """Billed over computed, bandwidth left out, adjustments in, the longest run weighing most."""
    extra = told(
        adjustments=[{"label": "start", "usd": 0.5, "factor": 1.0}, {"label": "x", "usd": 0.0, "factor": 2.0}]
    )
    trail.rent(usd="1", seconds=3600.0, bills=[("1.9", {"gpu": "1.2", "bandwidth": "0.7"})])
    trail.rent(usd="1", seconds=3600.0, bills=[("1.0", {"gpu": "1.0"})], told=extra)
    assert trail.history().billing_factor("acme") is None
    trail.rent(usd="2", seconds=7200.0, bills=[("2.2", {"gpu": "2.2"})])
    trail.rent(usd="1")
    factor = trail.history().billing_factor("acme")
    expected = (3600 * 1.2 / 1 + 3600 * 1.0 / 2.5 + 7200 * 2.2 / 2) / 14400
    assert factor is not None and factor.value == pytest.approx(expected)
    assert factor.source == "history: 3 bills"


def test_d_075_tiny_runs_do_not_blow_up_estimates(trail: Trail) -> None:
    """Minimum charges of many tiny runs (5.4 times what was computed) at most double a long run's estimate,
    and hardly count beside a long run."""
    for _ in range(20):
        trail.rent(usd="0.0047", seconds=47.0, bills=[("0.0252", {"gpu": "0.0252"})])
    factor = trail.history().billing_factor("acme")
    assert factor is not None and factor.value == 2.0
    trail.rent(usd="36", seconds=360_000.0, bills=[("36", {"gpu": "36"})])
    factor = trail.history().billing_factor("acme")
    assert factor is not None and 1.0 <= factor.value < 1.02


def test_d_074_the_fullest_bill_counts(trail: Trail) -> None:
    """Bills of one machine that grow and shrink are one bill, the largest, with its own bandwidth."""
    grown = [(usd, {"gpu": usd, "bandwidth": "0.01"}) for usd in ("0.05", "0.09", "0.07", "0.09")]
    for _ in range(3):
        trail.rent(usd="0.08", bills=grown)
    factor = trail.history().billing_factor("acme")
    assert factor is not None and factor.value == pytest.approx(1.0)


def test_good_bad_and_neither(trail: Trail) -> None:
    """Good: the job started. Bad: the host was blamed, also later. Neither: all else, and it doesn't count."""
    trail.rent()
    trail.rent(started=False, blame="host", why="SSH never came up")
    trail.rent(started=True, blame="host", why="lost")
    trail.rent(started=False, blame="unsuitable")
    trail.rent(started=False, outcome="interrupted")
    history = trail.history()
    assert history.failures("acme", None) == Failures(2, 3, 0, 0)
    assert history.failures("acme", "h1") == Failures(2, 3, 2, 3)
    assert history.failures("emca", "h1") == Failures(0, 0, 0, 0)


def test_an_interrupted_run_leaves_no_bad_mark(trail: Trail) -> None:
    """Ctrl-C while checks run blames nobody: the machine isn't even shown."""
    trail.rent(started=False, outcome="interrupted", actual={})
    assert machine_lines(trail.history()) == []
    assert provider_lines(trail.history())[0].bad == 0


def test_a_retried_teardown_takes_no_blame_away(trail: Trail) -> None:
    """The reaper that asks once more knows no fault; the first word stays."""
    trail.rent(started=False, blame="host", why="GPU busy", proved=False)
    again = PodTerminate(
        provider="acme", pod="p1", name="name-p1", why="unfinished", answer="accepted", answered=NOW
    )
    trail.add("run1", again)
    assert trail.history().failures("acme", "h1").bad_machine == 1
    assert provider_lines(trail.history())[0].reasons == (("GPU busy", 1),)


@pytest.mark.parametrize(
    ("story", "expected"),
    [("bb", True), ("gbb", True), ("bgb", False), ("b", False), ("bbg", False), ("bnb", True), ("", False)],
)  # fmt: skip
def test_bad_twice_running(trail: Trail, story: str, expected: bool) -> None:
    """The last two that were good or bad were bad; what was neither says nothing."""
    for letter in story:
        trail.rent(started=letter == "g", blame="host" if letter == "b" else None)
    assert trail.history().bad_twice("acme", "h1") is expected


def test_the_window_forgets(trail: Trail) -> None:
    """What is older than `history_days` doesn't count, and counts again in a longer window, without a rescan."""
    trail.clock.at = NOW - timedelta(days=100)
    trail.rent(host="old", blame="host", started=False)
    trail.clock.at = NOW - timedelta(days=1)
    trail.rent(host="new")
    assert trail.history().failures("acme", None) == Failures(0, 1, 0, 0)
    assert list(trail.history().hosts("acme")) == ["new"]
    assert trail.history(days=101).failures("acme", None) == Failures(1, 2, 0, 0)


def test_spread_is_that_of_logs_and_needs_five(trail: Trail) -> None:
    """Mean and standard deviation of ln(actual / predicted); below five observations the usual 0.5."""
    actual = (50.0, 100.0, 150.0, 220.0, 90.0)
    for seconds in actual[:4]:
        trail.rent(told=told(compute=100.0), actual={"compute": seconds})
    assert trail.history().spread("compute") == Spread(DEFAULT_SIGMA, 4)
    trail.rent(told=told(compute=100.0), actual={"compute": actual[4]})
    logs = [math.log(a / 100) for a in actual]
    seen = trail.history().spread("compute")
    assert (seen.n, seen.sigma) == (5, pytest.approx(statistics.stdev(logs)))
    assert seen.bias == pytest.approx(statistics.fmean(logs))
    assert trail.history().spread("no such phase").n == 0


def test_guesses_failures_and_trifles_are_not_graded(trail: Trail) -> None:
    """A guess says nothing of what was learnt later, a failed run nothing at all, nor does under a second."""
    trail.rent(told=told(compute=1800.0, guessed=["compute"]), actual={"compute": 3.0})
    trail.rent(told=told(compute=100.0), actual={"compute": 3.0}, outcome="failed")
    trail.rent(told=told(compute=0.9), actual={"compute": 0.01})
    trail.rent(actual={"compute": 100.0})
    assert trail.history().spread("compute").n == 0


def test_set_up_is_what_the_measured_phases_leave(trail: Trail) -> None:
    """Wall less ready, upload, compute and download is set-up, shared with the job's own downloads."""
    forecast = told(ready=30.0, setup=60.0, fetch=20.0, compute=100.0, download=10.0)
    actual = {
        "ready": 30.0,
        "upload": 0.0,
        "compute": 100.0,
        "download": 10.0,
        "wall_s": 180.0,
        "setup": None,
    }
    trail.rent(told=forecast, actual=actual)
    off = trail.history().window.off
    assert off("setup") == [pytest.approx(math.log(0.5))]
    assert off("fetch") == [pytest.approx(math.log(0.5))]
    assert off("wall") == [pytest.approx(math.log(180 / 220))]


def test_set_up_is_learnt_where_it_was_measured(trail: Trail) -> None:
    """The median of a workload's succeeded runs once three have it, on whichever machine; no other's."""
    for seconds in (10.0, 40.0):
        trail.rent(actual={"compute": 1.0, "setup": seconds, "wall_s": 500.0})
    trail.rent(actual={"compute": 1.0, "setup": None, "wall_s": 500.0})
    trail.rent(actual={"setup": 900.0, "wall_s": 950.0}, outcome="failed")
    assert trail.history().setup_s("train") is None
    trail.rent(provider="emca", actual={"compute": 1.0, "setup": 20.0})
    assert trail.history().setup_s("train") == Sourced(20.0, "history: 3 runs")
    assert trail.history().setup_s("other") is None


def test_a_measured_set_up_is_shared_with_the_downloads_in_it(trail: Trail) -> None:
    """What the job fetched while it set up isn't learnt as set-up: the estimate would count it twice."""
    forecast = told(ready=30.0, setup=60.0, fetch=20.0, compute=100.0)
    actual = {"ready": 30.0, "setup": 40.0, "compute": 100.0, "wall_s": 500.0}
    for _ in range(3):
        trail.rent(told=forecast, actual=actual)
    history = trail.history()
    assert history.setup_s("train") == Sourced(30.0, "history: 3 runs")
    assert history.window.off("setup") == [pytest.approx(math.log(0.5))] * 3
    assert history.window.off("fetch") == [pytest.approx(math.log(0.5))] * 3


def test_the_estimate_of_the_machine_that_ran_is_graded(trail: Trail) -> None:
    """Of two tries the second one's estimate is compared, though nothing is told at the run's end."""
    trail.rent(
        pod="a", run="run", host="h1", told=told(compute=10.0), started=False, blame="host", outcome=None
    )
    trail.rent(pod="b", run="run", host="h2", told=told(compute=100.0), actual={"compute": 200.0})
    assert trail.history().window.off("compute") == [pytest.approx(math.log(2))]


def test_a_bias_moves_the_interval(trail: Trail) -> None:
    """Forecasts that were always half of what came have intervals around twice their figure."""
    for _ in range(6):
        trail.rent(told=told(compute=100.0), actual={"compute": 200.0})
    job = Job(name="train", run=RunTable(command="true"), folder=trail.folder)
    model = CostModel(
        job, ProviderInfo(name="acme", title="A", ready_s=1.0), Client(max_hours=9), trail.history()
    )
    found = estimate(
        model, Offer(provider="acme", id="o", usd_h=Decimal(1), gpu=GpuModel(name="RTX 4090", memory_gb=24))
    )
    assert found.phases.compute == 200.0
    assert found.interval.wall_s[0] > 400.0


def test_machine_ids_are_each_provider_s_own(trail: Trail) -> None:
    """Equal ids on two markets, and one that a market gives again under a new name, are three rentals."""
    trail.rent(provider="acme", pod="7", host="h1", blame="host", started=False)
    trail.rent(provider="emca", pod="7", host="h2")
    trail.rent(provider="acme", pod="7", name="again", host="h3")
    history = trail.history()
    assert history.failures("acme", "h3") == Failures(1, 2, 0, 1)
    assert history.failures("emca", "h2") == Failures(0, 1, 0, 1)


def test_a_machine_s_host_may_be_known_after_renting(trail: Trail) -> None:
    """The host that the created machine tells is the rental's, where the offer told none."""
    pod = {"provider": "acme", "pod": "late", "name": "n", "usd_h": Decimal(1)}
    trail.add("run", PodCreate(**pod, host_id="told"))
    assert list(trail.history().hosts("acme")) == ["told"]


def test_receipts_of_another_shape_teach_nothing(trail: Trail) -> None:
    """A bill for an unknown machine, or without what this gipper looks for, is passed over."""
    trail.rent()
    trail.add(None, SpendBilled(provider="acme", pod="unknown", usd=Decimal(1), detail={}, basis="billed"))
    trail.rent(told={"phases_s": {}}, actual={"compute": "fast"})
    assert trail.history().failures("acme", None).n == 2


def test_provider_lines(trail: Trail) -> None:
    """Counts, p_fail of a new machine, medians, factor, clean-ups that aren't proved, reasons counted."""
    for _ in range(2):
        trail.rent(usd="1", bills=[("1.5", {})], brought=[(100 * MB, 8.0)])
    trail.rent(
        usd="1", bills=[("1.5", {})], brought=[(100 * MB, 8.0)], blame="host", why="GPU\n busy", proved=False
    )
    trail.rent(started=False, blame="unsuitable", ready=None)
    trail.add("run2", PodReappeared(provider="acme", pod="p2", listed=NOW))
    (line,) = provider_lines(trail.history())
    assert (line.provider, line.rentals, line.good, line.bad, line.unconfirmed) == ("acme", 4, 2, 1, 2)
    assert line.p_fail == pytest.approx((1 + 0.5) / (3 + 5))
    assert (line.ready_s, line.up_mbps, line.down_mbps, line.billed_factor) == (30.0, 100.0, None, 1.5)
    assert line.reasons == (("GPU busy", 1),)


def test_machine_lines(trail: Trail) -> None:
    """Machines with a bad rental or more than one, most rentals first, each with its own chance and last GPU."""
    for gpu in ("L4", "RTX 4090"):
        trail.rent(host="twice", gpu=gpu)
    trail.rent(host="bad", blame="host", started=False)
    trail.rent(host="once")
    trail.rent(host=None)
    lines = machine_lines(trail.history())
    assert [(x.host, x.rentals, x.bad, x.gpu) for x in lines] == [
        ("twice", 2, 0, "RTX 4090"),
        ("bad", 1, 1, "RTX 4090"),
    ]
    provider = (1 + 0.5) / (5 + 5)
    assert lines[1].p_fail == pytest.approx((1 + 2 * provider) / 3)


def test_calibration_lines(trail: Trail) -> None:
    """The median of actual over predicted by phase, and how often wall and dollars fell inside."""
    for factor in (1.0, 1.5, 3.0):
        actual = {"compute": 100 * factor, "wall_s": 100 * factor, "usd": 0.1 * factor}
        trail.rent(told=told(compute=100.0, usd=0.1), actual=actual)
    trail.rent(provider="emca", told=told(compute=100.0, usd=0.1), actual={"usd": 0.1}, bills=[("0.5", {})])
    lines = {line.figure: line for line in calibration_lines(trail.history(), "acme")}
    assert (lines["compute"].runs, lines["compute"].ratio) == (3, pytest.approx(1.5))
    assert (lines["wall"].runs, lines["wall"].ratio, lines["wall"].inside) == (
        3,
        pytest.approx(1.5),
        pytest.approx(2 / 3),
    )
    assert (lines["usd"].ratio, lines["usd"].inside) == (pytest.approx(1.5), pytest.approx(2 / 3))
    assert (lines["ready"].runs, lines["ready"].ratio, lines["ready"].inside) == (0, None, None)
    billed = {line.figure: line for line in calibration_lines(trail.history(), "emca")}["usd"]
    assert (billed.ratio, billed.inside) == (pytest.approx(5.0), 0.0)
