"""The driver through core's own handle on the emulated market, in this process and in simulated time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import pytest
from emulators import faults
from emulators.housing import NoHousing
from emulators.vast.app import VastApp, make_vast
from emulators.vast.contracts import Contract
from emulators.vast.market import Market
from emulators.vast.offers import many, row
from emulators.web import InProcess
from gipper_vast import VastProvider
from gipper_vast.tables import VastJob, VastSettings
from support_fake import services

from gipper.api import Offer, OfferGone, OfferQuery, Port, ProviderError, RentRequest
from gipper.http import ProviderSession, make_session
from gipper.lifecycle.proof import Proof, Rental, end_machine
from gipper.lifecycle.services import Services
from gipper.plugins.context import Context
from gipper.plugins.handle import Provider
from gipper.plugins.handle_rent import DoubtfulRent
from gipper.plugins.registry import Registry
from gipper.plugins.urls import key_hosts
from gipper.redact import Redactor
from gipper.testing import SimRuntime

URL = "https://console.vast.ai"
TOO_OFTEN = ("text", "threshold", "detail", "json")


class Keys:
    """One key."""

    def __init__(self, value: str) -> None:
        self.value = value

    def require(self, name: str) -> str:
        return self.value


@attrs.define
class Bench:
    """A provider's handle, the market behind it, and simulated time."""

    sim: SimRuntime
    market: Market
    app: VastApp
    provider: Provider
    services: Services
    session: ProviderSession

    def offers(self, **wishes: Any) -> list[Offer]:
        """What the market offers now."""
        query = OfferQuery(deadline=self.sim.monotonic() + 300, options=VastJob(), **wishes)
        return list(self.provider.list_offers(query))

    def rent(self, name: str = "gipper-aaaaa-0000000000-1-000000", **wishes: Any) -> str:
        """Rent the cheapest offer; the machine's id."""
        return self.provider.rent(self.offers()[0], self.request(name, **wishes)).id

    def request(self, name: str, **wishes: Any) -> RentRequest:
        end = self.sim.now() + timedelta(hours=1)
        return RentRequest(
            name=name, public_key="ssh-ed25519 AAAA me", end=end, boot_watchdog_s=4200.0, options=VastJob(),
            timer_at=end + timedelta(hours=1), **wishes,
        )  # fmt: skip

    def contract(self, machine_id: str) -> Contract:
        return self.market.contracts[int(machine_id)]

    def end(self, machine_id: str) -> Proof | None:
        """End and prove, as every run does."""
        rental = Rental(
            provider=self.provider, run="0000000000", name=self.contract(machine_id).label or "", pod=machine_id,
            usd_h=Decimal("0.3"), since=self.contract(machine_id).created, gpu=None, job="job",
        )  # fmt: skip
        return end_machine(self.services, rental, "the test is over")


@pytest.fixture
def bench(tmp_path: Path) -> Callable[..., Bench]:
    def make(*rows: dict[str, Any], key: str | None = None, **changes: Any) -> Bench:
        sim = SimRuntime(datetime(2026, 11, 30, 12, 0, tzinfo=UTC))
        market, app = make_vast(sim, NoHousing(), rows, **changes)
        redactor = Redactor()
        redactor.add(market.key, "VAST_API_KEY")
        loaded = Registry().add_provider(VastProvider, distribution="gipper-vast", version="1")
        session = make_session(
            provider="vast", runtime=sim, redact=redactor.text, key_hosts=key_hosts(loaded.info, None)
        )
        session.mount(URL, InProcess(app))
        keys = Keys(key or market.key)
        context = Context(loaded.info, VastSettings(), sim, tmp_path / "p", keys, lambda: session)
        provider = Provider(loaded, context, keys, redact=redactor.text, on_this_computer=False)
        return Bench(sim, market, app, provider, services(tmp_path / "data", sim), session)

    return make


def test_a_life_in_simulated_time(bench: Callable[..., Bench]) -> None:
    """Offered, rented, running, listed, destroyed, proved gone: nobody waits for real."""
    b = bench(pulling_s=10, running_s=60, ports_s=90)
    machine_id = b.rent(ports=(Port(inside=5004, protocol="udp"),))
    states = []
    for _ in range(12):
        machine = b.provider.describe(machine_id)
        assert machine is not None
        states.append(machine.state.value)
        b.sim.sleep(10)
    assert list(dict.fromkeys(states)) == ["pending", "starting", "running"]
    assert [p.inside for p in machine.ports] == [5004]
    assert [m.id for m in b.provider.list_ours()] == [machine_id]
    assert isinstance(b.end(machine_id), Proof)
    assert b.market.alive() == [] and b.app.leaks == []


def test_all_offers_past_the_market_s_limit(bench: Callable[..., Bench]) -> None:
    """150 listings come in several searches of at most 64, each once."""
    b = bench(*many(150))
    found = b.offers()
    assert len({o.id for o in found}) == len(found) == 150
    assert all(o.usd_h == Decimal(str(round(o.usd_h, 6))) for o in found)


def test_d_006_the_disk_asked_for_is_rented_and_priced(bench: Callable[..., Bench]) -> None:
    """100 GB are asked for: a host with 80 free is none, the price holds the disk, the create says 100."""
    b = bench(row(1, disk_space=713.4), row(2, disk_space=80, machine_id=2))
    (offer,) = b.offers(disk_gb=100)
    assert offer.usd_h == Decimal("0.3") + Decimal("0.15") * 100 / 720 or offer.usd_h == Decimal("0.320830")
    b.provider.rent(offer, b.request("gipper-a", disk_gb=100))
    assert b.app.seen("create")[0].json["disk"] == 100


@pytest.mark.parametrize("form", TOO_OFTEN)
def test_d_013_told_to_slow_down(bench: Callable[..., Bench], form: str) -> None:
    """Whichever way it is said, the call is repeated after a pause, and never counts as an empty answer."""
    b = bench(too_often_form=form)
    text = {"text": "API requests too frequent", "threshold": "API requests too frequent: endpoint threshold=1.0",
            "detail": {"detail": "API requests too frequent: endpoint threshold=1.0"},
            "json": {"success": False, "error": "rate_limit_exceeded", "retry_after": 3}}[form]  # fmt: skip
    b.app.faults.script("search", faults.status(429, text))
    before = b.sim.monotonic()
    assert len(b.offers()) == 1
    assert b.sim.monotonic() - before >= 2
    machine_id = b.rent()
    b.app.faults.script("list", faults.status(429, text))
    assert [m.id for m in b.provider.list_ours()] == [machine_id]
    b.app.faults.script("destroy", faults.status(429, text))
    assert isinstance(b.end(machine_id), Proof)


def test_d_013_the_day_s_searches_are_used_up(bench: Callable[..., Bench]) -> None:
    """The quota is not repeated, and says until when; it is no empty market."""
    b = bench()
    reset = str(int(datetime(2026, 12, 1, tzinfo=UTC).timestamp()))
    b.app.faults.always(
        "search", faults.status(429, {"error": "search_quota_exceeded"}, X_RateLimit_Reset=reset)
    )
    with pytest.raises(ProviderError, match="2026-12-01 00:00 UTC"):
        b.offers()
    assert len(b.app.seen("search")) == 1


def test_a_pace_that_the_market_never_refuses(bench: Callable[..., Bench]) -> None:
    """Renting, reading, listing and ending several machines in a row meets no rate limit."""
    b = bench(*many(4))
    machines = []
    for n, offer in enumerate(b.offers()):
        machines.append(b.provider.rent(offer, b.request(f"gipper-{n}")).id)
        b.provider.describe(machines[-1])
        b.provider.list_ours()
    for machine_id in machines:
        b.provider.terminate(machine_id)
    assert b.app.limits.refused == [] and b.market.alive() == []


@pytest.mark.parametrize("form", ["400", "404", "410", "200"])
def test_d_015_somebody_else_was_faster(bench: Callable[..., Bench], form: str) -> None:
    """Each way of saying that an offer is gone is OfferGone, and nothing was made."""
    b = bench(gone_form=form)
    offer = b.offers()[0]
    b.app.faults.script("search", faults.status(500, ""))
    b.market.listings.taken.add(5000101)
    with pytest.raises(OfferGone):
        b.provider.rent(offer, b.request("gipper-a"))
    assert b.market.creates == 0


@pytest.mark.parametrize("fault", [faults.lost_after(), faults.status(502, "<html>", after=True),
                                   faults.status(200, "{", after=True)])  # fmt: skip
def test_d_016_the_answer_to_create_is_lost(bench: Callable[..., Bench], fault: faults.Fault) -> None:
    """Doubtful to core, asked once, and the name finds the machine."""
    b = bench()
    offer = b.offers()[0]
    b.app.faults.script("create", fault)
    with pytest.raises(DoubtfulRent):
        b.provider.rent(offer, b.request("gipper-lost"))
    assert len(b.app.seen("create")) == b.market.creates == 1
    assert [m.name for m in b.provider.list_ours()] == ["gipper-lost"]


def test_d_023_an_id_that_never_appears(bench: Callable[..., Bench]) -> None:
    """The create says yes and nothing is there: proved gone once the lists must have shown it."""
    b = bench(no_instance=True)
    machine_id = b.rent()
    assert b.provider.describe(machine_id) is None
    begun = b.sim.monotonic()
    assert isinstance(b.end(machine_id), Proof)
    assert b.sim.monotonic() - begun >= 80


def test_d_064_destroy_and_list_are_refused(bench: Callable[..., Bench]) -> None:
    """A session that expired: nothing is taken as gone, the machine stays pending."""
    b = bench()
    machine_id = b.rent()
    b.sim.sleep(100)
    expired = faults.status(401, {"success": False, "error": "auth_error", "msg": "session expired"})
    for endpoint in ("destroy", "list", "read"):
        b.app.faults.always(endpoint, expired)
    assert b.end(machine_id) is None
    assert len(b.market.alive()) == 1
    kinds = [r.kind for r in b.services.ledger.read()]
    assert kinds[-1] == "pod.termination_pending" and "pod.terminated" not in kinds
    b.app.faults.mend()
    assert isinstance(b.end(machine_id), Proof)


def test_d_065_null_after_destroy(bench: Callable[..., Bench]) -> None:
    """`{"instances": null}` is the market's "gone", and quiet."""
    b = bench()
    machine_id = b.rent()
    b.provider.list_ours()
    b.provider.terminate(machine_id)
    assert b.provider.describe(machine_id) is None
    assert isinstance(b.end(machine_id), Proof)


def test_d_066_somebody_deleted_it_already(bench: Callable[..., Bench]) -> None:
    """Ending a machine that isn't there is no error."""
    b = bench()
    machine_id = b.rent()
    b.market.vanish(b.contract(machine_id))
    b.provider.terminate(machine_id)
    assert isinstance(b.end(machine_id), Proof)


def test_d_068_a_list_that_fails_is_not_empty(bench: Callable[..., Bench]) -> None:
    """Three server errors, then the machine: the proof waits for complete lists."""
    b = bench(linger_s=20)
    machine_id = b.rent()
    b.sim.sleep(100)
    broken = faults.status(500, {"detail": "x"})
    b.app.faults.script("list", broken, broken, broken)
    proof = b.end(machine_id)
    assert isinstance(proof, Proof)
    ended = b.contract(machine_id).ended
    assert ended is not None and proof.listings[0] >= ended + timedelta(seconds=20)
    b.app.faults.always("list", broken)
    with pytest.raises(ProviderError, match="500"):
        b.provider.list_ours()


def test_d_070_stopped_is_not_ended(bench: Callable[..., Bench]) -> None:
    """A container that exited is listed, told as over, and destroyed."""
    b = bench()
    machine_id = b.rent()
    b.sim.sleep(5)
    b.market.outbid(b.contract(machine_id))
    assert [m.id for m in b.provider.list_ours()] == [machine_id]
    machine = b.provider.describe(machine_id)
    assert machine is not None and machine.state.value in ("error", "stopped")
    assert isinstance(b.end(machine_id), Proof)
    assert b.market.alive() == []


def test_d_071_labels_of_other_people(bench: Callable[..., Bench]) -> None:
    """Null, empty and other labels are listed as foreign; the list is whole over its pages."""
    b = bench(*many(31))
    labels = [None, "", "training", "gipperish", "Gipper-x", *(f"gipper-{n}" for n in range(26))]
    for listing, label in zip(list(b.market.listings.rows), labels, strict=True):
        b.market.create(listing, {"label": label, "disk": 10, "image": "a"})
    found = b.provider.list_ours()
    assert len(found) == 31 and len(b.app.seen("list")) == 2
    assert sum(m.name.startswith("gipper-") for m in found) == 26


def test_a_second_page_that_fails_is_no_list(bench: Callable[..., Bench]) -> None:
    """Half a list is an error."""
    b = bench(*many(31))
    for listing in list(b.market.listings.rows):
        b.market.create(listing, {"label": "x", "disk": 10, "image": "a"})
    b.app.faults.script("list", faults.fine(), faults.status(500, ""))
    with pytest.raises(ProviderError):
        b.provider.list_ours()


def test_d_074_bills_grow_until_the_day_closes(bench: Callable[..., Bench]) -> None:
    """Charges for a window are the meter's, to the market's rounding, and only grow."""
    b = bench(bills_lag_s=1800)
    machine_id = b.rent()
    contract = b.contract(machine_id)
    since = b.sim.now() - timedelta(hours=1)
    sums = []
    for _ in range(8):
        b.sim.sleep(3600)
        billed = b.provider.billed(since, b.sim.now() + timedelta(hours=1))
        assert billed is not None
        sums.append(sum((x.usd for x in billed if x.machine_id == machine_id), Decimal(0)))
    assert sums == sorted(sums) and sums[0] < sums[-1]
    b.end(machine_id)
    b.sim.sleep(2 * 86400)
    billed = b.provider.billed(since, b.sim.now())
    assert billed is not None
    total = sum((x.usd for x in billed), Decimal(0))
    assert abs(total - b.market.metered(contract)) <= Decimal("0.003")
    assert {x.kind for x in billed} == {"gpu", "disk"}


def test_a_wrong_key_is_no_empty_market(bench: Callable[..., Bench]) -> None:
    """The service's 404 for an unknown key is told as that, by every verb, and never as "gone"."""
    b = bench(key="another-key-0123456789")
    for ask in (b.provider.list_ours, b.provider.account, lambda: b.provider.describe("7001001"),
                lambda: b.provider.terminate("7001001")):  # fmt: skip
        with pytest.raises(ProviderError, match="key was not accepted"):
            ask()


def test_d_082_a_redirect_elsewhere_gets_no_key(bench: Callable[..., Bench]) -> None:
    """A list that redirects to another host goes there without the key and is no list; a create isn't sent on."""
    b = bench()
    _, elsewhere = make_vast(b.sim, NoHousing())
    b.session.mount("https://elsewhere.example", InProcess(elsewhere))
    away = faults.status(302, "", Location="https://elsewhere.example/api/v1/instances/")
    b.app.faults.always("list", away)
    with pytest.raises(ProviderError):
        b.provider.list_ours()
    assert elsewhere.requests and not [s for s in elsewhere.requests if "Authorization" in s.headers]
    offer, before = b.offers()[0], len(elsewhere.requests)
    b.app.faults.script("create", away)
    with pytest.raises(DoubtfulRent):
        b.provider.rent(offer, b.request("gipper-a"))
    assert len(b.app.seen("create")) == 1 and len(elsewhere.requests) == before


def test_a_bid_is_a_bid(bench: Callable[..., Bench]) -> None:
    """A spot offer is rented with its price, an ordinary one without; what comes as the other kind is ended."""
    b = bench(*many(2))
    spot = next(o for o in b.offers(spot=True) if o.spot)
    machine_id = b.provider.rent(spot, b.request("gipper-bid")).id
    assert b.contract(machine_id).bid == 0.16
    plain = next(o for o in b.offers() if not o.spot)
    b.market.knobs.always_bid = True
    wrong = b.provider.rent(plain, b.request("gipper-plain")).id
    machine = b.provider.describe(wrong)
    assert machine is not None and machine.state.value == "error" and "interruptible" in (machine.fault or "")


def test_an_error_that_made_a_machine(bench: Callable[..., Bench]) -> None:
    """A refused bid that left a stopped contract: core is told of the machine, so that it is ended."""
    b = bench(error_with_contract=True)
    machine_id = b.rent()
    machine = b.provider.describe(machine_id)
    assert machine is not None and machine.state.value == "error"
    assert isinstance(b.end(machine_id), Proof) and b.market.alive() == []


def test_a_rate_limit_met_after_all(bench: Callable[..., Bench]) -> None:
    """Another process of the same account used up the interval: the refusal's own wait is obeyed."""
    b = bench(retry_after=True)
    b.app.limits.too_early("list", f"Bearer {b.market.key}", b.sim.monotonic())
    assert list(b.provider.list_ours()) == []
    assert b.app.limits.refused == ["list"]


def test_no_money_left_in_the_middle(bench: Callable[..., Bench]) -> None:
    """When the credit is used up the market stops everything: told as stopped, listed, and ended."""
    b = bench(credit=Decimal("0.10"))
    machine_id = b.rent()
    b.sim.sleep(3600)
    machine = b.provider.describe(machine_id)
    assert machine is not None and machine.state.value in ("error", "stopped")
    account = b.provider.account()
    assert account is not None and account.credit_usd is not None and account.credit_usd <= 0
    assert isinstance(b.end(machine_id), Proof)
