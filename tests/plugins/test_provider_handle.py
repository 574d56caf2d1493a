from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from decimal import Decimal

import attrs
import pytest

from gipper.api import (
    Account,
    Bill,
    Diagnosis,
    KeyCheck,
    KeyMissing,
    Leftover,
    Listing,
    Machine,
    MachineState,
    Offer,
    OfferQuery,
    ProviderError,
    Watchdog,
    hookimpl,
)
from gipper.errors import ConfigError, PluginError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
QUERY = OfferQuery(deadline=0.0)
BLAME = r"plugin acme 1\.2 \(distribution gipper-acme\): "


def machine(**given) -> Machine:
    return Machine(**{"provider": "acme", "id": "m1", "name": "n", **given})


def offers(*items):
    return lambda self, query: Listing(items=items)


CALLS = {
    "list_offers": lambda p: p.list_offers(QUERY),
    "describe": lambda p: p.describe("m1"),
    "list_ours": lambda p: p.list_ours(),
    "terminate": lambda p: p.terminate("m1"),
    "billed": lambda p: p.billed(NOW, NOW),
    "account": lambda p: p.account(),
    "check_key": lambda p: p.check_key(),
    "authorize": lambda p: p.authorize(machine(), "key"),
    "watchdog": lambda p: p.watchdog(machine()),
    "set_end": lambda p: p.set_end("m1", NOW),
    "diagnose": lambda p: p.diagnose("m1"),
    "leftovers": lambda p: p.leftovers("m1"),
}


def boom(error):
    def verb(self):
        raise error

    return verb


@pytest.mark.parametrize("verb", CALLS)
def test_foreign_error_is_told_with_blame(make_provider, verb):
    """Whatever a verb raises that isn't gipper's own becomes a ProviderError with plugin, hook and text."""
    provider = make_provider(
        **{verb: boom(ValueError("bad sk-123"))}, redact=lambda t: t.replace("sk-123", "*")
    )
    with pytest.raises(ProviderError, match=rf"^{BLAME}gipper_{verb} raised ValueError: bad \*$"):
        CALLS[verb](provider)


@pytest.mark.parametrize("verb", CALLS)
def test_gipper_errors_come_through(make_provider, verb):
    """A verb's own KeyMissing or ProviderError arrives as the same object."""
    error = KeyMissing("X is not set")
    with pytest.raises(KeyMissing) as caught:
        CALLS[verb](make_provider(**{verb: boom(error)}))
    assert caught.value is error


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("verb", CALLS)
def test_interrupts_pass_through(make_provider, verb, error):
    """Ctrl-C inside a verb other than rent is nobody's failure."""
    with pytest.raises(error):
        CALLS[verb](make_provider(**{verb: boom(error())}))


NONSENSE = {
    "describe": ["m1", {"id": "m1"}, machine(id="m2"), machine(provider="other"), machine(state="gone")],
    "list_ours": [None, [], {}, [machine()], Listing(items=[None]), Listing(items=[machine(id="")]),
                  Listing(items=[machine(), "m2"]), Listing(items=None), Listing(items=iter([machine()])),
                  Listing(items=(), notes="cut")],
    "list_offers": [None, [], "offers", Listing(items=None), Listing(items=iter([]))],
    "billed": ["x", 3, [None], [Bill(machine_id="m", kind="gpu", usd=Decimal("NaN"), since=NOW, until=NOW)],
               [Bill(machine_id="m", kind="gpu", usd=1.0, since=NOW, until=NOW)],
               [Bill(machine_id="", kind="gpu", usd=Decimal(1), since=NOW, until=NOW)],
               [Bill(machine_id="m", kind="gpu", usd=Decimal(1), since=NOW.replace(tzinfo=None), until=NOW)]],
    "account": [{}, Account(credit_usd=Decimal("NaN")), Account(usd_h=1.5)],
    "check_key": [True, "ok"],
    "watchdog": ["curl", ("curl",)],
    "diagnose": ["broken"],
    "leftovers": ["disk", ["disk"], 3],
}  # fmt: skip


@pytest.mark.parametrize(("verb", "answer"), [(v, a) for v, values in NONSENSE.items() for a in values])
def test_nonsense_answer_is_a_named_error(make_provider, verb, answer):
    """An answer outside the contract raises ProviderError with blame; a listing is never empty for it."""
    with pytest.raises(ProviderError, match=f"^{BLAME}gipper_{verb} returned"):
        CALLS[verb](make_provider(**{verb: lambda self: answer}))


GOOD = {
    "describe": [None, machine(), machine(state=MachineState.GONE)],
    "check_key": [KeyCheck(ok=False, problem="no write scope"), None],
    "account": [Account(credit_usd=Decimal("1.5")), Account(), None],
    "watchdog": [Watchdog(command="true"), None],
    "diagnose": [Diagnosis(text="oom"), None],
    "billed": [None, (Bill(machine_id="m", kind="gpu", usd=Decimal(1), since=NOW, until=NOW),), ()],
    "leftovers": [(Leftover(id="v", text="volume"),), ()],
    "list_ours": [
        Listing(items=()),
        Listing(items=(machine(), machine(id="m2", state=MachineState.UNKNOWN))),
    ],
}


@pytest.mark.parametrize(("verb", "answer"), [(v, a) for v, values in GOOD.items() for a in values])
def test_good_answer_arrives(make_provider, verb, answer):
    """An answer within the contract arrives unchanged."""
    assert CALLS[verb](make_provider(**{verb: lambda self: answer})) == answer


@pytest.mark.parametrize("price", [Decimal("NaN"), Decimal("-1"), "1.0", 1.0])
def test_odd_price_of_a_machine_is_unknown(make_provider, offer, request_, price):
    """A machine whose price is no price is still a machine: its price is unknown, in every verb."""
    odd = machine(usd_h=price, name=request_.name)
    provider = make_provider(
        describe=lambda self: odd, list_ours=lambda self: Listing(items=[odd]), rent=lambda self: odd
    )
    got = (provider.describe("m1"), provider.list_ours().items[0], provider.rent(offer, request_))
    assert [m.usd_h for m in got] == [None] * 3
    assert [m.id for m in got] == ["m1"] * 3


def test_absent_optional_verbs(make_provider):
    """Without the optional verbs the handle says that they are absent, and guesses nothing."""
    provider = make_provider()
    assert provider.billed(NOW, NOW) is None and provider.account() is None and provider.check_key() is None
    assert provider.authorize(machine(), "k") is False and provider.set_end("m1", NOW) is False
    assert provider.watchdog(machine()) is None and provider.diagnose("m1") is None
    assert provider.leftovers("m1") == ()
    assert not provider.implements("gipper_set_end") and provider.implements("gipper_rent")


def test_present_authorize_and_set_end_say_true(make_provider):
    """Where the provider has the hooks, authorize and set_end say that they were called."""
    seen = []
    provider = make_provider(
        authorize=lambda self, machine, public_key: seen.append((machine.id, public_key)),
        set_end=lambda self, machine_id, timer_at: seen.append((machine_id, timer_at)),
    )
    assert provider.authorize(machine(), "k") is True and provider.set_end("m1", NOW) is True
    assert seen == [("m1", "k"), ("m1", NOW)]


def good(i, **given):
    return Offer(**{"provider": "acme", "id": f"o{i}", "usd_h": Decimal("1"), **given})


def test_d_088_nonsense_offers_are_dropped_with_a_count(make_provider):
    """Offers that can't be meant are dropped and counted by reason; the sensible ones stay, in order."""
    listed = [
        None, "offer", good(1), good(2, usd_h=Decimal("-1")), good(3, usd_h=Decimal("NaN")),
        good(4, usd_h="cheap"), good(5, usd_h=1.5), good(6, usd_h=Decimal("Infinity")), good(7, id=""),
        good(8, id=None), good(9, provider="other"), good(1, usd_h=Decimal("2")), good(10),
    ]  # fmt: skip
    listing = make_provider(
        list_offers=lambda self: Listing(items=listed, notes=("cut at 1000",))
    ).list_offers(QUERY)
    assert [o.id for o in listing] == ["o1", "o10"]
    assert listing.items[0].usd_h == Decimal("1")
    assert listing.notes == (
        "cut at 1000",
        "acme: 1 offer(s) left out: another provider's",
        "acme: 1 offer(s) left out: id given twice",
        "acme: 2 offer(s) left out: no id",
        "acme: 2 offer(s) left out: not an offer",
        "acme: 5 offer(s) left out: price is no amount of dollars",
    )


def test_d_088_a_million_offers(make_provider):
    """Checking a million offers, most of them repeated, costs a few times what sorting them costs."""
    many = [good(i) for i in range(100_000)] * 10
    provider = make_provider(list_offers=offers(*many))
    begin = time.perf_counter()
    sorted(many, key=lambda o: (float(o.usd_h), o.id))
    sorting = time.perf_counter() - begin
    begin = time.perf_counter()
    listing = provider.list_offers(QUERY)
    assert time.perf_counter() - begin < 5 * sorting
    assert len(listing) == 100_000
    assert listing.notes == ("acme: 900000 offer(s) left out: id given twice",)


def test_team_wraps_list_offers_and_broken_wrappers_are_blamed(make_provider, module):
    """A team may filter a market's offers; a wrapper that raises or answers nonsense is named."""

    def cheap(query):
        listing = yield
        return attrs.evolve(listing, items=[o for o in listing if o.usd_h < 2])

    def broken():
        yield
        raise ValueError("oops")

    def nothing():
        yield

    listed = offers(good(1), good(2, usd_h=Decimal(3)))
    wrap = {
        fn: module("policy", gipper_list_offers=hookimpl(fn, wrapper=True)) for fn in (cheap, broken, nothing)
    }
    assert [o.id for o in make_provider(list_offers=listed, team=[wrap[cheap]]).list_offers(QUERY)] == ["o1"]
    with pytest.raises(ProviderError, match=r"^plugin policy 3\.0 \(distribution gipper-policy\): .*oops"):
        make_provider(list_offers=listed, team=[wrap[broken]]).list_offers(QUERY)
    with pytest.raises(ProviderError, match=r"gipper-acme\), or plugin policy .* around it: .* None"):
        make_provider(list_offers=listed, team=[wrap[nothing]]).list_offers(QUERY)
    with pytest.raises(ProviderError, match=f"^{BLAME}gipper_list_offers raised ValueError: own"):
        make_provider(list_offers=boom(ValueError("own")), team=[wrap[cheap]]).list_offers(QUERY)


def bound(body, verb):
    return lambda self: body(self, verb)


def test_no_other_provider_is_ever_reached(make_provider, provider_class, offer, request_):
    """With two handles alive, made in any order, every verb runs on its own provider alone."""
    calls: list[tuple[str, str]] = []

    def recording(name):
        verbs = {}
        for verb in (*CALLS, "rent"):

            def body(self, verb=verb):
                calls.append((name, verb))
                raise ProviderError("stop here")

            # Hooks take no defaults: bind the name another way.
            verbs[verb] = bound(body, verb)
        return provider_class(name, **verbs)

    handles = {name: make_provider(recording(name)) for name in ("acme", "zeta")}
    for order in (("acme", "zeta"), ("zeta", "acme")):
        for name in order:
            for verb, call in {**CALLS, "rent": lambda p: p.rent(offer, request_)}.items():
                calls.clear()
                with pytest.raises(ProviderError):
                    call(handles[name])
                assert calls == [(name, verb)]


def test_first_use_makes_one_instance_under_a_lock(make_provider, provider_class):
    """Threads that use a fresh handle at once share one instance; nothing is built before."""
    built = []
    cls = provider_class()
    cls.__init__ = lambda self, context: built.append(self)
    provider = make_provider(cls)
    assert provider.name == "acme" and provider.title == "Acme" and built == []
    barrier = threading.Barrier(8)

    def use():
        barrier.wait()
        provider.list_ours()

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1


def test_class_that_can_t_be_built_is_blamed(make_provider, provider_class):
    """A constructor's own error is told with blame; a ConfigError comes through; the handle can try again."""
    errors = [ValueError("x"), ConfigError("bad table")]
    cls = provider_class()

    def build(self, context):
        if errors:
            raise errors.pop(0)

    cls.__init__ = build
    provider = make_provider(cls)
    with pytest.raises(PluginError, match=f"^{BLAME}building it raised ValueError: x"):
        provider.list_ours()
    with pytest.raises(ConfigError, match="bad table"):
        provider.list_ours()
    assert len(provider.list_ours()) == 0


def test_keys(make_provider, provider_class, keys):
    """has_key asks for the main key only; a provider without keys always has it; empty is not set."""
    cls = provider_class(info={"key_names": ("ACME_KEY", "ACME_OTHER")})
    assert make_provider(cls).has_key() is False
    assert make_provider(cls, keys=keys(ACME_KEY="")).has_key() is False
    with_key = make_provider(cls, keys=keys(ACME_KEY="k"))
    assert with_key.has_key() and with_key.key_name == "ACME_KEY"
    assert with_key.key_names == ("ACME_KEY", "ACME_OTHER")
    free = make_provider()
    assert free.has_key() and free.key_name is None
