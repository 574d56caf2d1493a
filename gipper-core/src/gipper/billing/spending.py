"""What jobs cost, from receipts: computed, as billed where that is known, and why the two differ. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import attrs

from gipper.billing.difference import Difference, add, explain
from gipper.billing.rentals import KINDS as RENTAL_KINDS
from gipper.billing.rentals import Key, Rentals
from gipper.ledger.protocol import LedgerReader
from gipper.money import ZERO
from gipper.values.receipts import Receipt, RunEnd, RunStart, Spend, SpendBilled

KINDS: Final = frozenset({RunStart.kind, RunEnd.kind, Spend.kind, SpendBilled.kind})


@attrs.define(kw_only=True)
class Charge:
    """One machine's cost. `run` is None where no run is known; None dollars are not known.

    `difference` is None where it isn't asked for, or either figure is missing.
    """

    provider: str
    pod: str
    run: str | None = None
    name: str = ""
    at: datetime
    gpu: str | None = None
    seconds: float = 0.0
    computed: Decimal | None = None
    billed: Decimal | None = None
    difference: Difference | None = None


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
    """Totals of charges; `billed` is None where nothing was billed yet.

    `difference` is that of the machines that have both figures, None where none has.
    """

    seconds: float
    computed: Decimal
    billed: Decimal | None
    actual: Decimal
    difference: Difference | None = None


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


def explained(jobs: Iterable[JobCost], reader: LedgerReader, since: datetime) -> None:
    """Add to each charge of `jobs` why its bill isn't what was computed, from receipts since `since`."""
    rentals = Rentals.of(reader.read(since=since, kinds=RENTAL_KINDS))
    for charge in (c for job in jobs for c in job.charges):
        machine = rentals.get(charge.provider, charge.pod)
        charge.difference = None if machine is None else explain(machine)


def total(charges: Iterable[Charge]) -> Sum:
    """The sum of `charges`; in `actual` each machine counts as billed where known, else as computed."""
    every = list(charges)
    billed = [c.billed for c in every if c.billed is not None]
    differences = [c.difference for c in every if c.difference is not None]
    return Sum(
        seconds=sum(c.seconds for c in every),
        computed=sum((c.computed or ZERO for c in every), ZERO),
        billed=sum(billed, ZERO) if billed else None,
        actual=sum((c.computed or ZERO if c.billed is None else c.billed for c in every), ZERO),
        difference=add(differences) if differences else None,
    )


def grouped(jobs: Iterable[JobCost], by: str) -> dict[str, list[tuple[JobCost, Charge]]]:
    """Charges by provider, GPU, workload or day of the job, in the order of those names."""
    groups: dict[str, list[tuple[JobCost, Charge]]] = {}
    for job in jobs:
        for charge in job.charges:
            groups.setdefault(GROUPS[by](job, charge), []).append((job, charge))
    return dict(sorted(groups.items()))


GROUPS: Final[Mapping[str, Callable[[JobCost, Charge], str]]] = {
    "provider": lambda job, charge: charge.provider,
    "gpu": lambda job, charge: charge.gpu or "(none)",
    "workload": lambda job, charge: job.workload,
    "day": lambda job, charge: job.first.date().isoformat(),
}


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


def _charges(receipts: Iterable[Receipt]) -> dict[Key, Charge]:
    charges: dict[Key, Charge] = {}
    for receipt in receipts:
        if receipt.kind in (Spend.kind, SpendBilled.kind):
            key = (str(receipt["provider"]), str(receipt["pod"]))
            _add(charges.setdefault(key, _new_charge(key, receipt)), receipt)
    return charges


def _new_charge(key: Key, receipt: Receipt) -> Charge:
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
