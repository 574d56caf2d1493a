"""`gipper pod cost`: what runs cost, computed from their own receipts and as billed where that is known."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import attrs
import click

from gipper.cli.options import Moment, json_option, opened_ledger
from gipper.errors import ConfigError
from gipper.ledger.protocol import LedgerReader
from gipper.money import ZERO, wire
from gipper.runtime import RealRuntime
from gipper.values.receipts import Receipt, RunEnd, RunStart, Spend, SpendBilled

KINDS: Final = frozenset({RunStart.kind, RunEnd.kind, Spend.kind, SpendBilled.kind})
_DEFAULT_DAYS: Final = 30


@attrs.define(kw_only=True)
class Charge:
    """One machine's cost. `run` is None where no run is known; None dollars are not known."""

    provider: str
    pod: str
    run: str | None = None
    name: str = ""
    at: datetime
    gpu: str | None = None
    seconds: float = 0.0
    computed: Decimal | None = None
    billed: Decimal | None = None


@attrs.define(kw_only=True)
class JobCost:
    """One run, or one machine without a run (`run` is None). `first` is the time of its first receipt."""

    run: str | None
    name: str
    workload: str
    first: datetime
    outcome: str = ""
    charges: list[Charge] = attrs.field(factory=list)


@attrs.frozen(kw_only=True)
class Sum:
    """Totals of charges; `billed` is None where nothing was billed yet."""

    seconds: float
    computed: Decimal
    billed: Decimal | None
    actual: Decimal


@click.command()
@click.option("--since", type=Moment(), help="A date, a time, or an age such as 7d (default 30d).")
@click.option("--until", type=Moment(), help="Up to, and without, this moment.")
@click.option(
    "--by",
    type=click.Choice(["job", "provider", "gpu", "workload", "day"]),
    default="job",
    show_default=True,
    help="What one line stands for.",
)
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV instead of a table.")
@json_option
def cost(since: datetime | None, until: datetime | None, by: str, as_csv: bool, as_json: bool) -> None:
    """What was spent: computed from the receipts, and as billed where a bill is known.

    A job belongs to the UTC day of its first receipt.
    """
    since = since or RealRuntime().now() - timedelta(days=_DEFAULT_DAYS)
    if until is not None and until <= since:
        raise ConfigError("--until is not after --since", hint="gipper pod cost --since 30d")
    with opened_ledger() as store:
        jobs = collect(store, since, until)
        skipped = store.skipped
    _show(jobs, by, as_csv=as_csv, as_json=as_json)
    _tell_skipped(skipped)


def collect(reader: LedgerReader, since: datetime, until: datetime | None) -> list[JobCost]:
    """The jobs whose first receipt lies in [`since`, `until`), oldest first.

    What a job cost is often known only after `until` (bills come late), so reading goes on to the end.
    """
    receipts = list(reader.read(since=since, kinds=KINDS))
    jobs = _jobs(reader, receipts)
    owner = {(r["provider"], r["pod"]): r.run for r in receipts if r.kind == Spend.kind and r.run}
    for charge in _charges(receipts).values():
        charge.run = charge.run or owner.get((charge.provider, charge.pod))
        _job_of(charge, jobs).charges.append(charge)
    inside = (j for j in jobs.values() if since <= j.first and (until is None or j.first < until))
    return sorted(inside, key=lambda j: j.first)


def total(charges: Iterable[Charge]) -> Sum:
    """The sum of `charges`; in `actual` each machine counts as billed where known, else as computed."""
    every = list(charges)
    billed = [c.billed for c in every if c.billed is not None]
    return Sum(
        seconds=sum(c.seconds for c in every),
        computed=sum((c.computed or ZERO for c in every), ZERO),
        billed=sum(billed, ZERO) if billed else None,
        actual=sum((c.computed or ZERO if c.billed is None else c.billed for c in every), ZERO),
    )


def _jobs(reader: LedgerReader, receipts: Iterable[Receipt]) -> dict[str, JobCost]:
    jobs: dict[str, JobCost] = {}
    for receipt in receipts:
        if receipt.run is None:
            continue
        if receipt.run not in jobs:
            jobs[receipt.run] = _new_job(reader, receipt)
        if receipt.kind == RunEnd.kind:
            jobs[receipt.run].outcome = str(receipt["outcome"])
    return jobs


def _new_job(reader: LedgerReader, seen: Receipt) -> JobCost:
    # The window may begin inside a run: then its first receipt, which says its day, lies before it.
    first = seen if seen.kind == RunStart.kind else next(iter(reader.read(run=seen.run)), seen)
    job = _job_payload(first)
    name = str(job.get("name") or seen.refs.get("name", ""))
    return JobCost(run=seen.run, name=name, workload=str(job.get("workload") or name), first=first.ts)


def _job_payload(receipt: Receipt) -> Mapping[str, Any]:
    # Not receipt["job"]: as a mapping, a receipt's own `job` is its run.
    job = receipt.payload.get("job")
    return job if isinstance(job, Mapping) else {}


def _charges(receipts: Iterable[Receipt]) -> dict[tuple[str, str], Charge]:
    charges: dict[tuple[str, str], Charge] = {}
    for receipt in receipts:
        if receipt.kind in (Spend.kind, SpendBilled.kind):
            key = (str(receipt["provider"]), str(receipt["pod"]))
            _add(charges.setdefault(key, _new_charge(key, receipt)), receipt)
    return charges


def _new_charge(key: tuple[str, str], receipt: Receipt) -> Charge:
    name = receipt.refs.get("name") or key[1]
    return Charge(provider=key[0], pod=key[1], run=receipt.run, name=name, at=receipt.ts)


def _add(charge: Charge, receipt: Receipt) -> None:
    charge.run = charge.run or receipt.run
    if receipt.kind == SpendBilled.kind:
        # Each bill of a machine is fuller than the one before, never a further amount.
        charge.billed = max(charge.billed or ZERO, receipt["usd"])
        return
    charge.computed = (charge.computed or ZERO) + receipt["usd"]
    charge.seconds += float(receipt["seconds"])
    charge.gpu = receipt.payload.get("gpu") or charge.gpu


def _job_of(charge: Charge, jobs: dict[str, JobCost]) -> JobCost:
    if charge.run is not None and charge.run in jobs:
        return jobs[charge.run]
    name = f"(no job) {charge.name}"
    key = f"{charge.provider} {charge.pod}"
    return jobs.setdefault(key, JobCost(run=None, name=name, workload="(no job)", first=charge.at))


def _show(jobs: Sequence[JobCost], by: str, *, as_csv: bool, as_json: bool) -> None:
    columns, rows = _by_job(jobs) if by == "job" else _grouped(jobs, by)
    if as_csv:
        _print_csv(columns, rows)
        return
    from gipper.cli.render import print_table, say

    if as_json:
        print_table(columns, rows, as_json=True)
        return
    print_table(columns, [[_cell(value) for value in row] for row in rows])
    whole = total(c for job in jobs for c in job.charges)
    say(f"total computed ${whole.computed:.4f}; billed where known, else computed ${whole.actual:.4f}")


def _by_job(jobs: Sequence[JobCost]) -> tuple[list[str], list[list[object]]]:
    columns = ["job", "name", "min", "computed", "billed", "outcome"]
    return columns, [_job_row(job) for job in jobs]


def _job_row(job: JobCost) -> list[object]:
    sums = total(job.charges)
    outcome = job.outcome or (None if job.run is None else "open")
    # While a job is open its cost isn't known, which is not the same as nothing.
    computed = sums.computed if job.charges or job.outcome else None
    return [job.run, job.name, _minutes(sums), computed, sums.billed, outcome]


def _grouped(jobs: Sequence[JobCost], by: str) -> tuple[list[str], list[list[object]]]:
    groups: dict[str, list[tuple[JobCost, Charge]]] = {}
    key = _KEYS[by]
    for job in jobs:
        for charge in job.charges:
            groups.setdefault(key(job, charge), []).append((job, charge))
    return [by, "jobs", "min", "computed", "billed"], [_group_row(k, groups[k]) for k in sorted(groups)]


_KEYS: Final[Mapping[str, Callable[[JobCost, Charge], str]]] = {
    "provider": lambda job, charge: charge.provider,
    "gpu": lambda job, charge: charge.gpu or "(none)",
    "workload": lambda job, charge: job.workload,
    "day": lambda job, charge: job.first.date().isoformat(),
}


def _group_row(key: str, members: Sequence[tuple[JobCost, Charge]]) -> list[object]:
    sums = total(charge for _, charge in members)
    runs = {job.run for job, _ in members if job.run is not None}
    return [key, len(runs), _minutes(sums), sums.computed, sums.billed]


def _minutes(sums: Sum) -> float:
    return round(sums.seconds / 60, 1)


def _cell(value: object) -> object:
    from gipper.cli.render import money

    return money(value) if isinstance(value, Decimal) else value


def _print_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([wire(v) if isinstance(v, Decimal) else v for v in row])
        sys.stdout.flush()


def _tell_skipped(skipped: int) -> None:
    if skipped:
        from gipper.cli.render import warn

        warn(f"gipper: {skipped} unreadable receipts were passed over; these sums may be too low")
        warn("  next: gipper ledger verify")
