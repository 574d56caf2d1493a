"""Planning 30,000 offers with hooks, against sorting 30,000 tuples by a float key."""

from __future__ import annotations

import random
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import ClassVar

from gipper.cost_history import NoHistory
from gipper.markers import hookimpl
from gipper.planning import plan
from gipper.plugins.handle import Provider
from gipper.plugins.registry import Registry
from gipper.runtime import RealRuntime
from gipper.values.estimates import CostAdjustment
from gipper.values.jobs import Budget, GpuWants, Job, RunTable
from gipper.values.machines import Machine
from gipper.values.offers import GpuModel, Listing, Offer
from gipper.values.plugins import ProviderInfo
from gipper.values.settings import Settings

OFFERS = 30_000
REPEATS = 9
AT_MOST = 25.0
AT_MOST_MIB = 200.0
NAMES = ("RTX 4090", "RTX 3090", "H100 SXM", "A100 PCIe", "L40S", "L4", "RTX A6000", "RTX 5090")


class Market:
    """A provider that has its offers ready and whose hooks look at all of them."""

    listing: ClassVar[Listing[Offer]] = Listing(items=())

    def __init__(self, context: object) -> None:
        pass

    @hookimpl
    @staticmethod
    def gipper_provider() -> ProviderInfo:
        return ProviderInfo(name="acme", title="Acme")

    @hookimpl
    def gipper_list_offers(self) -> Listing[Offer]:
        return self.listing

    @hookimpl
    def gipper_rent(self) -> Machine:
        raise NotImplementedError

    @hookimpl
    def gipper_describe(self) -> Machine | None:
        raise NotImplementedError

    @hookimpl
    def gipper_list_ours(self) -> Listing[Machine]:
        raise NotImplementedError

    @hookimpl
    def gipper_terminate(self) -> None:
        raise NotImplementedError

    @hookimpl
    def gipper_exclude_offers(self, offers: Sequence[Offer]) -> Mapping[str, str]:
        return {o.id: "unreliable" for o in offers if o.reliability is not None and o.reliability < 0.01}

    @hookimpl
    def gipper_adjust_costs(self, offers: Sequence[Offer]) -> Mapping[str, Sequence[CostAdjustment]]:
        fee = (CostAdjustment(label="start fee", usd=0.01),)
        return {o.id: fee for o in offers if o.host_id is not None and o.host_id.endswith("7")}


def market(found: Sequence[Offer]) -> Provider:
    """The real handle of a market with these offers."""
    cls = type("Acme", (Market,), {"listing": Listing(items=tuple(found))})
    return Provider(Registry().add_provider(cls), None, None)  # type: ignore[arg-type]  # it asks for neither


def offers(count: int = OFFERS) -> list[Offer]:
    """A market of `count` offers, the same every time."""
    rng = random.Random(7)
    return [
        Offer(
            provider="acme",
            id=f"{i:06d}",
            usd_h=Decimal(rng.randrange(100_000, 4_000_000)) / 1_000_000,
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


def planner() -> Callable[[], None]:
    """What plans once over all offers."""
    acme, runtime = market(offers()), RealRuntime()
    job = Job(
        name="bench",
        run=RunTable(command="true"),
        folder=Path("/"),
        gpu=GpuWants(min_mem_gb=24, prefer=("H100", "RTX 4090")),
        budget=Budget(max_usd=Decimal(50)),
    )

    def planned() -> None:
        found = plan(
            job, [acme], settings=Settings(), history=NoHistory(), upload_bytes=10**9, runtime=runtime
        )
        assert len(found.ranked) > OFFERS // 2
        assert found.ranked[0].estimate.usd > 0

    return planned


def main() -> list[tuple[str, float, float]]:
    """(name, measured, largest allowed): a ratio, and MiB."""
    planned, rng = planner(), random.Random(1)
    rows = [(rng.random(), i) for i in range(OFFERS)]
    ratios = []
    for _ in range(REPEATS):
        sort_s = _seconds(lambda: sorted(rows, key=lambda row: row[0]))
        ratios.append(_seconds(planned) / sort_s)
    return [
        ("planning 30,000 offers / sorting 30,000 tuples", statistics.median(ratios), AT_MOST),
        ("MiB at most while planning 30,000 offers", _peak_mib(), AT_MOST_MIB),
    ]


def _peak_mib() -> float:
    """The peak of a process of its own that makes the offers and plans once."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), "once"], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def _own_peak_mib() -> float:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    assert found is not None
    return int(found[1]) / 1024


def _seconds(work: Callable[[], object]) -> float:
    # CPU time of all threads: neither side waits for anything, and a busy machine must not decide.
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    if sys.argv[1:] == ["once"]:
        planner()()
        print(_own_peak_mib())
    else:
        for name, measured, allowed in main():
            print(f"{name}: {measured:.1f} (at most {allowed:g})")
