"""A user with invented markets installed as plugins: several with offers, one each that goes wrong its own way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support_cli import World, distribution, world

MARKETS = '''
from decimal import Decimal

import attrs

from gipper.api import CostAdjustment, hookimpl
from gipper.runtime import RealRuntime
from gipper.testing import FakeMarket


class Priced(FakeMarket):
    """A market that bills traffic, wants a minimum charge, and takes a watchdog."""


class Keyless(FakeMarket):
    def info(self):
        return attrs.evolve(super().info(), key_names=("OPEN_API_KEY",), keyless_offers=True)


class Untold(FakeMarket):
    def info(self):
        return attrs.evolve(super().info(), fees_advertised=False)


acme = Priced(RealRuntime(), name="acme", usd_h=Decimal("0.40"), watchdog="true")
fees = {"download_usd_per_gb": Decimal("0.01"), "upload_usd_per_gb": Decimal("0.05")}
acme.offers = [
    acme.offer("fine", down_mbps=800.0, up_mbps=400.0, where="Utah, US", **fees),
    acme.offer("dear", usd_h=Decimal("4.00"), **fees),
    acme.offer("small", gpu=attrs.evolve(acme.offer("x").gpu, name="T4", memory_gb=8)),
    acme.offer("nowhere", region=None, where=""),
]
opened = Keyless(RealRuntime(), name="opened", usd_h=Decimal("0.01"))
untold = Untold(RealRuntime(), name="untold", usd_h=Decimal("0.45"))
untold.offers = [untold.offer("u1", region="SE", where="Sweden")]
broken = FakeMarket(RealRuntime(), name="broken")
broken.script("list_offers", "fail", forever=True)
badkey = FakeMarket(RealRuntime(), name="badkey")
badkey.script("list_offers", "bad_key", forever=True)


class Acme(acme.provider_class()):
    @hookimpl
    def gipper_adjust_costs(self, offers, job, phases):
        fee = CostAdjustment(label="minimum charge", usd=0.01)
        return {o.id: (fee, CostAdjustment(label="loading is free", factor=0.9)) for o in offers}


Opened = opened.provider_class()
Untold = untold.provider_class()
Broken = broken.provider_class()
Badkey = badkey.provider_class()
'''
NAMES = ("acme", "opened", "untold", "broken", "badkey")


@pytest.fixture(scope="module")
def shopper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A user who only looks: nothing that they do leaves a trace that another test would mind."""
    with world(tmp_path_factory.mktemp("shopper")) as made:
        site = made.home / "site"
        entries = {name: f"invented_markets:{name.title()}" for name in NAMES}
        distribution(site, "gipper-invented", {"invented_markets": MARKETS}, {"gipper.providers": entries})
        made.env["PYTHONPATH"] = str(site)
        yield made


@pytest.fixture
def job_file(shopper: World) -> Path:
    """A job that moves data both ways."""
    (shopper.work / "data.bin").write_bytes(b"x" * 4_000_000)
    return shopper.job(
        "true", gpu={"min_mem_gb": 24}, inputs=[{"src": "data.bin"}],
        budget={"max_usd": 1.0, "max_hours": 1.0},
        placement={"setup_s": 40, "compute_s": 900, "download_gb": 2, "setup_download_gb": 3},
    )  # fmt: skip
