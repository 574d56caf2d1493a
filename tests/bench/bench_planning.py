"""Planning 30,000 offers with hooks, against sorting 30,000 tuples by a float key."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path

from gipper.cost_history import NoHistory
from gipper.planning import plan
from gipper.runtime import RealRuntime
from gipper.values.estimates import CostAdjustment, Phases
from gipper.values.jobs import Budget, GpuWants, Job, RunTable
from gipper.values.offers import GpuModel, Listing, Offer, OfferQuery
from gipper.values.plugins import ProviderInfo
from gipper.values.settings import Settings

OFFERS = 30_000
REPEATS = 7
AT_MOST = 25.0
NAMES = ("RTX 4090", "RTX 3090", "H100 SXM", "A100 PCIe", "L40S", "L4", "RTX A6000", "RTX 5090")


class Market:
    """A market that has its offers ready and whose hooks look at all of them."""

    def __init__(self, offers: Sequence[Offer]) -> None:
        self.name = "acme"
        self.info = ProviderInfo(name="acme", title="Acme")
        self._listing = Listing(items=tuple(offers))

    def has_key(self) -> bool:
        return True

    def list_offers(self, query: OfferQuery) -> Listing[Offer]:
        return self._listing

    def exclude_offers(self, offers: Sequence[Offer], job: Job) -> Mapping[str, str]:
        return {o.id: "too new" for o in offers if o.reliability is not None and o.reliability < 0.01}

    def adjust_costs(
        self, offers: Sequence[Offer], job: Job, phases: Mapping[str, Phases]
    ) -> Mapping[str, Sequence[CostAdjustment]]:
        fee = (CostAdjustment(label="start fee", usd=0.01),)
        return {o.id: fee for o in offers if o.kind == "vm"}


def offers(count: int = OFFERS) -> list[Offer]:
    """A market of `count` offers, the same every time."""
    rng = random.Random(7)
    return [
        Offer(
            provider="acme",
            id=f"{i:06d}",
            usd_h=Decimal(rng.randrange(100, 4000)) / 1000,
            gpu=GpuModel(name=rng.choice(NAMES), memory_gb=rng.choice((24, 48, 80))),
            gpu_count=1,
            region=rng.choice(("US", "CA", "SE", None)),
            host_id=f"h{i // 2}",
            disk_gb=rng.choice((50.0, 500.0)),
            down_mbps=rng.uniform(50, 5000),
            up_mbps=rng.uniform(50, 5000),
            download_usd_per_gb=Decimal("0.01"),
            upload_usd_per_gb=Decimal("0.01"),
            reliability=rng.random(),
        )
        for i in range(count)
    ]


def main() -> list[tuple[str, float, float]]:
    """(name, measured ratio, largest allowed ratio)."""
    market, runtime = Market(offers()), RealRuntime()
    job = Job(
        name="bench",
        run=RunTable(command="true"),
        folder=Path("/"),
        gpu=GpuWants(min_mem_gb=24, prefer=("H100", "RTX 4090")),
        budget=Budget(max_usd=Decimal(50)),
    )

    def planned() -> None:
        found = plan(
            job, [market], settings=Settings(), history=NoHistory(), upload_bytes=10**9, runtime=runtime
        )
        assert len(found.ranked) > OFFERS // 2
        assert found.ranked[0].estimate.usd > 0

    rng = random.Random(1)
    rows = [(rng.random(), i) for i in range(OFFERS)]
    ratios = []
    for _ in range(REPEATS):
        sort_s = _seconds(lambda: sorted(rows, key=lambda row: row[0]))
        ratios.append(_seconds(planned) / sort_s)
    return [("planning 30,000 offers / sorting 30,000 tuples", statistics.median(ratios), AT_MOST)]


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    for name, ratio, allowed in main():
        print(f"{name}: {ratio:.1f} x (at most {allowed:g} x)")
