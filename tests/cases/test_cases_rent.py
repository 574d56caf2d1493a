"""Field cases around offers and rents, with a fake market's verbs."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import pytest
from support_sshd import Sshd
from support_stage import Market, Stage, staged

from gipper.lifecycle.services import Interrupts
from gipper.markers import hookimpl
from gipper.outcomes import Outcome
from gipper.testing import FakeMachine, FakeMarket
from gipper.values.bills import Account, Diagnosis
from gipper.values.machines import Address, MachineState, RentRequest
from gipper.values.offers import Listing, Offer, OfferQuery

CLOSED = (Address(host="127.0.0.1", port=9),)


class Scripted(Market):
    """A market whose class gets more hooks: `hooks` are functions of the market by name."""

    more: dict[str, Callable[..., Any]] = {}  # noqa: RUF012 - set by each subclass

    def provider_class(self) -> type:
        market = self

        def bound(fn: Callable[..., Any]) -> Any:
            return fn(market)

        made = {name: bound(fn) for name, fn in type(self).more.items()}
        return type("Provider", (super().provider_class(),), made)


def market_with(**hooks: Callable[[FakeMarket], Any]) -> type[FakeMarket]:
    """A market class whose provider has these hooks, each made from the market."""
    return type("MarketWith", (Scripted,), {"more": hooks})


def rented(stage: Stage) -> list[str]:
    """The offers that a machine was asked for, in order."""
    return [r["offer"] for r in stage.receipts("pod.intent")]


def test_d_004_a_price_that_is_none_is_dropped_with_a_count(tmp_path: Path, sshd: Sshd) -> None:
    """D-005: null, text, NaN and negative prices are no offers; a note counts them, the good one is used."""
    bad: list[Any] = [None, "n/a", Decimal("NaN"), Decimal("-1")]

    def list_offers(market: FakeMarket) -> Any:
        @hookimpl
        def gipper_list_offers(self: object, query: OfferQuery) -> Listing[Offer]:
            good = market.offer("good", usd_h=Decimal("0.421"))
            return Listing(items=(*(market.offer(f"o{i}", usd_h=p) for i, p in enumerate(bad)), good))

        return gipper_list_offers

    stage = staged(tmp_path, sshd, market_class=market_with(gipper_list_offers=list_offers))
    plan = stage.launch.plan(0)
    assert [r.offer.id for r in plan.ranked] == ["good"]
    assert any("4 offer(s) left out" in n for n in plan.notes), plan.notes
    assert stage.run().outcome is Outcome.SUCCEEDED
    assert rented(stage) == ["good"]


def test_d_010_rent_gets_the_offer_as_it_was_listed(tmp_path: Path, sshd: Sshd) -> None:
    """The very offer of the listing comes back, its id and its market's own data untouched."""
    got: list[Offer] = []

    def rent(market: FakeMarket) -> Any:
        inner = super(Scripted, market).provider_class().gipper_rent  # type: ignore[attr-defined]

        @hookimpl
        def gipper_rent(self: object, offer: Offer, request: RentRequest) -> Any:
            got.append(offer)
            return inner(self, offer, request)

        return gipper_rent

    stage = staged(tmp_path, sshd, market_class=market_with(gipper_rent=rent))
    listed = stage.market.offer("NVIDIA  GeForce RTX 4090/eu#7 ", usd_h=Decimal("0.123456"))
    stage.market.offers = [listed]
    assert stage.run().outcome is Outcome.SUCCEEDED
    assert got == [listed]
    assert got[0] is listed


@pytest.mark.parametrize(
    "fault", ["acts_and_raises", "acts_and_doubtful", "acts_and_none", "raises", "doubtful"]
)
def test_d_017_never_a_second_create_before_a_listing(tmp_path: Path, sshd: Sshd, fault: str) -> None:
    """After an unclear answer the list is asked before rent is called again, if it is."""
    stage = staged(tmp_path, sshd)
    stage.market.script("rent", fault)
    assert stage.run().outcome is Outcome.SUCCEEDED
    verbs = [v for v, _ in stage.market.calls if v in ("rent", "list_ours")]
    assert "rent,rent" not in ",".join(verbs)
    assert verbs[1] == "list_ours"
    names = [r.name for r in stage.calls("rent")]
    assert len(names) == len(set(names))


def test_d_018_created_but_stopped(tmp_path: Path, sshd: Sshd) -> None:
    """A machine that comes stopped is ended at once, without blame, and the next offer is taken."""
    stage = staged(tmp_path, sshd, limits={"ready_min": 60})

    def boot(machine: FakeMachine) -> tuple[Address, ...]:
        if not stage.market.machines:
            machine.state = MachineState.STOPPED
        return (sshd.address,)

    stage.market.boot = boot
    assert stage.run().outcome is Outcome.SUCCEEDED
    assert rented(stage) == ["o1", "o2"]
    assert stage.blames() == [None, None]
    assert stage.warned("created but stopped")
    assert stage.market.alive() == []


def test_d_019_a_malformed_request_ends_the_provider_after_one_offer(tmp_path: Path, sshd: Sshd) -> None:
    """The market's text is shown, nothing else of it is tried, no host is blamed."""
    stage = staged(tmp_path, sshd)
    stage.market.script("rent", "refused_request", forever=True)
    result = stage.run()
    assert (result.outcome, result.exit_code) == (Outcome.NO_OFFER, 3)
    assert len(stage.calls("rent")) == 1
    assert "invalid env" in result.reason
    assert stage.blames() == []
    assert stage.kinds().count("pod.create_failed") == 1


def test_d_020_throttled_right_after_renting(tmp_path: Path, sshd: Sshd) -> None:
    """Three answers to describe that fail are waited out; the run goes on with the same machine."""
    stage = staged(tmp_path, sshd, limits={"ready_min": 30})
    stage.market.script("describe", "fail", "fail", "fail")
    assert stage.run().outcome is Outcome.SUCCEEDED
    assert rented(stage) == ["o1"]
    assert len(stage.market.machines) == 1


def test_d_020_throttled_for_ever_is_ended_and_proved(tmp_path: Path, sshd: Sshd) -> None:
    """Describe fails until the machine is given back: each is ended by its id and proved gone."""

    class Throttled(Market):
        def next_fault(self, verb: str, detail: Any = None) -> str:
            told = super().next_fault(verb, detail)
            asked = [given for called, given in self.calls if called == "terminate"]
            return "fail" if verb == "describe" and detail not in asked else told

    stage = staged(tmp_path, sshd, market_class=Throttled)
    result = stage.run()
    assert (result.outcome, result.exit_code) == (Outcome.NO_OFFER, 3)
    assert "HTTP 502" in result.reason
    assert stage.market.alive() == []
    assert stage.kinds().count("pod.terminated") == len(stage.market.machines) == 3


def test_d_022_little_credit_is_left_out_with_the_reason(tmp_path: Path, sshd: Sshd) -> None:
    """A known balance under 1.2 x the expected cost: nothing is asked for, the reason is told."""
    stage = staged(tmp_path, sshd, market_class=_with_credit("0.02"))
    result = stage.run()
    assert (result.outcome, result.exit_code) == (Outcome.NO_OFFER, 3)
    assert "credit" in result.reason
    assert stage.calls("rent") == []


def test_d_022_enough_credit_changes_nothing(tmp_path: Path, sshd: Sshd) -> None:
    """The same market with money on it is rented from."""
    stage = staged(tmp_path, sshd, market_class=_with_credit("20"))
    assert stage.run().outcome is Outcome.SUCCEEDED


def test_d_022_insufficient_funds_ends_the_provider(tmp_path: Path, sshd: Sshd) -> None:
    """The market refuses for want of money: it is not asked again, whatever else it offers."""
    stage = staged(tmp_path, sshd)
    stage.market.script("rent", "refused_account", forever=True)
    result = stage.run()
    assert (result.outcome, result.exit_code) == (Outcome.NO_OFFER, 3)
    assert len(stage.calls("rent")) == 1
    assert "insufficient funds" in result.reason


def _with_credit(usd: str) -> type[FakeMarket]:
    def account(_market: FakeMarket) -> Any:
        @hookimpl
        def gipper_account(self: object) -> Account:
            return Account(credit_usd=Decimal(usd))

        return gipper_account

    return market_with(gipper_account=account)


def test_d_023_an_id_that_never_appears(tmp_path: Path, sshd: Sshd) -> None:
    """Rent gave an id that no list and no describe ever shows: ended, proved gone after appear_s, next."""

    class Phantom(Market):
        def shown(self, machine: FakeMachine) -> bool:
            return machine.id != "acme-1" and super().shown(machine)

    stage = staged(tmp_path, sshd, market_class=Phantom)
    assert stage.run().outcome is Outcome.SUCCEEDED
    assert rented(stage) == ["o1", "o2"]
    assert "acme-1" in stage.calls("terminate")
    created, gone = stage.receipts("pod.create")[0], stage.receipts("pod.terminated")[0]
    assert gone["pod"] == "acme-1"
    assert len(gone["listings"]) == 2
    assert (gone.ts - created.ts).total_seconds() >= stage.market.appear_s
    assert stage.warned("has not shown it yet")


def test_d_023_not_proved_is_exit_5(tmp_path: Path, sshd: Sshd) -> None:
    """The lists fail as well: nobody knows, so exit 5 and no second machine."""
    stage = staged(tmp_path, sshd)
    stage.market.boot = lambda _m: ()
    stage.market.script("describe", "none", forever=True)
    stage.market.script("list_ours", "fail", forever=True)
    result = stage.run()
    assert result.exit_code == 5
    assert rented(stage) == ["o1"]


def test_d_025_the_ready_limit_is_the_settings(tmp_path: Path, sshd: Sshd) -> None:
    """RUNNING without an address past the limit: given up then, and the limit is named with its seconds."""
    stage = staged(tmp_path, sshd, limits={"ready_min": 2})
    stage.market.offers = [stage.market.offer("o1")]
    stage.market.boot = lambda _m: ()
    result = stage.run()
    assert result.exit_code == 3
    assert "not ready after 2 s (ready limit)" in result.reason
    created, asked = stage.receipts("pod.create")[0], stage.receipts("pod.terminate")[0]
    assert (asked.ts - created.ts).total_seconds() >= 2


def test_d_025_a_slow_image_is_waited_for(tmp_path: Path, sshd: Sshd) -> None:
    """RUNNING at once, the address much later, but within the limit: the run works."""
    stage = staged(tmp_path, sshd, market_class=_holes(("no address",) * 6), limits={"ready_min": 60})
    assert stage.run().outcome is Outcome.SUCCEEDED
    assert rented(stage) == ["o1"]


def _holes(answers: tuple[str, ...], when: Callable[[int], None] = lambda _n: None) -> type[FakeMarket]:
    """Describe first gives these answers: "pending", "no address"; the rest as it is."""

    class Holes(Market):
        def as_told(self, machine: FakeMachine) -> Any:
            told = super().as_told(machine)
            asked = len([v for v, _ in self.calls if v == "describe"])
            when(asked)
            if asked == 0 or asked > len(answers):
                return told
            state = MachineState.PENDING if answers[asked - 1] == "pending" else told.state
            return attrs.evolve(told, addresses=(), state=state, usd_h=None, created=None)

    return Holes


def test_d_026_holes_in_the_description(tmp_path: Path, sshd: Sshd) -> None:
    """Nothing known, then running without an address, then all of it: no crash, one machine."""
    stage = staged(
        tmp_path, sshd, market_class=_holes(("pending", "no address", "no address")), limits={"ready_min": 30}
    )
    assert stage.run().outcome is Outcome.SUCCEEDED
    assert rented(stage) == ["o1"]


def test_d_026_ctrl_c_in_the_middle(tmp_path: Path, sshd: Sshd) -> None:
    """Asked to stop after the second answer: a clean teardown of a machine that isn't up, exit 130."""
    asked: list[Interrupts] = []

    def stop(describes: int) -> None:
        if describes == 2:
            asked[0].raise_to(1, "Ctrl-C")

    stage = staged(
        tmp_path, sshd, market_class=_holes(("pending", "no address") + ("no address",) * 90, stop),
        limits={"ready_min": 30},
    )  # fmt: skip
    asked.append(stage.interrupts())
    result = stage.run(asked[0])
    assert (result.outcome, result.exit_code) == (Outcome.INTERRUPTED, 130)
    assert stage.market.alive() == []
    assert stage.blames() == [None]


@pytest.mark.parametrize(
    ("fault", "blamed"), [("image", "unsuitable"), ("account", "unsuitable"), ("host", "host")]
)
def test_d_027_states_that_never_recover(tmp_path: Path, sshd: Sshd, fault: str, blamed: str) -> None:
    """An error state fails fast with the market's reason; only the host's own fault is held against it."""

    def diagnose(_market: FakeMarket) -> Any:
        @hookimpl
        def gipper_diagnose(self: object, machine_id: str) -> Diagnosis:
            return Diagnosis(text="OCI runtime create failed: x", fault=fault)  # type: ignore[arg-type]

        return gipper_diagnose

    stage = staged(
        tmp_path, sshd, market_class=market_with(gipper_diagnose=diagnose), limits={"ready_min": 600}
    )
    stage.market.script("describe", "error_state")
    assert stage.run().outcome is Outcome.SUCCEEDED
    assert stage.warned("OCI runtime create failed: x")
    assert stage.blames() == [blamed, None]
    assert rented(stage) == ["o1", "o2"]
