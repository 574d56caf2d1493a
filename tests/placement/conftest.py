"""Jobs, offers and markets for planning tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gipper.cost_history import NoHistory
from gipper.gpus import gpu_model
from gipper.planning import Plan, plan
from gipper.runtime import RealRuntime
from gipper.values.jobs import Budget, GpuWants, Job, Placement, RunTable
from gipper.values.offers import Listing, Offer, OfferQuery
from gipper.values.plugins import ProviderInfo
from gipper.values.settings import Settings


class FakeProvider:
    """A market with fixed offers; `fail` is raised, or called, when it is asked."""

    def __init__(self, name: str, offers: Sequence[Offer] = (), *, key: bool = True, **info: Any) -> None:
        self.name = name
        self.info = ProviderInfo(name=name, title=name, **{"key_names": (f"{name.upper()}_API_KEY",), **info})
        self.offers = tuple(offers)
        self.key = key
        self.notes: tuple[str, ...] = ()
        self.fail: Any = None
        self.queries: list[OfferQuery] = []
        self.exclude: Callable[..., Any] = lambda offers, job: {}
        self.adjust: Callable[..., Any] = lambda offers, job, phases: {}

    def has_key(self) -> bool:
        return self.key

    def list_offers(self, query: OfferQuery) -> Any:
        self.queries.append(query)
        if isinstance(self.fail, BaseException):
            raise self.fail
        return self.fail() if self.fail else Listing(items=self.offers, notes=self.notes)

    def exclude_offers(self, offers: Sequence[Offer], job: Job) -> Any:
        return self.exclude(offers, job)

    def adjust_costs(self, offers: Sequence[Offer], job: Job, phases: Any) -> Any:
        return self.adjust(offers, job, phases)


def make_offer(id: str = "o", usd_h: str = "0.40", gpu: str | None = "RTX 4090", **more: Any) -> Offer:
    """An offer with one GPU, told fees and a known place."""
    model = None if gpu is None else gpu_model(gpu, more.pop("memory_gb", None))
    given = {
        "provider": "acme",
        "gpu_count": 1 if gpu else 0,
        "region": "US",
        "download_usd_per_gb": Decimal(0),
        "upload_usd_per_gb": Decimal(0),
    }
    return Offer(id=id, usd_h=Decimal(usd_h), gpu=model, **{**given, **more})


def make_job(**parts: Any) -> Job:
    """A job with a generous budget."""
    given = {
        "name": "j",
        "run": RunTable(command="true"),
        "folder": Path("/"),
        "budget": Budget(max_usd=Decimal(1000)),
    }
    return Job(**{**given, **parts})


@pytest.fixture
def provider() -> type[FakeProvider]:
    return FakeProvider


@pytest.fixture
def offer() -> Callable[..., Offer]:
    return make_offer


@pytest.fixture
def job() -> Callable[..., Job]:
    return make_job


@pytest.fixture
def want() -> Callable[..., Job]:
    """A job from keys of `[gpu]` alone."""
    return lambda **gpu: make_job(gpu=GpuWants(**gpu))


@pytest.fixture
def place() -> Callable[..., Job]:
    """A job from keys of `[placement]` alone."""
    return lambda **keys: make_job(placement=Placement(**keys))


@pytest.fixture
def run_plan() -> Callable[..., Plan]:
    """`plan` with defaults for everything that a test doesn't name."""

    def planned(job: Job, *providers: Any, **more: Any) -> Plan:
        given = {"settings": Settings(), "history": NoHistory(), "upload_bytes": 0, "runtime": RealRuntime()}
        return plan(job, providers, **{**given, **more})

    return planned
