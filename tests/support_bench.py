"""A provider's handle over an emulated market, in this process and in simulated time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
from emulators.web import InProcess, MarketApp
from support_fake import services

from gipper.api import Machine, Offer, OfferQuery, RentRequest
from gipper.http import ProviderSession, make_session
from gipper.lifecycle.proof import Proof, Rental, end_machine
from gipper.lifecycle.services import Services
from gipper.plugins.context import Context
from gipper.plugins.handle import Provider
from gipper.plugins.registry import Registry
from gipper.plugins.urls import key_hosts
from gipper.redact import Redactor
from gipper.testing import SimRuntime

START = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


class OneKey:
    """One key."""

    def __init__(self, value: str) -> None:
        self.value = value

    def require(self, name: str) -> str:
        return self.value


@attrs.define
class Bench:
    """`market` has `alive()`; `app` is its API."""

    sim: SimRuntime
    market: Any
    app: MarketApp
    provider: Provider
    services: Services
    session: ProviderSession

    def offers(self, **wishes: Any) -> list[Offer]:
        """What the market offers now."""
        return list(self.listing(**wishes))

    def listing(self, **wishes: Any) -> Any:
        """The whole listing, notes too."""
        table = self.provider.info.job_table
        options = wishes.pop("options", table() if table else None)
        query = OfferQuery(deadline=self.sim.monotonic() + 300, options=options, **wishes)
        return self.provider.list_offers(query)

    def request(self, name: str = "gipper-aaaaa-0000000000-1-000000", **wishes: Any) -> RentRequest:
        """What core would ask for."""
        table, end = self.provider.info.job_table, self.sim.now() + timedelta(hours=1)
        given: dict[str, Any] = {"options": table() if table else None, **wishes}
        return RentRequest(
            name=name, public_key="ssh-ed25519 AAAA me", end=end, boot_watchdog_s=4200.0,
            timer_at=end + timedelta(hours=1), **given,
        )  # fmt: skip

    def rent(self, name: str = "gipper-aaaaa-0000000000-1-000000", **wishes: Any) -> Machine:
        """Rent the first offer."""
        return self.provider.rent(self.offers()[0], self.request(name, **wishes))

    def described(self, machine_id: str) -> Machine:
        """A machine that must be there."""
        found = self.provider.describe(machine_id)
        assert found is not None
        return found

    def end(self, machine: Machine) -> Proof | None:
        """End and prove, as every run does."""
        rental = Rental(
            provider=self.provider, run="0000000000", name=machine.name, pod=machine.id, usd_h=Decimal("0.3"),
            since=machine.created or self.sim.now(), gpu=None, job="job",
        )  # fmt: skip
        return end_machine(self.services, rental, "the test is over")


def make_bench(
    folder: Path, cls: type, url: str, sim: SimRuntime, market: Any, app: MarketApp, *, key: str | None = None,
    settings: object = None,
) -> Bench:  # fmt: skip
    """A bench for the provider `cls`, whose API at `url` is `app`; `key` is another than the account's."""
    redactor = Redactor()
    redactor.add(market.key, "THE_KEY")
    loaded = Registry().add_provider(cls, distribution="gipper-market", version="1")
    session = make_session(
        provider=loaded.info.name, runtime=sim, redact=redactor.text,
        key_hosts=key_hosts(loaded.info, settings), secret_headers=loaded.info.secret_headers,
    )  # fmt: skip
    session.mount(url, InProcess(app))
    keys = OneKey(key or market.key)
    table = loaded.info.settings_table
    context = Context(
        loaded.info, settings or (table() if table else None), sim, folder / "p", keys, lambda: session
    )
    provider = Provider(loaded, context, keys, redact=redactor.text, on_this_computer=False)
    return Bench(sim, market, app, provider, services(folder / "data", sim), session)
