"""Planning over markets: who is asked, what fails alone, what ends it, and the order of what is left."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, ClassVar

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gipper.cost_history import Failures, NoHistory
from gipper.errors import ConfigError, KeyMissing, PluginError, ProviderError
from gipper.http import HttpStatus
from gipper.markers import hookimpl
from gipper.plugins.handle import Provider
from gipper.plugins.registry import Registry
from gipper.values.estimates import CostAdjustment
from gipper.values.jobs import Budget, GpuWants, Units
from gipper.values.offers import Listing
from gipper.values.plugins import ProviderInfo
from gipper.values.settings import Settings


def ids(plan):
    return [(r.provider, r.offer.id) for r in plan.ranked]


def market_error(status):
    return HttpStatus(f"vast: HTTP {status} for GET x", status=status)


def test_offers_rank_by_score_not_price(job, offer, provider, run_plan):
    """A cheap offer with a slow link loses to a dearer one on a job that moves much."""
    slow, fast = offer("slow", "0.30", down_mbps=5), offer("fast", "0.50", down_mbps=5000)
    assert ids(run_plan(job(), provider("acme", [slow, fast]), upload_bytes=10**10)) == [
        ("acme", "fast"), ("acme", "slow"),
    ]  # fmt: skip


def test_preferred_gpus_come_first_in_their_order(want, offer, provider, run_plan):
    """The order of `gpu.prefer` beats every score."""
    offers = [offer("l4", "0.1", "L4"), offer("h", "3", "H100 SXM"), offer("r", "0.4", "RTX 4090")]
    found = run_plan(want(prefer=("H100", "RTX 4090")), provider("acme", offers))
    assert [r.offer.id for r in found.ranked] == ["h", "r", "l4"]


def test_ties_end_at_provider_and_id(job, offer, provider, run_plan):
    """Equal offers have one order, whoever answers first."""
    a = provider("a", [offer("2", provider="a"), offer("1", provider="a")])
    b = provider("b", [offer("0", provider="b")])
    assert ids(run_plan(job(), b, a)) == ids(run_plan(job(), a, b)) == [("a", "1"), ("a", "2"), ("b", "0")]


def test_a_ranked_offer_reads_like_a_mapping(job, offer, provider, run_plan):
    """Attributes, keys and the estimate's own keys all answer, and the figures agree."""
    ranked = run_plan(job(), provider("acme", [offer(usd_h="0.4")])).ranked[0]
    assert ranked["usd_h"] == Decimal("0.4")
    assert ranked["provider"] == "acme"
    assert ranked["estimate"]["usd"] == ranked.estimate.usd > 0
    assert ranked["score"] == ranked.score == ranked.estimate.score
    assert dict(ranked).keys() == set(ranked)
    with pytest.raises(KeyError):
        ranked["nonsense"]


def test_the_ranking_is_a_sequence(job, offer, provider, run_plan):
    """Lengths, slices, negative indices and identity hold, though offers are made when looked at."""
    found = run_plan(job(), provider("acme", [offer(str(i), f"0.{i}") for i in range(1, 6)])).ranked
    assert len(found) == 5
    assert [r.offer.id for r in found[:2]] == ["1", "2"]
    assert found[-1].offer.id == "5"
    assert found[0] is found[0]
    with pytest.raises(IndexError):
        found[5]


def test_who_takes_part(job, offer, provider, run_plan):
    """All installed with a key, without those that must be named; the keyless are noted."""
    acme = provider("acme", [offer()])
    here = provider("here", [offer(provider="here")], named_only=True, key_names=())
    other = provider("other", key=False)
    found = run_plan(job(), acme, here, other)
    assert found.asked == ("acme",)
    assert found.notes == ("other: skipped, OTHER_API_KEY is not set",)


def test_named_providers_are_asked_in_their_order(want, provider, run_plan):
    """The job's list beats the settings', and brings in what must be named."""
    installed = [provider("a"), provider("b"), provider("here", named_only=True)]
    assert run_plan(want(providers=("here", "a")), *installed).asked == ("here", "a")
    settings = Settings(providers=("b",))
    assert run_plan(want(), *installed, settings=settings).asked == ("b",)
    assert run_plan(want(providers=("a",)), *installed, settings=settings).asked == ("a",)


def test_a_named_provider_that_is_not_installed(want, provider, run_plan):
    """One of several is a note, none at all is wrong use with what to install."""
    found = run_plan(want(providers=("a", "nope")), provider("a"))
    assert found.notes == ("nope: not installed (pip install gipper-nope)",)
    with pytest.raises(ConfigError, match="nope") as caught:
        run_plan(want(providers=("nope",)), provider("a"))
    assert caught.value.hint == "pip install gipper-nope"


def test_markets_without_a_key_come_last_where_they_are_wanted(job, offer, provider, run_plan):
    """For a list of offers, a market that allows it is asked without a key; its offers stand last."""
    cheap = provider("cheap", [offer(usd_h="0.01", provider="cheap")], key=False, keyless_offers=True)
    strict = provider("strict", [offer(provider="strict")], key=False)
    acme = provider("acme", [offer(usd_h="5")])
    found = run_plan(job(), cheap, strict, acme, keyless=True)
    assert [(r.provider, r.has_key) for r in found.ranked] == [("acme", True), ("cheap", False)]
    assert run_plan(job(), cheap, strict, acme).asked == ("acme",)


def test_a_job_without_a_gpu_asks_only_markets_that_list_such(want, offer, provider, run_plan):
    """count = 0 skips providers that don't say they list CPU machines."""
    cpu = provider("acme", [offer(gpu=None)], cpu=True)
    found = run_plan(want(count=0), cpu, provider("gpu-only", [offer(gpu=None, provider="gpu-only")]))
    assert (found.asked, len(found.ranked)) == (("acme",), 1)
    assert "gpu-only: skipped" in found.notes[0]


def test_d_008_one_market_fails_the_others_go_on(job, offer, provider, run_plan):
    """A market's error is one note with its name, and the plan uses the others."""
    broken, fine = provider("vast"), provider("acme", [offer("1"), offer("2")])
    broken.fail = market_error(500)
    found = run_plan(job(), broken, fine)
    assert len(found.ranked) == 2
    assert (found.failed, found.all_failed) == (("vast",), False)
    assert found.notes == ("vast: could not list offers (HTTP 500 for GET x)",)


def test_d_008_all_markets_fail(job, provider, run_plan):
    """When nobody answered, that is told apart from an empty market."""
    broken = [provider("a"), provider("b"), provider("c")]
    for one in broken:
        one.fail = ProviderError(f"{one.name}: down")
    found = run_plan(job(), *broken)
    assert found.all_failed
    assert len(found.notes) == 3
    empty = run_plan(job(), provider("a"))
    assert (empty.all_failed, len(empty.ranked)) == (False, 0)


@pytest.mark.parametrize(
    "failure", [ValueError("x\ny"), KeyMissing("no key"), TypeError("z"), RecursionError()]
)
def test_whatever_a_plugin_raises_is_one_note(job, offer, provider, run_plan, failure):
    """A bug in one plugin's listing costs only its own market."""
    broken = provider("vast")
    broken.fail = failure
    found = run_plan(job(), broken, provider("acme", [offer()]))
    assert len(found.ranked) == len(found.notes) == 1
    assert "\n" not in found.notes[0]


@pytest.mark.parametrize("answer", [None, [], "text"])
def test_what_is_no_listing_is_a_failure(job, provider, run_plan, answer):
    """Only a Listing is an answer: None is never zero offers."""
    odd = provider("vast")
    odd.fail = lambda: answer
    assert run_plan(job(), odd).all_failed


def test_a_slow_market_is_told_not_waited_for(job, offer, provider, run_plan, request):
    """The plan is there while the slow market still hangs, and the hung task is told to stop."""
    from gipper.runtime import RealRuntime

    runtime = RealRuntime()
    release = runtime.event()
    request.addfinalizer(release.set)
    slow = provider("slow")
    slow.fail = lambda: runtime.wait_any([release]) and Listing(items=())
    found = run_plan(job(), slow, provider("acme", [offer()]), runtime=runtime, limit_s=0.2)
    assert not release.is_set()
    assert len(found.ranked) == 1
    assert found.notes == ("slow: did not answer within 0.2 s",)


def test_markets_are_asked_side_by_side(job, offer, provider, run_plan):
    """Each of two markets waits for the other to be asked: one after the other would hang."""
    from gipper.runtime import RealRuntime

    runtime = RealRuntime()
    first, second = runtime.event(), runtime.event()
    a, b = provider("a"), provider("b")
    a.fail = lambda: (first.set(), runtime.wait_any([second]), Listing(items=()))[-1]
    b.fail = lambda: (second.set(), runtime.wait_any([first]), Listing(items=()))[-1]
    assert run_plan(job(), a, b, runtime=runtime, limit_s=10).failed == ()


def test_the_query_says_what_the_job_wants(job, provider, run_plan):
    """Defaults are filled in, and the provider's own table goes along."""
    acme = provider("acme")
    wanted = job(gpu=GpuWants(min_mem_gb=24, regions=("us",)), provider={"acme": {"bid": 1}})
    run_plan(wanted, acme, settings=Settings(container_disk_gb=77, cloud="SECURE"))
    query = acme.queries[0]
    assert (query.min_mem_gb, query.regions, query.disk_gb, query.cloud) == (24, ("US",), 77, "SECURE")
    assert query.options == {"bid": 1}


def test_left_out_offers_are_counted_by_reason(want, offer, provider, run_plan):
    """Seen = ranked + left out, and each reason has a line."""
    offers = [offer("1"), offer("2", gpu="T4"), offer("3", gpu="T4"), offer("4", spot=True)]
    found = run_plan(want(min_mem_gb=24), provider("acme", offers))
    assert (found.seen, len(found.ranked)) == (4, 1)
    assert found.left_out == {"memory": 2, "spot": 1}
    assert found.left_out_lines()[0] == "2 offer(s) left out: less GPU memory than gpu.min_mem_gb"


def test_expected_cost_must_fit_the_budget(job, offer, provider, run_plan):
    """An offer whose run would cost more than max_usd is left out and counted."""
    offers = [offer("fits", "1"), offer("dear", "100")]
    found = run_plan(job(budget=Budget(max_usd=Decimal(2))), provider("acme", offers))
    assert ids(found) == [("acme", "fits")]
    assert found.left_out == {"expected": 1}


def test_a_known_balance_must_hold_the_run(job, offer, provider, run_plan):
    """Credit under 1.2 times the expected cost leaves out; an unknown balance doesn't."""
    acme = provider("acme", [offer(usd_h="2")])
    cost = run_plan(job(), acme).ranked[0].estimate.usd
    assert run_plan(job(), acme, credit={"acme": Decimal(repr(cost * 1.19))}).left_out == {"credit": 1}
    assert len(run_plan(job(), acme, credit={"acme": Decimal(repr(cost * 1.21))}).ranked) == 1
    assert len(run_plan(job(), acme, credit={"acme": None}).ranked) == 1


def test_a_machine_that_was_bad_twice_is_left_out(job, offer, provider, run_plan):
    """History can rule out single machines."""

    class Bad(NoHistory):
        def hosts(self, provider):
            return {"m1"}

        def bad_twice(self, provider, host):
            return host == "m1"

        def failures(self, provider, host):
            return Failures(2, 2, 0, 0)

    offers = [offer("1", host_id="m1"), offer("2", host_id="m2"), offer("3")]
    found = run_plan(job(), provider("acme", offers), history=Bad())
    assert ids(found) == [("acme", "2"), ("acme", "3")]
    assert found.left_out == {"bad host": 1}


def test_hooks_exclude_with_their_reason(job, offer, provider, run_plan):
    """A hook's reason is counted like core's own."""
    acme = provider("acme", [offer("1"), offer("2")])
    acme.exclude = lambda offers, job: {"2": [("team", "too old")], "unheard-of": [("team", "x")]}
    found = run_plan(job(), acme)
    assert (ids(found), found.left_out) == ([("acme", "1")], {"team: too old": 1})


def test_hooks_adjust_what_is_ranked_and_shown(job, offer, provider, run_plan):
    """An adjustment moves the rank, and stands in the estimate with its label."""
    acme = provider("acme", [offer("1", "0.40"), offer("2", "0.41")])
    fee = CostAdjustment(label="minimum charge", usd=3.0)
    acme.adjust = lambda offers, job, phases: {"1": [fee]} if phases["1"].total > 0 else {}
    found = run_plan(job(), acme)
    assert [r.offer.id for r in found.ranked] == ["2", "1"]
    assert found.ranked[1].estimate.adjustments == (fee,)
    assert found.ranked[1].score == found.ranked[1].estimate.score
    assert found.ranked[1].estimate.usd > 3.0


class Careless:
    """A provider's class whose hooks do what a test puts into `answers`."""

    answers: ClassVar[dict[str, Any]] = {}

    @hookimpl
    @staticmethod
    def gipper_provider():
        return ProviderInfo(name="acme", title="Acme")

    @hookimpl
    def gipper_list_offers(self, query):
        return self.answers["offers"]()

    @hookimpl
    def gipper_rent(self, offer, request):
        raise NotImplementedError

    @hookimpl
    def gipper_describe(self, machine_id):
        raise NotImplementedError

    @hookimpl
    def gipper_list_ours(self):
        raise NotImplementedError

    @hookimpl
    def gipper_terminate(self, machine_id):
        raise NotImplementedError

    @hookimpl
    def gipper_exclude_offers(self, offers, job):
        return self.answers["exclude"]()

    @hookimpl
    def gipper_adjust_costs(self, offers, job, phases):
        return self.answers["adjust"]()


@pytest.fixture
def handle(offer):
    """The real handle of a provider, with one offer and hooks that say nothing unless told to."""

    def made(**answers):
        given = {"offers": lambda: Listing(items=(offer("1"),)), "exclude": dict, "adjust": dict}
        cls = type(
            "Acme", (Careless,), {"__init__": lambda self, context: None, "answers": {**given, **answers}}
        )
        return Provider(Registry().add_provider(cls), None, None)

    return made


def oops():
    raise ZeroDivisionError("oops")


def test_the_real_handle_plans(job, handle, run_plan):
    """Planning and the provider's handle fit together."""
    assert ids(run_plan(job(), handle())) == [("acme", "1")]
    excluding = run_plan(job(), handle(exclude=lambda: {"1": "too old"}))
    assert excluding.left_out == {"acme: too old": 1}


@pytest.mark.parametrize("hook", ["exclude", "adjust"])
def test_a_failing_hook_ends_planning_with_blame(job, handle, run_plan, hook):
    """An error in exclude or adjust is exit 4, names plugin and hook, and nothing is ranked."""
    with pytest.raises(PluginError, match=rf"acme.*gipper_{hook}.*oops") as caught:
        run_plan(job(), handle(**{hook: oops}))
    assert caught.value.exit_code == 4


@pytest.mark.parametrize(
    ("usd", "factor"), [(float("nan"), 1), (float("inf"), 1), (0, -1), (0, float("inf"))]
)
def test_adjustments_must_be_figures(job, handle, run_plan, usd, factor):
    """NaN, infinity and negative factors are the plugin's error, not a rank."""
    with pytest.raises(PluginError):
        run_plan(job(), handle(adjust=lambda: {"1": [CostAdjustment(label="x", usd=usd, factor=factor)]}))


def test_malformed_offers_cost_only_themselves(job, offer, handle, run_plan):
    """An offer without a price, or under another provider's name, is dropped with one note."""
    odd = (attrs.evolve(offer("nan"), usd_h=Decimal("NaN")), offer("theirs", provider="vast"), "text")
    found = run_plan(job(), handle(offers=lambda: Listing(items=(offer("1"), *odd))))
    assert ids(found) == [("acme", "1")]
    assert len(found.notes) == 3
    assert all(note.startswith("acme: 1 offer(s) left out") for note in found.notes)


def test_a_throughput_without_units_is_told(job, provider, run_plan):
    """`--throughput` that changes nothing isn't silent."""
    assert "units.count" in run_plan(job(), provider("a"), throughput=3.0).notes[0]
    assert run_plan(job(units=Units(count=5)), provider("a"), throughput=3.0).notes == ()


def test_the_price_ceiling_is_the_jobs(want, provider, run_plan):
    """The plan repeats what the job allows an hour."""
    assert run_plan(want(max_usd_per_h=Decimal("1.5")), provider("a")).price_ceiling == Decimal("1.5")
    assert run_plan(want(), provider("a")).price_ceiling is None


priced = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(1, 5000), st.sampled_from(["L4", "H100", "T4"])),
    unique_by=lambda row: row[1],
    max_size=12,
)


def planned(run_plan, want, offer, provider, rows, names):
    """(offer ids in rank order) of a plan over the markets `names`, which stand for a, b and c."""
    markets = []
    for letter, name in names.items():
        mine = [r for r in rows if r[0] == letter]
        offers = [offer(str(p), str(Decimal(p) / 1000), gpu, provider=name) for _, p, gpu in mine]
        markets.append(provider(name, offers))
    return [r.offer.id for r in run_plan(want(prefer=("H100",)), *markets).ranked]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # the fixtures only make functions
@given(rows=priced, random=st.randoms(use_true_random=False))
def test_ranking_ignores_order_and_names(run_plan, want, offer, provider, rows, random):
    """Shuffled answers and renamed providers give the same ranking."""
    plain = planned(run_plan, want, offer, provider, rows, {"a": "a", "b": "b", "c": "c"})
    random.shuffle(rows)
    assert planned(run_plan, want, offer, provider, rows, {"c": "c", "a": "a", "b": "b"}) == plain
    assert planned(run_plan, want, offer, provider, rows, {"a": "z", "b": "q", "c": "m"}) == plain
