"""The toy market as a bench for the contract: subclass it and name your provider's class."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from gipper.testing.contract.bench import Bench
from gipper.testing.sim import SimRuntime
from gipper.testing.toymarket.app import GARBAGE_AFTER, LOST_AFTER, LOST_BEFORE, InProcess, ToyApp
from gipper.testing.toymarket.market import PAGE, ToyMarket

# scenario -> (endpoint, fault)
FAULTS: Final[Mapping[str, tuple[str, str]]] = {
    "offers_fail": ("offers", "broken"),
    "offers_garbage": ("offers", "garbage"),
    "key_refused": ("all", "bad_key"),
    "rent_offer_gone": ("create", "taken"),
    "rent_no_capacity": ("create", "full"),
    "rent_refused_request": ("create", "bad_request"),
    "rent_refused_account": ("create", "no_credit"),
    "rent_lost_before": ("create", LOST_BEFORE),
    "rent_lost_after": ("create", LOST_AFTER),
    "rent_unreadable": ("create", GARBAGE_AFTER),
    "describe_fails": ("read", "broken"),
    "list_fails": ("list", "broken"),
    "list_later_page_fails": ("list2", "broken"),
    "end_fails": ("end", "broken"),
    "account_fails": ("account", "broken"),
}
_START: Final = datetime(2026, 1, 5, 12, tzinfo=UTC)


class ToyBench(Bench):
    """One account on a toy market, in simulated time. `url` is the default of your `BaseUrl`."""

    url: str
    page = PAGE + 1

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.runtime = SimRuntime(_START)
        self.market = ToyMarket(self.runtime)
        self.app = ToyApp(self.market)
        self.key = self.market.key

    def install(self, session: Any) -> None:
        """The app in place of the network."""
        session.mount(self.url, InProcess(self.app))

    def arrange(self, scenario: str) -> None:
        """Every scenario there is."""
        self.app.faults.clear()
        if scenario in FAULTS:
            endpoint, fault = FAULTS[scenario]
            self.app.faults[endpoint] = fault
        elif scenario == "offers_empty":
            self.market.offers.clear()
        elif scenario == "machine_stops":
            self.market.alive()[0].stopped = True
        elif scenario == "machine_vanishes":
            del self.market.machines[self.market.alive()[0].id]
        elif scenario == "end_slow":
            self.market.linger_s = 20.0
        else:
            super().arrange(scenario)

    def alive(self) -> Collection[str]:
        """Names of what bills."""
        return {m.name for m in self.market.alive()}

    def creates(self) -> int:
        """Requests for a machine."""
        return self.app.asked.count("create")

    def leaks(self) -> Sequence[str]:
        """Requests that bore the key outside its header."""
        return self.app.leaks
