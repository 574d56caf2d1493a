"""The ledger folded: which runs and machines there are, and what is still open. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import attrs

from gipper.money import ZERO, cost
from gipper.values.receipts import (
    Adopt,
    JobEnd,
    JobStart,
    PodCreate,
    PodCreateDoubtful,
    PodCreateFailed,
    PodIntent,
    PodReappeared,
    PodRecheck,
    PodReserve,
    PodTerminate,
    PodTerminated,
    Receipt,
    RunEnd,
    RunStart,
    Spend,
    SpendBilled,
    Sync,
    parse_stamp,
)

KINDS: Final = frozenset(
    c.kind
    for c in (
        Adopt, JobEnd, JobStart, PodCreate, PodCreateDoubtful, PodCreateFailed, PodIntent, PodReserve,
        PodReappeared, PodRecheck, PodTerminate, PodTerminated, RunEnd, RunStart, Spend, SpendBilled, Sync,
    )
)  # fmt: skip


@attrs.define(kw_only=True)
class PodRecord:
    """One intent and the machines that came of it (normally one; more are twins).

    `proved_at`: when the last listing of each machine's proof began. `rechecked`: machines that were
    looked for once more after their proof.
    """

    run: str
    job: str
    name: str
    provider: str
    attempt: int
    end: datetime
    usd_h: Decimal
    reserved: Decimal
    intended: datetime
    appear_s: float | None = None
    gpu: str | None = None
    created: datetime | None = None
    failed: bool = False
    doubtful: bool = False
    pods: list[str] = attrs.field(factory=list)
    terminated: set[str] = attrs.field(factory=set)
    gone_at: datetime | None = None
    proved_at: dict[str, datetime] = attrs.field(factory=dict)
    rechecked: set[str] = attrs.field(factory=set)
    asked: set[str] = attrs.field(factory=set)
    spends: dict[str, tuple[datetime, Decimal]] = attrs.field(factory=dict)
    billed: dict[str, Decimal] = attrs.field(factory=dict)

    @property
    def since(self) -> datetime:
        """From when it costs: its creation, else the intent."""
        return self.created or self.intended

    @property
    def unproved(self) -> tuple[str, ...]:
        """Known machines that are not proved gone."""
        return tuple(p for p in self.pods if p not in self.terminated)

    @property
    def ending(self) -> bool:
        """True where somebody began to end a machine and nobody proved that it is gone."""
        return any(p in self.asked for p in self.unproved)

    @property
    def open(self) -> bool:
        """True while a machine of this intent may exist."""
        return not self.failed and (not self.pods or bool(self.unproved))

    @property
    def unspent(self) -> tuple[str, ...]:
        """Known machines without a `spend`."""
        return tuple(p for p in self.pods if p not in self.spends)

    def counted(self, now: datetime) -> Decimal:
        """What an open intent counts against a cap: the larger of accrued and reserved."""
        return max(self.reserved, cost(self.usd_h, (now - self.since).total_seconds()))


@attrs.define(kw_only=True)
class RunRecord:
    """One run: its job as recorded, its owner, how far it came."""

    run: str
    name: str
    started: datetime
    job: Mapping[str, Any]
    owner: Mapping[str, Any]
    outcome: str | None = None
    ended: datetime | None = None
    job_started: bool = False
    job_ended: bool = False
    folder: str | None = None
    limit_s: float | None = None
    exit_code: int | None = None
    whole: bool = True


@attrs.define
class Book:
    """All runs by id and all intents by machine name."""

    runs: dict[str, RunRecord] = attrs.field(factory=dict)
    pods: dict[str, PodRecord] = attrs.field(factory=dict)
    by_pod: dict[tuple[str, str], PodRecord] = attrs.field(factory=dict)

    @classmethod
    def of(cls, receipts: Iterable[Receipt]) -> Book:
        """The book that `receipts` (in order) amount to; kinds that don't matter here are passed over."""
        book = cls()
        for receipt in receipts:
            handler = _HANDLERS.get(receipt.kind)
            if handler is not None:
                handler(book, receipt)
        return book

    def open_pods(self) -> list[PodRecord]:
        """Intents of which a machine may exist."""
        return [p for p in self.pods.values() if p.open]

    def of_run(self, run: str) -> list[PodRecord]:
        """All intents of one run, in order."""
        return [p for p in self.pods.values() if p.run == run]

    def committed(self, day: datetime, now: datetime) -> Decimal:
        """Dollars that count against the cap of the UTC day that begins at `day`.

        Machines ended that day (billed where known, else computed), and all that are open.
        """
        total = ZERO
        for record in self.pods.values():
            if not record.failed and not record.spends:
                total += record.counted(now)
            for pod, (when, amount) in record.spends.items():
                if when.date() == day.date():
                    total += record.billed.get(pod, amount)
        return total

    def _machine(self, receipt: Receipt) -> PodRecord | None:
        return self.by_pod.get((receipt["provider"], receipt["pod"]))


def _run_start(book: Book, r: Receipt) -> None:
    if r.run is not None:
        book.runs[r.run] = RunRecord(
            run=r.run,
            name=r.refs.get("name", ""),
            started=r.ts,
            job=r.payload["job"],
            owner=r.payload["owner"],
        )


def _run_end(book: Book, r: Receipt) -> None:
    if r.run in book.runs:
        book.runs[r.run].outcome, book.runs[r.run].ended = r["outcome"], r.ts


def _job_start(book: Book, r: Receipt) -> None:
    if r.run in book.runs:
        record = book.runs[r.run]
        record.job_started, record.folder, record.limit_s = True, r["folder"], r["limit_s"]


def _job_end(book: Book, r: Receipt) -> None:
    if r.run in book.runs:
        book.runs[r.run].job_ended, book.runs[r.run].exit_code = True, r["exit_code"]


def _sync(book: Book, r: Receipt) -> None:
    if r.run in book.runs and not r["what"].startswith("checkpoint "):
        book.runs[r.run].whole &= r["whole"]


def _intent(book: Book, r: Receipt) -> None:
    book.pods[r["name"]] = PodRecord(
        run=r.run or "", job=r.refs.get("name", ""), name=r["name"], provider=r["provider"],
        attempt=r["attempt"], end=parse_stamp(r["end"]), usd_h=r["usd_h"], reserved=r["reserved_usd"],
        intended=r.ts, appear_s=r["appear_s"], gpu=r["gpu"],
    )  # fmt: skip


def _reserve(book: Book, r: Receipt) -> None:
    if r["name"] in book.pods:
        record = book.pods[r["name"]]
        record.reserved = max(record.reserved, r["reserved_usd"])


def _adopt(book: Book, r: Receipt) -> None:
    if r.run in book.runs:
        book.runs[r.run].owner = r.payload["owner"]


def _create(book: Book, r: Receipt) -> None:
    record = book.pods.get(r["name"])
    if record is not None and r["pod"] not in record.pods:
        record.pods.append(r["pod"])
        record.created = record.created or (record.intended if r["adopted"] else r.ts)
        record.usd_h = max(record.usd_h, r["usd_h"])
        book.by_pod[r["provider"], r["pod"]] = record


def _create_failed(book: Book, r: Receipt) -> None:
    if r["name"] in book.pods:
        book.pods[r["name"]].failed = True


def _doubtful(book: Book, r: Receipt) -> None:
    if r["name"] in book.pods:
        book.pods[r["name"]].doubtful = True


def _terminated(book: Book, r: Receipt) -> None:
    record = book._machine(r)
    if record is not None:
        record.terminated.add(r["pod"])
        record.gone_at = parse_stamp(r["described"])
        record.proved_at[r["pod"]] = max(map(parse_stamp, r["listings"]), default=record.gone_at)
        record.rechecked.discard(r["pod"])


def _reappeared(book: Book, r: Receipt) -> None:
    record = book._machine(r)
    if record is not None:
        record.asked.add(r["pod"])
        record.terminated.discard(r["pod"])


def _recheck(book: Book, r: Receipt) -> None:
    record = book._machine(r)
    if record is not None:
        record.rechecked.add(r["pod"])


def _terminate(book: Book, r: Receipt) -> None:
    record = book._machine(r)
    if record is not None:
        record.asked.add(r["pod"])
        record.terminated.discard(r["pod"])


def _spend(book: Book, r: Receipt) -> None:
    record = book._machine(r)
    if record is not None:
        record.spends[r["pod"]] = (r.ts, r["usd"])


def _billed(book: Book, r: Receipt) -> None:
    record = book._machine(r)
    if record is not None:
        # Each bill of a machine is fuller than the one before, never a further amount.
        record.billed[r["pod"]] = max(record.billed.get(r["pod"], ZERO), r["usd"])


_HANDLERS: Final[Mapping[str, Callable[[Book, Receipt], None]]] = {
    RunStart.kind: _run_start,
    RunEnd.kind: _run_end,
    JobStart.kind: _job_start,
    JobEnd.kind: _job_end,
    Sync.kind: _sync,
    PodIntent.kind: _intent,
    PodReserve.kind: _reserve,
    Adopt.kind: _adopt,
    PodCreate.kind: _create,
    PodCreateFailed.kind: _create_failed,
    PodCreateDoubtful.kind: _doubtful,
    PodTerminated.kind: _terminated,
    PodTerminate.kind: _terminate,
    PodReappeared.kind: _reappeared,
    PodRecheck.kind: _recheck,
    Spend.kind: _spend,
    SpendBilled.kind: _billed,
}
