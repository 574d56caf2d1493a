"""However a rent goes wrong, there is at most one machine, gipper knows of it, and it is ended."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import attrs
import pytest
from support_fake import handle, kinds, services

from gipper.errors import CapRefused, GipperError, NotProvedGone
from gipper.lifecycle.book import KINDS, Book
from gipper.lifecycle.proof import end_machine
from gipper.lifecycle.renting import Renting, rent
from gipper.lifecycle.services import Interrupts, Services
from gipper.naming import MachineName, round_up_to_minute
from gipper.testing import FakeMarket, SimRuntime
from gipper.values.machines import RentRequest


@attrs.define
class Stage:
    """A market, an order for it, and the receipts."""

    market: FakeMarket
    services: Services
    renting: Renting
    interrupts: Interrupts

    def rent(self) -> object:
        """The rental, or the error that ended it."""
        try:
            return rent(self.services, self.renting, self.interrupts)
        except GipperError as error:
            return error

    @property
    def book(self) -> Book:
        return Book.of(self.services.ledger.read(kinds=KINDS))


def staged(tmp_path: Path, reserved: str = "0.50", **market: object) -> Stage:
    runtime = SimRuntime()
    fake = FakeMarket(runtime, **market)  # type: ignore[arg-type]
    svc = services(tmp_path / "data", runtime)
    end = round_up_to_minute(runtime.now() + timedelta(hours=1))
    name = str(MachineName(inst="00000", run="0000000000", attempt=1, end=end))
    request = RentRequest(
        name=name, public_key="ssh-ed25519 AAAA", end=end, boot_watchdog_s=4200.0,
        timer_at=end + timedelta(hours=1),
    )  # fmt: skip
    renting = Renting(
        provider=handle(fake, tmp_path / "p"), run="0000000000", job="job", attempt=1,
        offer=fake.offers[0], request=request, reserved=Decimal(reserved),
    )  # fmt: skip
    return Stage(fake, svc, renting, Interrupts(runtime))


def test_the_intent_is_durable_before_the_market_is_asked(tmp_path: Path) -> None:
    """At the moment of the rent call, the ledger on disk already has the intent with the name."""
    stage = staged(tmp_path)
    seen: list[list[str]] = []

    def spying(_machine: object) -> tuple[()]:
        seen.append([r["name"] for r in services(tmp_path / "data", SimRuntime()).ledger.read()])
        return ()

    stage.market.boot = spying
    rental = stage.rent()
    assert seen == [[stage.renting.request.name]]
    assert rental.pod == "acme-1"  # type: ignore[attr-defined]
    assert kinds(stage.services) == ["pod.intent", "pod.create"]


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("offer_gone", "OfferGone"), ("no_capacity", "NoCapacity"), ("refused_request", "Refused"),
        ("refused_account", "Refused"), ("refused_offer", "Refused"),
    ],
)  # fmt: skip
def test_a_clear_no_closes_the_intent(tmp_path: Path, fault: str, error: str) -> None:
    """The market's own four words say that nothing was made; the reservation is freed."""
    stage = staged(tmp_path)
    stage.market.script("rent", fault)
    assert type(stage.rent()).__name__ == error
    assert kinds(stage.services) == ["pod.intent", "pod.create_failed"]
    assert stage.book.open_pods() == []


@pytest.mark.parametrize(
    "fault",
    ["acts_and_raises", "acts_and_doubtful", "acts_and_none", "acts_and_interrupt", "wrong_name", "late", "twin",
     "late_twin"],
)  # fmt: skip
def test_d_016_a_machine_behind_an_unclear_answer_is_found_and_ended(tmp_path: Path, fault: str) -> None:
    """One create call, the machine found by its name, and nothing alive once it is given back."""
    stage = staged(tmp_path)
    stage.market.script("rent", fault)
    rental = stage.rent()
    assert not isinstance(rental, GipperError), rental
    assert end_machine(stage.services, rental, "test") is not None  # type: ignore[arg-type]
    stage.market.runtime.sleep(stage.market.late_s + 1)
    assert stage.market.alive() == []
    assert sum(1 for verb, _ in stage.market.calls if verb == "rent") == 1


@pytest.mark.parametrize("fault", ["raises", "doubtful", "none", "interrupt", "nonsense"])
def test_nothing_behind_an_unclear_answer_is_doubt_that_stays_open(tmp_path: Path, fault: str) -> None:
    """Two complete listings up to appear_s; the intent stays open for the reaper, the run may go on."""
    stage = staged(tmp_path)
    stage.market.script("rent", fault)
    error = stage.rent()
    assert isinstance(error, GipperError)
    assert kinds(stage.services) == ["pod.intent", "pod.create_doubtful"]
    assert [p.name for p in stage.book.open_pods()] == [stage.renting.request.name]
    assert stage.market.runtime.monotonic() >= 5.0
    listings = sum(1 for verb, _ in stage.market.calls if verb == "list_ours")
    assert listings >= 2


def test_doubt_without_a_promise_never_rents_on(tmp_path: Path) -> None:
    """appear_s None: nobody can say that no machine comes, so exit 5 with the name."""
    stage = staged(tmp_path, appear_s=None)
    stage.market.script("rent", "doubtful")
    error = stage.rent()
    assert isinstance(error, NotProvedGone)
    assert error.exit_code == 5
    assert stage.renting.request.name in error.message
    assert stage.market.runtime.monotonic() >= 600


def test_doubt_while_the_list_fails_never_rents_on(tmp_path: Path) -> None:
    """Without two complete listings nothing is known, whatever the provider promises."""
    stage = staged(tmp_path)
    stage.market.script("rent", "acts_and_raises")
    stage.market.script("list_ours", "fail", forever=True)
    assert isinstance(stage.rent(), NotProvedGone)
    assert len(stage.market.alive()) == 1
    assert [p.name for p in stage.book.open_pods()] == [stage.renting.request.name]


def test_ctrl_c_during_the_lookup_leaves_one_complete_listing(tmp_path: Path) -> None:
    """The wish to stop shortens the lookup to one listing, and what isn't found then is exit 5."""
    stage = staged(tmp_path)
    stage.market.script("rent", "doubtful")
    stage.interrupts.raise_to(1, "Ctrl-C")
    assert isinstance(stage.rent(), NotProvedGone)
    assert sum(1 for verb, _ in stage.market.calls if verb == "list_ours") == 1


def test_a_machine_under_another_name_is_ended_by_its_id(tmp_path: Path) -> None:
    """Created after our intent, answered to our call: nobody would find it again, so it is ended at once."""
    stage = staged(tmp_path)
    stage.market.script("rent", "misnamed")
    assert isinstance(stage.rent(), GipperError)
    assert stage.market.alive() == []
    assert [r["usd_h"] for r in stage.services.ledger.read(kinds={"spend"})] == [Decimal("0.400000")]


def test_the_days_cap_refuses_before_the_market_is_asked(tmp_path: Path) -> None:
    """D-076: 0.60 spent today, a machine alive that holds 0.30, 0.20 more: over 1, nothing is asked."""
    stage = staged(tmp_path, reserved="0.20")
    svc = services(tmp_path / "data", stage.market.runtime, daily_cap_usd=Decimal("1"))
    _spent(svc, "a", "0.60")
    _open(svc, "b", "0.30")
    stage.services = svc
    error = stage.rent()
    assert isinstance(error, CapRefused)
    assert "$0.90" in error.message and "$0.20" in error.message
    assert [verb for verb, _ in stage.market.calls] == []


def test_the_cap_counts_an_open_machine_as_the_larger_of_accrued_and_reserved(tmp_path: Path) -> None:
    """$0.40/h for 2 h is $0.80 accrued, although only $0.10 was reserved."""
    stage = staged(tmp_path, reserved="0.10")
    assert not isinstance(stage.rent(), GipperError)
    now = stage.market.runtime.now() + timedelta(hours=2)
    assert stage.book.committed(now, now) == Decimal("0.800000")


def _intent(svc: Services, run: str, reserved: str) -> None:
    from gipper.values.receipts import PodIntent

    svc.ledger.append(
        PodIntent(
            provider="acme", offer="o", name=f"gipper-{run}", attempt=1, end=svc.runtime.now(),
            usd_h=Decimal("0.30"), reserved_usd=Decimal(reserved),
        ),
        run=run,
    )  # fmt: skip


def _open(svc: Services, run: str, reserved: str) -> None:
    from gipper.values.receipts import PodCreate

    _intent(svc, run, reserved)
    created = PodCreate(provider="acme", pod=run, name=f"gipper-{run}", usd_h=Decimal("0.30"))
    svc.ledger.append(created, run=run)


def _spent(svc: Services, run: str, usd: str) -> None:
    from gipper.values.receipts import PodTerminated, Spend

    _open(svc, run, "0.01")
    now = svc.runtime.now()
    gone = PodTerminated(provider="acme", pod=run, name=f"gipper-{run}", described=now, listings=(now, now))
    svc.ledger.append(gone, run=run)
    spend = Spend(
        provider="acme", pod=run, usd=Decimal(usd), seconds=1.0, usd_h=Decimal("0.30"), basis="computed"
    )
    svc.ledger.append(spend, run=run)


def test_another_runs_machine_is_never_ended(tmp_path: Path) -> None:
    """A market that answers with somebody else's machine, young and well named: it is left alone, exit 5."""
    stage = staged(tmp_path)
    other = str(MachineName(inst="11111", run="0000000001", attempt=1, end=stage.renting.request.end))
    stage.market.script("rent", "misnamed")
    stage.market.boot = lambda machine: setattr(machine, "name", other) or ()  # type: ignore[func-returns-value]
    error = stage.rent()
    assert isinstance(error, NotProvedGone)
    assert [m.name for m in stage.market.alive()] == [other]
