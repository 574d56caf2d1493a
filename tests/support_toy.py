"""A toy market for the contract: a fake market with pages, bills, an account and ports, correct in all of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs

from gipper.api import (
    Account,
    Address,
    Bill,
    CostAdjustment,
    KeyMissing,
    Machine,
    MachineState,
    ProviderError,
    hookimpl,
)
from gipper.money import cost
from gipper.testing import FakeMachine, FakeMarket, SimRuntime
from gipper.testing.contract import Bench, Unsupported
from gipper.values.offers import Listing, Offer
from gipper.values.plugins import ProviderInfo

HOUR = timedelta(hours=1)
# scenario -> (verb, fault) of the fake market, for good.
SCRIPTS: Mapping[str, tuple[str, str]] = {
    "offers_fail": ("list_offers", "fail"),
    "rent_offer_gone": ("rent", "offer_gone"),
    "rent_no_capacity": ("rent", "no_capacity"),
    "rent_refused_request": ("rent", "refused_request"),
    "rent_refused_account": ("rent", "refused_account"),
    "rent_lost_before": ("rent", "doubtful"),
    "rent_lost_after": ("rent", "acts_and_doubtful"),
    "rent_unreadable": ("rent", "acts_and_raises"),
    "describe_fails": ("describe", "fail"),
    "list_fails": ("list_ours", "fail"),
    "list_later_page_fails": ("list_ours", "cut_short"),
    "end_fails": ("terminate", "fail"),
}


class ToyMarket(FakeMarket):
    """A fake market whose key can be refused and whose machines have ports and a rate."""

    ports: dict[str, Any]
    leaks: list[str]
    refused = False
    account_broken = False
    garbage = False
    slow_until: datetime | None = None

    def info(self) -> ProviderInfo:
        return attrs.evolve(super().info(), key_names=("TOY_API_KEY",))

    def shown(self, machine: FakeMachine) -> bool:
        lingers = self.slow_until is not None and self.runtime.now() < self.slow_until
        return super().shown(machine) or (machine.ended is not None and lingers)

    def as_told(self, machine: FakeMachine) -> Machine:
        told = super().as_told(machine)
        return attrs.evolve(
            told, addresses=(Address(host="203.0.113.7", port=22),), ports=self.ports.get(machine.id, ())
        )

    def provider_class(self) -> type:
        market = self

        class Toy(super().provider_class()):  # type: ignore[misc]
            """A correct provider."""

            def __init__(self, context: Any) -> None:
                super().__init__(context)
                self.context = context

            def ask(self) -> None:
                """The key is looked at with each call."""
                self.context.secret()
                if market.refused:
                    raise ProviderError("toy: HTTP 401: the key was refused", hint="is TOY_API_KEY right?")

            @hookimpl
            def gipper_list_offers(self, query: Any) -> Any:
                self.ask()
                if market.garbage:
                    raise ProviderError("toy: the answer isn't JSON")
                listing = super().gipper_list_offers(query)
                disk = Decimal(repr(query.disk_gb)) / 10000
                return Listing(items=tuple(attrs.evolve(o, usd_h=o.usd_h + disk, udp=True) for o in listing))

            @hookimpl
            def gipper_rent(self, offer: Offer, request: Any) -> Any:
                self.ask()
                machine = super().gipper_rent(offer, request)
                told = [attrs.evolve(p, host="203.0.113.7", outside=40000 + p.inside) for p in request.ports]
                market.ports[machine.id] = tuple(told)
                return machine

            @hookimpl
            def gipper_describe(self, machine_id: str) -> Any:
                self.ask()
                return super().gipper_describe(machine_id)

            @hookimpl
            def gipper_list_ours(self) -> Any:
                self.ask()
                return super().gipper_list_ours()

            @hookimpl
            def gipper_terminate(self, machine_id: str) -> None:
                self.ask()
                super().gipper_terminate(machine_id)

            @hookimpl
            def gipper_billed(self, since: datetime, until: datetime) -> Any:
                return list(market.bills(since, until))

            @hookimpl
            def gipper_account(self) -> Any:
                if market.account_broken:
                    raise ProviderError("toy: HTTP 500")
                return Account(credit_usd=Decimal(10))

            @hookimpl
            def gipper_authorize(self, machine: Machine, public_key: str) -> None:
                self.ask()

            @hookimpl
            def gipper_adjust_costs(self, offers: Any) -> Any:
                return {o.id: [CostAdjustment(label="a toy's surcharge", usd=0.01)] for o in offers}

        return Toy

    def bills(self, since: datetime, until: datetime) -> Any:
        """Every machine's charge within the window."""
        for machine in self.machines.values():
            low = max(since, machine.created)
            high = min(until, machine.ended or self.runtime.now(), self.runtime.now())
            if high > low:
                usd = cost(machine.usd_h, (high - low).total_seconds())
                yield Bill(machine_id=machine.id, kind="gpu", usd=usd, since=low, until=high)


class ToyBench(Bench):
    """The toy market as a bench; `change` makes the provider wrong on purpose."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        sim = SimRuntime()
        self.runtime = sim
        self.market = ToyMarket(
            sim, name="toy", watchdog="curl -X DELETE https://toy.example", watchdog_reads=("TOY",)
        )
        self.market.ports, self.market.leaks = {}, []
        self.provider_class = self.change(self.market.provider_class())

    def change(self, correct: type) -> type:
        """The class under test."""
        return correct

    def arrange(self, scenario: str) -> None:
        market = self.market
        if scenario == "well":
            market.mend()
            market.refused = market.account_broken = market.garbage = False
        elif scenario in SCRIPTS:
            verb, fault = SCRIPTS[scenario]
            market.script(verb, fault, forever=True)
        elif scenario == "key_refused":
            market.refused = True
        elif scenario == "offers_garbage":
            market.garbage = True
        elif scenario == "account_fails":
            market.account_broken = True
        elif scenario == "offers_empty":
            market.offers.clear()
        elif scenario == "end_slow":
            market.slow_until = market.runtime.now() + timedelta(seconds=20)
        elif scenario == "machine_stops":
            next(iter(market.machines.values())).state = MachineState.STOPPED
        elif scenario == "machine_vanishes":
            market.kill(next(iter(market.machines)))
        else:
            super().arrange(scenario)

    def alive(self) -> Collection[str]:
        return {m.name for m in self.market.alive()}

    def creates(self) -> int:
        return sum(verb == "rent" for verb, _ in self.market.calls)

    def leaks(self) -> list[str]:
        return self.market.leaks


__all__ = ["KeyMissing", "ToyBench", "ToyMarket", "Unsupported"]
