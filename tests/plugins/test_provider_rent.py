"""Which words say how a rent ended: the whole table, against real pluggy wrappers."""

from __future__ import annotations

import attrs
import pytest

from gipper.api import Doubtful, Machine, NoCapacity, OfferGone, ProviderError, Refused, hookimpl
from gipper.errors import RentError
from gipper.plugins.handle_rent import DoubtfulRent

SAYS = {
    "OfferGone": lambda: OfferGone("gone"),
    "NoCapacity": lambda: NoCapacity("none"),
    "Refused request": lambda: Refused("no", kind="request"),
    "Refused account": lambda: Refused("no", kind="account"),
    "Refused offer": lambda: Refused("no", kind="offer"),
}
LEAVES_OPEN = {
    "Doubtful": lambda: Doubtful("timed out"),
    "RentError": lambda: RentError("?"),
    "ProviderError": lambda: ProviderError("500"),
    "ValueError": lambda: ValueError("x"),
    "StopIteration": lambda: StopIteration(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "SystemExit": lambda: SystemExit(3),
    "GeneratorExit": GeneratorExit,
    "Refused of no kind": lambda: Refused("no", kind="whatever"),
}
ORDERS = [{}, {"tryfirst": True}, {"trylast": True}]


def raising(make):
    def gipper_rent(self, offer, request):
        raise make()

    return gipper_rent


def outer(body, **order):
    """A module whose wrapper of gipper_rent is `body`."""
    return hookimpl(body, wrapper=True, **order)


@pytest.fixture
def rent(make_provider, module, offer, request_):
    """Rent through a provider's `verb` and wrappers, the first of them the innermost."""

    def call(*wrappers, verb=None):
        team = [module(f"w{i}", gipper_rent=w) for i, w in enumerate(wrappers)]
        return make_provider(team=team, **({"rent": verb} if verb else {})).rent(offer, request_)

    return call


@pytest.mark.parametrize("name", SAYS)
def test_provider_says_nothing_was_created(rent, name):
    """Each of the named errors, raised by the provider itself, comes through as the same object."""
    error = SAYS[name]()

    def verb(self, offer, request):
        raise error

    with pytest.raises(type(error)) as caught:
        rent(verb=verb)
    assert caught.value is error


@pytest.mark.parametrize("name", LEAVES_OPEN)
def test_provider_raises_anything_else(rent, name):
    """Anything else that the provider raises is doubtful, with the cause kept."""
    with pytest.raises(DoubtfulRent) as caught:
        rent(verb=raising(LEAVES_OPEN[name]))
    assert type(caught.value.__cause__) is type(LEAVES_OPEN[name]())
    assert caught.value.seen is None


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", SAYS)
def test_wrapper_refuses_before_its_yield(rent, name, order):
    """A wrapper that raises a named error before its yield is believed, and the provider isn't asked."""
    asked = []

    def refuse(offer, request):
        raise SAYS[name]()
        yield

    def verb(self, offer, request):
        asked.append(1)

    with pytest.raises(type(SAYS[name]())) as caught:
        rent(outer(refuse, **order), verb=verb)
    assert not isinstance(caught.value, Doubtful)
    assert asked == []


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", LEAVES_OPEN)
def test_wrapper_raises_anything_else_before_its_yield(rent, name, order):
    """Any other error of a wrapper before its yield is doubtful too."""

    def refuse(offer):
        raise LEAVES_OPEN[name]()
        yield

    with pytest.raises(DoubtfulRent):
        rent(outer(refuse, **order))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", [*SAYS, *LEAVES_OPEN])
def test_wrapper_raises_after_its_yield(rent, name, order):
    """A wrapper that raises after its yield can't know: doubtful, and the provider's machine is kept."""

    def complain(request):
        yield
        raise {**SAYS, **LEAVES_OPEN}[name]()

    with pytest.raises(DoubtfulRent) as caught:
        rent(outer(complain, **order))
    assert caught.value.seen.id == "m1"


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", SAYS)
def test_wrapper_lets_the_provider_s_error_through(rent, name, order):
    """The provider's own word stays its word when a wrapper catches and re-raises it."""

    def watch():
        try:
            return (yield)
        except RentError:
            raise

    with pytest.raises(type(SAYS[name]())) as caught:
        rent(outer(watch, **order), verb=raising(SAYS[name]))
    assert not isinstance(caught.value, Doubtful)


@pytest.mark.parametrize("name", SAYS)
def test_wrapper_replaces_the_provider_s_error(rent, name):
    """A wrapper that turns one named error into another, even of the same class, leaves it in doubt."""

    def replace():
        try:
            yield
        except Exception:
            raise SAYS[name]() from None

    for verb in (raising(SAYS["NoCapacity"]), raising(LEAVES_OPEN["ValueError"])):
        with pytest.raises(DoubtfulRent):
            rent(outer(replace), verb=verb)


@pytest.mark.parametrize("name", SAYS)
def test_outer_wrapper_replaces_an_inner_refusal(rent, name):
    """What a wrapper raises after its yield is in doubt, even where an inner one refused in time."""

    def refuse():
        raise NoCapacity("policy")
        yield

    def replace():
        try:
            yield
        except Exception:
            raise SAYS[name]() from None

    for order in ({}, {"tryfirst": True}):
        with pytest.raises(DoubtfulRent):
            rent(outer(refuse), outer(replace, **order))
    with pytest.raises(DoubtfulRent):
        rent(outer(refuse, trylast=True), outer(replace))
    with pytest.raises(DoubtfulRent):
        # Of two trylast wrappers the one registered later is the inner one.
        rent(outer(replace, trylast=True), outer(refuse, trylast=True))


def test_outer_wrapper_passes_an_inner_refusal_on(rent):
    """A refusal before a yield counts when an outer wrapper merely lets it through."""

    def refuse():
        raise Refused("over $2/h", kind="offer")
        yield

    def watch():
        return (yield)

    for wrappers in (
        (outer(refuse), outer(watch)),
        (outer(refuse), outer(watch, tryfirst=True)),
        (outer(watch, trylast=True), outer(refuse, trylast=True)),
    ):
        with pytest.raises(Refused):
            rent(*wrappers)


def test_wrapper_swallows_an_error(rent):
    """A wrapper that answers where the provider raised, or wasn't asked, leaves it in doubt."""

    def refuse():
        raise NoCapacity("policy")
        yield

    def swallow(request):
        try:
            return (yield)
        except Exception:
            return Machine(provider="acme", id="m9", name=request.name)

    with pytest.raises(DoubtfulRent, match="NoCapacity"):
        rent(outer(swallow), verb=raising(SAYS["NoCapacity"]))
    with pytest.raises(DoubtfulRent, match="was not asked"):
        rent(outer(refuse), outer(swallow))


@pytest.mark.parametrize("answer", ["evolved", "copy of another id", "none", "text"])
def test_wrapper_returns_another_object(rent, answer):
    """A wrapper must return what it got: an equal copy is already another object."""

    def change():
        got = yield
        return {
            "evolved": attrs.evolve(got),
            "copy of another id": attrs.evolve(got, id="m2"),
            "none": None,
            "text": "m1",
        }[answer]

    with pytest.raises(DoubtfulRent, match="m1") as caught:
        rent(outer(change))
    assert caught.value.seen.id == "m1"


@pytest.mark.parametrize("answer", [None, "m1", 7, {"id": "m1"}])
def test_provider_returns_no_machine(rent, answer):
    """None and whatever isn't a Machine is doubtful."""
    with pytest.raises(DoubtfulRent) as caught:
        rent(verb=lambda self: answer)
    assert caught.value.seen is None


@pytest.mark.parametrize(
    "wrong", [{"name": "gipper-other"}, {"name": None}, {"provider": "other"}, {"id": ""}, {"id": None}]
)
def test_provider_returns_a_machine_of_another_name(rent, wrong):
    """A machine of another name, another provider or without an id is doubtful; core still sees it."""

    def verb(self, request):
        return Machine(**{"provider": "acme", "id": "m1", "name": request.name, **wrong})

    with pytest.raises(DoubtfulRent) as caught:
        rent(verb=verb)
    assert isinstance(caught.value.seen, Machine)


@pytest.mark.parametrize("order", ORDERS)
def test_wrapper_that_yields_twice(rent, order):
    """A wrapper that yields a second time leaves the machine in doubt, and core still sees it."""

    def twice():
        yield
        yield

    with pytest.raises(DoubtfulRent) as caught:
        rent(outer(twice, **order))
    assert caught.value.seen.id == "m1"


@pytest.mark.parametrize("order", ORDERS)
def test_honest_wrapper_changes_nothing(rent, request_, order):
    """Through wrappers that return what they got, the provider's machine arrives."""

    def watch(offer, request):
        return (yield)

    assert rent(outer(watch, **order), outer(watch)).name == request_.name


def test_the_machine_of_each_call_is_its_own(make_provider, offer, request_):
    """A rent within another rent doesn't disturb what core saw of the outer one."""
    inner = attrs.evolve(request_, name="gipper-inner")

    def verb(self, offer, request):
        if request is request_:
            with pytest.raises(NoCapacity):
                provider.rent(offer, inner)
            return Machine(provider="acme", id="outer", name=request.name)
        raise NoCapacity("inner")

    provider = make_provider(rent=verb)
    assert provider.rent(offer, request_).id == "outer"


def test_doubt_names_plugin_machine_and_next_step(rent, request_):
    """The message blames the plugin by distribution and version and names the machine to look for."""
    with pytest.raises(DoubtfulRent) as caught:
        rent(verb=raising(LEAVES_OPEN["ValueError"]))
    text = caught.value.message
    assert "plugin acme 1.2 (distribution gipper-acme): gipper_rent raised ValueError: x" in text
    assert request_.name in text and "gipper pod ls" in caught.value.hint


def test_doubt_blames_the_wrapper_that_raised(rent):
    """An error after a wrapper's yield bears the wrapper's distribution, not the provider's."""

    def complain():
        yield
        raise ValueError("mine")

    with pytest.raises(DoubtfulRent, match=r"plugin w0 3\.0 \(distribution gipper-w0\)"):
        rent(outer(complain))
