"""Both markets' meters over a month of runs, and the receipts that a client would have written of each.

Machines come and go on the emulators as events in simulated time; their charges are read through the real
drivers and core's own handle.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
from emulators import faults
from emulators.housing import NoHousing
from emulators.meter import DAY, Line, windows
from emulators.runpod.app import make_runpod
from emulators.runpod.market import Pod
from emulators.vast.app import make_vast
from emulators.vast.contracts import Contract
from emulators.vast.offers import row
from gipper_runpod import RunpodProvider
from gipper_vast import VastProvider
from support_bench import Bench, make_bench

from gipper.billing.markets import Reconciled, reconcile
from gipper.money import cost
from gipper.runtime import Runtime
from gipper.testing import SimRuntime
from gipper.values import receipts as r

OWNER = r.Owner(host_id="h", boot_id="b", pid_ns="n", pid=1, start_ticks=1)
START = datetime(2026, 11, 10, 12, 0, tzinfo=UTC)
MILLI, MICRO = Decimal("0.001"), Decimal("0.000001")
VAST, RUNPOD = "vast", "runpod"


class MemoryLedger:
    """A `LedgerStore` that keeps receipts as the real one gives them back, without a file."""

    damaged, skipped = None, 0

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.receipts: list[r.Receipt] = []

    def append(
        self, payload: r.Payload, *, run: str | None, refs: Mapping[str, str] | None = None
    ) -> r.Receipt:
        seq = len(self.receipts) + 1
        made = r.Receipt(
            id=f"id{seq}", seq=seq, ts=self.runtime.now(), kind=payload.kind, run=run, refs=dict(refs or {}),
            payload=r.from_json(payload.kind, r.to_json(payload)), prev="",
        )  # fmt: skip
        self.receipts.append(made)
        return made

    append_or_spill = append

    @contextmanager
    def transaction(self) -> Iterator[MemoryLedger]:
        yield self

    def read(
        self, *, since: datetime | None = None, until: datetime | None = None,
        kinds: Collection[str] | None = None, run: str | None = None, after_seq: int = 0,
    ) -> Iterator[r.Receipt]:  # fmt: skip
        for x in list(self.receipts):
            if (
                x.seq > after_seq and (kinds is None or x.kind in kinds) and (run is None or x.run == run)
                and (since is None or x.ts >= since) and (until is None or x.ts < until)
            ):  # fmt: skip
                yield x

    def close(self) -> None:
        pass


@attrs.frozen(kw_only=True)
class Plan:
    """One rental: seconds from the start of the world, dollars an hour as the offer says."""

    provider: str
    number: int
    begin_s: float
    length_s: float
    ready_s: float | None
    usd_h: Decimal
    disk_gb: int = 40
    moved_gb: tuple[float, float] = (0.0, 0.0)
    dying_s: float = 20.0

    @property
    def pod(self) -> str:
        return str(7000000 + self.number) if self.provider == VAST else f"pod{self.number:011d}"

    @property
    def run(self) -> str:
        return f"{self.number:010d}"

    @property
    def name(self) -> str:
        return f"gipper-aaaaa-{self.run}-1-000000"


def plans(seed: int, count: int, days: int = 30) -> list[Plan]:
    """`count` rentals over `days`: mostly minutes to hours, some of days, some that never let anyone in."""
    rng = random.Random(seed)
    return [_plan(rng, number, days) for number in range(count)]


def _plan(rng: random.Random, number: int, days: int) -> Plan:
    provider = rng.choice((VAST, RUNPOD))
    dead = rng.random() < 0.08
    length = rng.uniform(200, 900) if dead else rng.choice((
        rng.uniform(60, 1800), rng.uniform(1800, 6 * 3600), rng.uniform(3600, 3 * 86400),
    ))  # fmt: skip
    ready = None if dead else min(length * 0.8, rng.uniform(20, 240))
    gpu = Decimal(rng.randrange(100, 2500)) / 1000
    return Plan(
        provider=provider, number=number, begin_s=rng.uniform(0, days * 86400 - length - 3600), length_s=length,
        ready_s=ready, usd_h=gpu, disk_gb=rng.choice((20, 40, 200)),
        moved_gb=(rng.uniform(0, 60), rng.uniform(0, 8)) if provider == VAST and not dead else (0.0, 0.0),
        dying_s=rng.uniform(5, 90),
    )  # fmt: skip


class World:
    """Two accounts, one ledger, one clock."""

    def __init__(self, folder: Path, ledger: Any = None) -> None:
        self.sim = SimRuntime(START)
        self.vast = self._bench(
            folder / "v", VastProvider, "https://console.vast.ai", make_vast, [row(5000101)]
        )
        self.runpod = self._bench(folder / "r", RunpodProvider, "https://api.runpod.io", make_runpod, [])
        self.ledger = MemoryLedger(self.sim) if ledger is None else ledger(self.sim)
        self.providers = [self.vast.provider, self.runpod.provider]
        self._created: dict[str, datetime] = {}

    def _bench(
        self, folder: Path, cls: type, url: str, make: Callable[..., Any], listings: list[Any]
    ) -> Bench:
        folder.mkdir(parents=True)
        market, app = make(self.sim, NoHousing(), listings, credit=Decimal(10**6))
        return make_bench(folder, cls, url, self.sim, market, app)

    def bench(self, provider: str) -> Bench:
        return self.vast if provider == VAST else self.runpod

    def live(self, planned: list[Plan], reconciles: Collection[tuple[float, int]] = ()) -> None:
        """All rentals from begin to end, with a reconcile of so many days at each of the moments given."""
        events: list[tuple[float, int, Callable[[], object]]] = []
        for plan in planned:
            end = plan.begin_s + plan.length_s
            events.append((plan.begin_s, 0, lambda p=plan: self.begin(p)))
            events.append((end, 1, lambda p=plan: self.end(p)))
            if plan.ready_s is not None:
                events.append((plan.begin_s + plan.ready_s, 2, lambda p=plan: self.ready(p)))
        events += [(at, 3, lambda d=days: self.reconcile(d)) for at, days in reconciles]
        for at, _, act in sorted(events, key=lambda e: e[:2]):
            self.until(at)
            act()

    def until(self, seconds: float) -> None:
        """Let time pass up to `seconds` after the start."""
        self.sim.sleep(max(0.0, seconds - (self.sim.now() - START).total_seconds()))

    def reconcile(self, days: int = 7) -> Reconciled:
        return reconcile(self.providers, self.ledger, self.sim, days=days)

    def down(self, provider: str) -> None:
        """The market's API answers nothing but 503 from now on."""
        for endpoint in ("charges", "billing"):
            self.bench(provider).app.faults.always(endpoint, faults.status(503, "gone fishing"))

    def up(self, provider: str) -> None:
        self.bench(provider).app.faults.mend()

    def offered(self, plan: Plan) -> Decimal:
        """The rate of the offer: all that is charged in an hour, the disk of that size too."""
        disk = (
            Decimal("0.15") * plan.disk_gb / 720
            if plan.provider == VAST
            else Decimal("0.10") * plan.disk_gb / 730
        )
        return (plan.usd_h + disk).quantize(MICRO)

    def begin(self, plan: Plan) -> None:
        rate = self.offered(plan)
        refs = {"name": f"job{plan.number % 7}"}
        job = {"name": refs["name"], "workload": f"w{plan.number % 3}"}
        self._write(plan, r.RunStart(job=job, owner=OWNER, client="0", plugins={}), refs)
        self._write(
            plan,
            r.EstimateReceipt(
                provider=plan.provider, offer="o", estimate=_estimate(plan), seen=1, left_out={}
            ),
            refs,
        )
        self._write(plan, r.PodIntent(
            provider=plan.provider, offer="o", name=plan.name, attempt=1, end=self.sim.now() + timedelta(days=4),
            usd_h=rate, reserved_usd=rate, gpu="RTX 4090", gpu_count=1,
        ), refs)  # fmt: skip
        self._build(plan)
        self._created[plan.run] = self.sim.now()
        self._write(plan, r.PodCreate(provider=plan.provider, pod=plan.pod, name=plan.name, usd_h=rate), refs)

    def _build(self, plan: Plan) -> None:
        now = self.sim.now()
        if plan.provider == VAST:
            listing = row(5000101, dph_base=float(plan.usd_h), machine_id=plan.number)
            body = {"label": plan.name, "disk": plan.disk_gb}
            self.vast.market.contracts[int(plan.pod)] = Contract(
                id=int(plan.pod), listing=listing, body=body, created=now, key="k", moved_gb=plan.moved_gb
            )
        else:
            body = {"name": plan.name, "disk": plan.disk_gb, "gpu": {"count": 1}}
            self.runpod.market.pods[plan.pod] = Pod(
                id=plan.pod, body=body, created=now, usd_h=plan.usd_h, center=None, host="h", key="k"
            )

    def _rented(self, plan: Plan) -> Contract | Pod:
        if plan.provider == VAST:
            return self.vast.market.contracts[int(plan.pod)]
        return self.runpod.market.pods[plan.pod]

    def ready(self, plan: Plan) -> None:
        self._rented(plan).running = self.sim.now() - timedelta(seconds=5)
        assert plan.ready_s is not None
        self._write(
            plan,
            r.PodReady(
                provider=plan.provider,
                pod=plan.pod,
                seconds=plan.ready_s,
                address="192.0.2.1",
                port=22,
                host_key="k",
            ),
        )

    def end(self, plan: Plan) -> None:
        """Asked, gone on the market a while later, proved after that; the rest of the receipts."""
        asked = self.sim.now()
        self._write(
            plan,
            r.PodTerminate(
                provider=plan.provider,
                pod=plan.pod,
                name=plan.name,
                why="over",
                answer="accepted",
                answered=asked,
            ),
        )
        self._rented(plan).ended = asked + timedelta(seconds=plan.dying_s)
        proved = asked + timedelta(seconds=plan.dying_s + 15)
        self._write(
            plan,
            r.PodTerminated(
                provider=plan.provider,
                pod=plan.pod,
                name=plan.name,
                described=proved,
                listings=(proved, proved),
            ),
        )
        seconds = (asked - self._created[plan.run]).total_seconds()
        rate = self.offered(plan)
        self._write(plan, r.Spend(
            provider=plan.provider, pod=plan.pod, usd=cost(rate, seconds), seconds=seconds, usd_h=rate,
            basis="computed", gpu="RTX 4090",
        ))  # fmt: skip
        outcome = "succeeded" if plan.ready_s is not None else "host_lost"
        self._write(plan, r.RunEnd(outcome=outcome, reason="", provider=plan.provider, pod=plan.pod))

    def _write(self, plan: Plan, payload: r.Payload, refs: Mapping[str, str] | None = None) -> None:
        self.ledger.append(payload, run=plan.run, refs=refs or {"name": f"job{plan.number % 7}"})

    def recorded(self, provider: str) -> dict[str, Decimal]:
        """The fullest recorded bill of each machine."""
        found: dict[str, Decimal] = {}
        for x in self.ledger.read(kinds={r.SpendBilled.kind}):
            if x["provider"] == provider:
                found[x["pod"]] = max(found.get(x["pod"], Decimal(0)), x["usd"])
        return found

    def charged(self, provider: str) -> dict[str, Decimal]:
        """What the meter charges for each machine: every day's or hour's line, rounded as that market rounds."""
        now = self.sim.now()
        if provider == VAST:
            return {
                str(c.id): _charged(c.lines(), DAY, MILLI, now) + _traffic(c)
                for c in self.vast.market.contracts.values()
            }
        return {
            p.id: _charged(p.lines(), timedelta(hours=1), MICRO, now)
            for p in self.runpod.market.pods.values()
        }

    def metered(self, provider: str) -> Decimal:
        """What all machines of the market really cost, unrounded."""
        market = self.bench(provider).market
        rented = market.contracts if provider == VAST else market.pods
        return sum((market.metered(x) for x in rented.values()), Decimal(0))


def _charged(lines: list[Line], step: timedelta, unit: Decimal, now: datetime) -> Decimal:
    first = min(line.since for line in lines)
    spans = list(windows(first, max(line.until or now for line in lines) + step, step))
    return sum((line.within(*span, now).quantize(unit) for line in lines for span in spans), Decimal(0))


def _traffic(contract: Contract) -> Decimal:
    if contract.running is None:
        return Decimal(0)
    return sum((usd.quantize(MILLI) for usd in contract.traffic_usd().values()), Decimal(0))


def _estimate(plan: Plan) -> dict[str, Any]:
    """As much of the public format as bills are judged by."""
    fee = 0.004 if plan.provider == VAST else 0.0
    phases = dict.fromkeys(("ready", "setup", "upload", "fetch", "compute", "download"), 60.0)
    return {
        "host_download_usd_per_gb": fee, "host_upload_usd_per_gb": fee, "upload_gb": 0.5, "download_gb": 0.2,
        "setup_download_gb": 2.0, "adjustments": [], "basis": {}, "phases_s": phases, "wall_s": 360.0, "usd": 0.1,
        "interval": {"wall_s": [100.0, 900.0], "usd": [0.05, 0.4], "thin": True},
    }  # fmt: skip
