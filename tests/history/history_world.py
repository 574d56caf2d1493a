"""Shared by the history's tests: a ledger that is written rental by rental, and its summary read back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs

from gipper.history import LedgerHistory, open_history
from gipper.history_fold import fold
from gipper.history_rentals import Rentals
from gipper.history_summary import Summary
from gipper.ledger.store import SqliteLedger
from gipper.runtime import RealRuntime
from gipper.values import receipts as r
from gipper.values.estimates import PHASES

OWNER = r.Owner(host_id="h", boot_id="b", pid_ns="n", pid=1, start_ticks=1)
NOW = datetime(2026, 11, 10, 12, tzinfo=UTC)
EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
MB = 10**6


class Clock(RealRuntime):
    """Real in all but the wall clock, which a test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.at = NOW - timedelta(days=1)

    def now(self) -> datetime:
        return self.at


@attrs.frozen(kw_only=True)
class Rental:
    """What happened on one machine; None = that receipt is missing."""

    provider: str = "acme"
    pod: str = "p1"
    run: str = "run1"
    name: str | None = None
    host: str | None = "h1"
    region: str | None = "US"
    gpu: str | None = "RTX 4090"
    workload: str = "train"
    ready: float | None = 30.0
    sent: int = 0
    started: bool = True
    brought: Sequence[tuple[int, float]] = ()
    blame: str | None = None
    why: str = "the run is over"
    proved: bool = True
    usd: str | None = None
    seconds: float = 100.0
    bills: Sequence[tuple[str, Mapping[str, str]]] = ()
    told: Mapping[str, Any] | None = None
    outcome: str | None = "succeeded"
    actual: Mapping[str, Any] | None = None


def told(
    *,
    usd: float = 0.1,
    wall: float | None = None,
    guessed: Iterable[str] = (),
    adjustments: Any = (),
    **phases: float,
) -> dict[str, Any]:
    """An estimate as receipts have it; its interval is half to double."""
    seconds = {**dict.fromkeys(PHASES, 0.0), **phases}
    wall = sum(seconds.values()) if wall is None else wall
    return {
        "phases_s": seconds, "wall_s": wall, "usd": usd, "adjustments": list(adjustments),
        "basis": {name: "a guess" if name in set(guessed) else "history" for name in PHASES},
        "interval": {"wall_s": [wall / 2, wall * 2], "usd": [usd / 2, usd * 2], "thin": False},
    }  # fmt: skip


def payloads(x: Rental) -> list[r.Payload]:
    """The receipts of a rental, in the order in which gipper writes them."""
    pod = {"provider": x.provider, "pod": x.pod}
    name = x.name or f"name-{x.pod}"
    found: list[r.Payload | None] = [
        r.RunStart(job={"name": x.workload, "workload": None}, owner=OWNER, client="0", plugins={}),
        None if x.told is None else r.EstimateReceipt(provider=x.provider, offer="o", estimate=x.told, seen=1, left_out={}),
        r.PodIntent(
            provider=x.provider, offer="o", name=name, attempt=1, end=NOW, usd_h=Decimal(1), reserved_usd=Decimal(1),
            gpu=x.gpu, gpu_count=1, host_id=x.host, region=x.region,
        ),
        r.PodCreate(**pod, name=name, usd_h=Decimal(1)),
        None if x.ready is None else r.PodReady(**pod, seconds=x.ready, address="a", port=22, host_key="k"),
        r.CustodyUpload(**pod, files=(), bytes=x.sent) if x.sent else None,
        r.JobStart(**pod, folder="f", limit_s=1.0) if x.started else None,
        *(r.Sync(**pod, what="out", bytes=n, seconds=s, whole=True) for n, s in x.brought),
        r.PodTerminate(**pod, name=name, why=x.why, answer="accepted", answered=NOW, blame=x.blame),
        r.PodTerminated(**pod, name=name, described=NOW, listings=(NOW, NOW)) if x.proved else None,
        None if x.usd is None else r.Spend(**pod, usd=Decimal(x.usd), seconds=x.seconds, usd_h=Decimal(1), basis="computed"),
        None if x.outcome is None else r.RunEnd(outcome=x.outcome, reason="", **pod, actual=x.actual),
        *(
            r.SpendBilled(**pod, usd=Decimal(usd), detail={k: Decimal(v) for k, v in detail.items()}, basis="billed")
            for usd, detail in x.bills
        ),
    ]  # fmt: skip
    return [payload for payload in found if payload is not None]


class Trail:
    """A ledger, its folder and its clock."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder, Clock()
        self.ledger = SqliteLedger.open(folder, self.clock)
        self.count = 0

    def rent(self, **changes: Any) -> None:
        """One more rental, on a machine and in a run of its own unless told."""
        self.count += 1
        given = {"pod": f"p{self.count}", "run": f"run{self.count}", **changes}
        self.write(Rental(**given))

    def write(self, rental: Rental) -> None:
        """All receipts of `rental`."""
        self.add(rental.run, *payloads(rental))

    def add(self, run: str | None, *found: r.Payload) -> None:
        """Receipts as they are."""
        with self.ledger.transaction() as tx:
            for payload in found:
                tx.append(payload, run=run)

    def history(self, days: float = 90.0) -> LedgerHistory:
        """As a command sees it."""
        return open_history(self.ledger, self.folder, now=NOW, days=days)


def folded(receipts: Iterable[r.Receipt]) -> Summary:
    """A summary of `receipts` alone, made at once."""
    summary = Summary()
    for receipt in receipts:
        fold(summary, receipt)
    return summary


def rows(summary: Summary) -> list[dict[str, str]]:
    """Each rental by column, in words that can be compared: NaN is like NaN."""
    rentals: Rentals = summary.rentals
    names = ("provider", "host", "region", "gpu", "model", "workload", "reason")
    return [
        {name: repr(summary.names.text(rentals.ids[name][row])) for name in names}
        | {
            name: repr(column[row])
            for name, column in {**rentals.ids, **rentals.numbers}.items()
            if name not in names
        }
        for row in range(len(rentals))
    ]
