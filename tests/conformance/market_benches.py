"""The emulated markets as benches for the contract: in this process, in simulated time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from emulators import faults
from emulators.housing import NoHousing
from emulators.web import InProcess, MarketApp
from support_bench import START

from gipper.testing import SimRuntime
from gipper.testing.contract import Bench

BROKEN = faults.status(500, {"detail": "x"})
PAGE = faults.status(502, "<html>bad gateway</html>")


class EmulatedBench(Bench):
    """What all emulated markets share. `endpoints` maps our words to the market's endpoints."""

    url: str
    app: MarketApp
    market: Any
    endpoints: Mapping[str, str]

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.sim = SimRuntime(START)
        self.runtime = self.sim
        self.make()
        self.key = self.market.key

    def make(self) -> None:
        """Make `market` and `app`."""
        raise NotImplementedError

    def install(self, session: Any) -> None:
        session.mount(self.url, InProcess(self.app))

    def arrange(self, scenario: str) -> None:
        self.app.faults.mend()
        simple = {
            "offers_fail": ("offers", BROKEN), "offers_garbage": ("offers", PAGE), "describe_fails": ("read", BROKEN),
            "list_fails": ("list", BROKEN), "end_fails": ("end", BROKEN), "account_fails": ("account", BROKEN),
            "rent_lost_before": ("create", faults.lost_before()), "rent_lost_after": ("create", faults.lost_after()),
            "rent_unreadable": ("create", faults.status(200, "{", after=True)),
        }  # fmt: skip
        if scenario in simple:
            what, fault = simple[scenario]
            if what not in self.endpoints:
                super().arrange(scenario)
            self.app.faults.always(self.endpoints[what], fault)
        elif scenario == "list_later_page_fails":
            self.app.faults.script(self.endpoints["list"], faults.fine())
            self.app.faults.always(self.endpoints["list"], BROKEN)
        elif scenario == "machine_vanishes":
            self.market.vanish(self.market.alive()[0])
        else:
            self.arrange_own(scenario)

    def arrange_own(self, scenario: str) -> None:
        """What each market words in its own way."""
        super().arrange(scenario)

    def creates(self) -> int:
        return len(self.app.seen(self.endpoints["create"]))

    def leaks(self) -> Sequence[str]:
        return self.app.leaks


class VastBench(EmulatedBench):
    """Vast.ai."""

    url = "https://console.vast.ai"
    page = 25
    endpoints = MappingProxyType({
        "offers": "search", "read": "read", "list": "list", "end": "destroy", "create": "create", "account": "user",
    })  # fmt: skip

    def make(self) -> None:
        from emulators.vast.app import make_vast
        from emulators.vast.offers import many
        from gipper_vast import VastProvider

        self.provider_class = VastProvider
        self.market, self.app = make_vast(self.sim, NoHousing(), many(40), host="8.8.4.4")

    def arrange_own(self, scenario: str) -> None:
        market, app = self.market, self.app
        refusals = {
            "rent_no_capacity": (400, "resources_unavailable", "the machine is currently unavailable"),
            "rent_refused_request": (400, "invalid_args", "error 400/3467: bad field"),
            "rent_refused_account": (
                400,
                "insufficient_credit",
                "Your account lacks credit; see the billing page.",
            ),
        }
        if scenario == "offers_empty":
            market.listings.rows.clear()
        elif scenario == "rent_offer_gone":
            market.listings.taken.update(r["ask_contract_id"] for r in market.listings.rows)
        elif scenario in refusals:
            status, code, text = refusals[scenario]
            app.faults.always("create", faults.status(status, {"success": False, "error": code, "msg": text}))
        elif scenario == "key_refused":
            wrong = faults.status(404, {"success": False, "error": "auth_error", "msg": "Invalid user key"})
            for endpoint in ("read", "list", "destroy", "user", "charges"):
                app.faults.always(endpoint, wrong)
        elif scenario == "machine_stops":
            market.outbid(market.alive()[0])
        elif scenario == "end_slow":
            market.knobs.linger_s = 20
        elif scenario != "well":
            super().arrange_own(scenario)

    def alive(self) -> Collection[str]:
        return {c.label or "" for c in self.market.alive()}


class RunpodBench(EmulatedBench):
    """Runpod."""

    url = "https://api.runpod.io"
    page = 2
    endpoints = MappingProxyType({
        "offers": "catalog", "read": "read", "list": "list", "end": "destroy", "create": "create", "account": "graphql",
    })  # fmt: skip

    def make(self) -> None:
        from emulators.runpod.app import make_runpod
        from gipper_runpod import RunpodProvider

        self.provider_class = RunpodProvider
        self.market, self.app = make_runpod(self.sim, NoHousing(), host="8.8.4.4", page=2)

    def arrange_own(self, scenario: str) -> None:
        from emulators.runpod.app import NO_CAPACITY

        market, app = self.market, self.app
        refusals = {
            "rent_no_capacity": (400, NO_CAPACITY),
            "rent_refused_request": (422, "validation failed"),
            "rent_refused_account": (402, "insufficient balance"),
        }
        if scenario == "offers_empty":
            market.gpus.clear()
        elif scenario in refusals:
            status, text = refusals[scenario]
            app.faults.always(
                "create", faults.status(status, {"title": "x", "status": status, "detail": text})
            )
        elif scenario == "key_refused":
            wrong = faults.status(401, {"title": "Unauthorized", "status": 401, "detail": "invalid API key"})
            for endpoint in ("read", "list", "destroy", "catalog", "billing", "graphql"):
                app.faults.always(endpoint, wrong)
        elif scenario == "machine_stops":
            market.stop(market.alive()[0])
        elif scenario == "end_slow":
            market.knobs.linger_s = 20
        elif scenario != "well":
            super().arrange_own(scenario)

    def alive(self) -> Collection[str]:
        return {p.name for p in self.market.alive()}


class ShadeformBench(EmulatedBench):
    """Shadeform. Its lists have one page; a machine doesn't stop, but its creation may fail and its row stay."""

    url = "https://api.shadeform.ai"
    endpoints = MappingProxyType({
        "offers": "types", "read": "read", "list": "list", "end": "destroy", "create": "create",
    })  # fmt: skip

    def make(self) -> None:
        from emulators.shadeform.app import make_shadeform
        from emulators.shadeform.catalog import odd_market
        from gipper_shadeform import ShadeformProvider

        self.provider_class = ShadeformProvider
        self.market, self.app = make_shadeform(self.sim, NoHousing(), odd_market(), host="8.8.4.4")

    def arrange(self, scenario: str) -> None:
        # One page holds all, so that the first to fail is the whole list.
        super().arrange("list_fails" if scenario == "list_later_page_fails" else scenario)

    def arrange_own(self, scenario: str) -> None:
        from emulators.shadeform.app import NO_MONEY, SOLD_OUT

        market, app = self.market, self.app
        refusals = {
            "rent_no_capacity": (409, SOLD_OUT),
            "rent_refused_request": (400, {"message": "os is not an option of this type"}),
            "rent_refused_account": (409, NO_MONEY),
        }
        if scenario in ("offers_empty", "rent_offer_gone"):
            market.kinds.clear()
        elif scenario in refusals:
            app.faults.always("create", faults.status(*refusals[scenario]))
        elif scenario == "key_refused":
            for endpoint in ("read", "list", "destroy", "types", "keys", "add_key"):
                app.faults.always(endpoint, faults.status(401, {"message": "Invalid API key"}))
        elif scenario == "machine_stops":
            market.fail(market.alive()[0], "the cloud could not build it")
        elif scenario == "end_slow":
            market.knobs.deleting_s = 20
        elif scenario != "well":
            super().arrange_own(scenario)

    def alive(self) -> Collection[str]:
        return {i.name for i in self.market.alive()}
