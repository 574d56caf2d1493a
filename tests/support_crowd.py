"""Many jobs on a crowd of hosts with hidden truths: three ways to choose, the same luck for all.

Nothing is rented over a network: a rental is drawn from the truths, told to gipper's own history as the
receipts of a run, and its dollars and waiting are counted.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import attrs

from gipper.history import LedgerHistory
from gipper.history_fold import fold
from gipper.history_summary import Summary
from gipper.planning import plan
from gipper.planning_values import RankedOffer
from gipper.runtime import RealRuntime
from gipper.testing import CrowdMarket, Load, Rental
from gipper.testing.crowd import GPUS, compute_s
from gipper.values import receipts as r
from gipper.values.estimates import Estimate
from gipper.values.jobs import Budget, Job, Placement, RunTable
from gipper.values.offers import Listing, Offer, OfferQuery
from gipper.values.plugins import ProviderInfo
from gipper.values.settings import Settings

START = datetime(2026, 1, 1, tzinfo=UTC)
SETTINGS = Settings()
# Seconds to notice that a host is broken and to end it.
NOTICE_S = 60.0
OWNER = r.Owner(host_id="h", boot_id="b", pid_ns="n", pid=1, start_ticks=1)


class Handle:
    """A crowd as planning sees a provider; only `free` offers are listed."""

    name = "acme"
    info = ProviderInfo(name="acme", title="Acme", ready_s=120)

    def __init__(self) -> None:
        self.free: Sequence[Offer] = ()

    def has_key(self) -> bool:
        return True

    def list_offers(self, _query: OfferQuery) -> Listing[Offer]:
        return Listing(items=tuple(self.free))

    def exclude_offers(self, _offers: Sequence[Offer], _job: Job) -> Mapping[str, Any]:
        return {}

    def adjust_costs(self, _offers: Sequence[Offer], _job: Job, _phases: Any) -> Mapping[str, Any]:
        return {}


class Learner:
    """gipper's history of the rentals that it was told of."""

    def __init__(self) -> None:
        self.now = START
        self._summary = Summary()
        self._seq = itertools.count(1)

    def history(self) -> LedgerHistory:
        """What was learned so far."""
        return LedgerHistory(self._summary, since=START)

    def learn(self, run: str, offer: Offer, told: Estimate, load: Load, rental: Rental, usd: float) -> None:
        """The receipts of one rental."""
        where = {"provider": offer.provider, "pod": run}
        gpu = offer.gpu.name if offer.gpu else None
        self._write(run, r.RunStart(job={"name": "crowd"}, owner=OWNER, client="t", plugins={}))
        self._write(run, r.EstimateReceipt(
            provider=offer.provider, offer=offer.id, estimate=told.wire(), seen=1, left_out={},
        ))  # fmt: skip
        self._write(run, r.PodIntent(
            provider=offer.provider, offer=offer.id, name=run, attempt=1, end=self.now, usd_h=offer.usd_h,
            reserved_usd=Decimal(0), gpu=gpu, gpu_count=1, host_id=offer.host_id, region=offer.region,
        ))  # fmt: skip
        self._write(run, r.PodCreate(**where, name=run, usd_h=offer.usd_h, host_id=offer.host_id))
        if not rental.broken:
            self._used(run, where, load, rental)
        self._write(run, r.PodTerminate(
            **where, name=run, why="t", answer="ok", answered=None, blame="host" if rental.broken else None,
        ))  # fmt: skip
        self._write(run, r.Spend(
            **where, usd=Decimal(f"{usd:.6f}"), seconds=rental.wall_s, usd_h=offer.usd_h, basis="computed",
            gpu=gpu,
        ))  # fmt: skip
        if not rental.broken:
            self._write(run, r.RunEnd(
                outcome="succeeded", reason="", **where, predicted=None,
                actual={
                    "ready": rental.ready, "setup": rental.setup, "upload": rental.upload,
                    "fetch": rental.fetch, "compute": rental.compute, "download": rental.download,
                    "wall_s": rental.wall_s, "usd": usd,
                },
            ))  # fmt: skip

    def _used(self, run: str, where: Mapping[str, Any], load: Load, rental: Rental) -> None:
        up, home = int(load.upload_gb * 1e9), int(load.download_gb * 1e9)
        self._write(run, r.PodReady(**where, seconds=rental.ready, address="a", port=22, host_key="k"))
        self._write(run, r.CustodyUpload(**where, files=(), bytes=up))
        self._write(run, r.JobStart(**where, folder="f", limit_s=1e6))
        self._write(run, r.Sync(**where, what="outputs", bytes=home, seconds=rental.download, whole=True))

    def _write(self, run: str, payload: r.Payload) -> None:
        self.now += timedelta(seconds=1)
        body = r.from_json(payload.kind, r.to_json(payload))
        fold(self._summary, r.Receipt(
            id="x", seq=next(self._seq), ts=self.now, kind=payload.kind, run=run, refs={}, payload=body, prev="",
        ))  # fmt: skip


@attrs.frozen(kw_only=True)
class Graded:
    """A run that succeeded: what was forecast, and what came of it."""

    estimate: Estimate
    wall_s: float
    usd: float


class World:
    """One crowd, gipper's memory of it, and jobs that come one after the other.

    `knows` = the user tells how long a job computes on each model; else gipper learns it.
    """

    def __init__(self, seed: int, *, hosts: int = 40, knows: bool = True) -> None:
        self.market = CrowdMarket(RealRuntime(), seed=seed, hosts=hosts)
        self.learner = Learner()
        self.graded: list[Graded] = []
        self._seed, self._knows, self._handle = seed, knows, Handle()

    def load(self, number: int) -> Load:
        """What job `number` needs."""
        rng = Random(f"load {self._seed} {number}")
        return Load(
            compute_s=1800 * rng.lognormvariate(0, 0.8) if self._knows else 1800.0,
            upload_gb=2 * rng.lognormvariate(0, 0.8),
            fetch_gb=4 * rng.lognormvariate(0, 0.8),
            download_gb=1 * rng.lognormvariate(0, 0.8),
        )

    def gipper(self, number: int) -> float:
        """Dollars and waiting of job `number` where gipper chooses, and learns from it."""
        load, key = self.load(number), f"job {number}"
        self._handle.free = self.market.free(key)
        found = plan(
            self._job(load), [self._handle], settings=SETTINGS, history=self.learner.history(),
            upload_bytes=None, runtime=self.market.runtime,
        )  # fmt: skip
        by_id = {one.offer.id: one for one in found.ranked}

        def learn(offer: Offer, rental: Rental, usd: float) -> None:
            self._learn(f"{number} {offer.id}", by_id[offer.id], load, rental, usd)

        return self._until_done([one.offer for one in found.ranked], load, key, learn)

    def cheapest(self, number: int) -> float:
        """The same where the lowest price an hour is taken."""
        load, key = self.load(number), f"job {number}"
        return self._until_done(sorted(self.market.free(key), key=lambda o: o.usd_h), load, key)

    def oracle(self, number: int) -> float:
        """The same where the truths are known, and the best order in which to try hosts follows from them."""
        load, key = self.load(number), f"job {number}"
        return self._until_done(
            sorted(self.market.free(key), key=lambda offer: self._true_cost(offer, load)), load, key
        )

    def _true_cost(self, offer: Offer, load: Load) -> float:
        assert offer.host_id is not None
        mean, p = self.market.mean(offer.host_id, load), self.market.truths[offer.host_id].p_fail
        lost = _worth(offer, mean.ready + NOTICE_S)
        return _worth(offer, mean.wall_s) + _fees(offer, load) + p / (1 - p) * lost

    def _until_done(
        self, offers: Sequence[Offer], load: Load, key: str,
        learn: Callable[[Offer, Rental, float], None] = lambda _offer, _rental, _usd: None,
    ) -> float:  # fmt: skip
        total = 0.0
        for offer in offers:
            assert offer.host_id is not None
            rental = self.market.draw(offer.host_id, load, key)
            seconds = rental.wall_s + (NOTICE_S if rental.broken else 0.0)
            usd = float(offer.usd_h) * seconds / 3600 + (0.0 if rental.broken else _fees(offer, load))
            total += usd + SETTINGS.hour_value_usd * seconds / 3600
            learn(offer, rental, usd)
            if not rental.broken:
                break
        return total

    def _learn(self, run: str, one: RankedOffer, load: Load, rental: Rental, usd: float) -> None:
        told = one.estimate
        self.learner.learn(run, one.offer, told, load, rental, usd)
        if not rental.broken:
            self.graded.append(Graded(estimate=told, wall_s=rental.wall_s, usd=usd))

    def _job(self, load: Load) -> Job:
        known = {model: compute_s(model, load) for model in GPUS} if self._knows else {}
        return Job(
            name="crowd", run=RunTable(command="x"), folder=Path("/"), budget=Budget(max_usd=Decimal(10**6)),
            placement=Placement(
                setup_s=load.setup_s, compute_s_by_gpu=known, upload_gb=load.upload_gb,
                setup_download_gb=load.fetch_gb, download_gb=load.download_gb,
            ),
        )  # fmt: skip


def _worth(offer: Offer, seconds: float) -> float:
    """Dollars and waiting of so many seconds on an offer."""
    return (float(offer.usd_h) + SETTINGS.hour_value_usd) * seconds / 3600


def _fees(offer: Offer, load: Load) -> float:
    down, up = offer.download_usd_per_gb, offer.upload_usd_per_gb
    assert down is not None and up is not None
    return (load.upload_gb + load.fetch_gb) * float(down) + load.download_gb * float(up)


def covered(graded: Sequence[Graded]) -> tuple[float, float]:
    """Shares of runs whose wall time, and whose dollars, fell inside their interval."""
    time = sum(g.estimate.interval.wall_s[0] <= g.wall_s <= g.estimate.interval.wall_s[1] for g in graded)
    usd = sum(g.estimate.interval.usd[0] <= g.usd <= g.estimate.interval.usd[1] for g in graded)
    return time / len(graded), usd / len(graded)
