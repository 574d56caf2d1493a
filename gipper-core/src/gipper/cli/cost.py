"""`gipper pod cost`: what runs cost, computed from their own receipts and as billed where that is known."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import click

from gipper.billing.difference import CAUSES, Cause
from gipper.billing.spending import Charge, JobCost, Sum, collect, explained, grouped, total
from gipper.cli.options import Moment, json_option, opened_ledger
from gipper.errors import ConfigError
from gipper.money import ZERO, wire
from gipper.runtime import RealRuntime

__all__ = ["Charge", "JobCost", "Sum", "collect", "cost", "total"]

_DEFAULT_DAYS: Final = 30


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
@click.option("--explain", is_flag=True, help="Also say, cause by cause, why bills aren't what was computed.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV instead of a table.")
@json_option
def cost(
    since: datetime | None, until: datetime | None, by: str, explain: bool, as_csv: bool, as_json: bool
) -> None:
    """What was spent: computed from the receipts, and as billed where a bill is known.

    A job belongs to the UTC day of its first receipt. `gipper pod reconcile` asks the markets for bills.
    """
    since = since or RealRuntime().now() - timedelta(days=_DEFAULT_DAYS)
    if until is not None and until <= since:
        raise ConfigError("--until is not after --since", hint="gipper pod cost --since 30d")
    if as_csv and as_json:
        raise ConfigError("--csv and --json exclude each other", hint="gipper pod cost --csv")
    with opened_ledger() as store:
        jobs = collect(store, since, until)
        skipped = store.skipped
        if explain:
            # A job of the window has no receipt before it.
            explained(jobs, store, since)
            skipped = max(skipped, store.skipped)
    _show(jobs, by, explain=explain, as_csv=as_csv, as_json=as_json)
    _tell_skipped(skipped)


def _show(jobs: Sequence[JobCost], by: str, *, explain: bool, as_csv: bool, as_json: bool) -> None:
    columns, rows = _by_job(jobs, explain) if by == "job" else _by_group(jobs, by, explain)
    if as_csv:
        _print_csv(columns, rows)
        return
    from gipper.cli.render import print_table, say

    if as_json:
        print_table(columns, rows, as_json=True)
        return
    whole = total(c for job in jobs for c in job.charges)
    shown = [i for i, name in enumerate(columns) if not _empty(name, whole)]
    print_table([columns[i] for i in shown], [[_cell(row[i]) for i in shown] for row in rows])
    say(f"total computed ${whole.computed:.4f}; billed where known, else computed ${whole.actual:.4f}")
    if explain:
        for line in _differences(whole):
            say(line)


def _by_job(jobs: Sequence[JobCost], explain: bool) -> tuple[list[str], list[list[object]]]:
    columns = ["job", "name", "min", "computed", "billed", *_causes(explain), "outcome"]
    return columns, [_job_row(job, explain) for job in jobs]


def _job_row(job: JobCost, explain: bool) -> list[object]:
    sums = total(job.charges)
    outcome = job.outcome or (None if job.run is None else "open")
    # While a job is open its cost isn't known, which is not the same as nothing.
    computed = sums.computed if job.charges or job.outcome else None
    causes = _amounts(sums) if explain else []
    return [job.run, job.name, _minutes(sums), computed, sums.billed, *causes, outcome]


def _by_group(jobs: Sequence[JobCost], by: str, explain: bool) -> tuple[list[str], list[list[object]]]:
    columns = [by, "jobs", "min", "computed", "billed", *_causes(explain)]
    return columns, [_group_row(key, members, explain) for key, members in grouped(jobs, by).items()]


def _group_row(key: str, members: Sequence[tuple[JobCost, Charge]], explain: bool) -> list[object]:
    sums = total(charge for _, charge in members)
    runs = {job.run for job, _ in members if job.run is not None}
    causes = _amounts(sums) if explain else []
    return [key, len(runs), _minutes(sums), sums.computed, sums.billed, *causes]


def _causes(explain: bool) -> list[str]:
    return ["difference", *CAUSES] if explain else []


def _amounts(sums: Sum) -> list[object]:
    found = sums.difference
    if found is None:
        return [None] * (1 + len(CAUSES))
    return [found.usd, *(found.lines.get(cause, ZERO) for cause in CAUSES)]


def _empty(column: str, whole: Sum) -> bool:
    """Whether a cause explains nothing anywhere: on a terminal it would only be in the way."""
    lines: dict[Cause, Decimal] = whole.difference.lines if whole.difference else {}
    return column in CAUSES and column not in lines


def _differences(whole: Sum) -> list[str]:
    if whole.difference is None:
        return ["no machine has both figures yet; next: gipper pod reconcile"]
    told = [f"  {cause} {amount:+.4f}" for cause, amount in whole.difference.lines.items()]
    return [f"billed less computed, of machines with both: {whole.difference.usd:+.4f}", *told]


def _minutes(sums: Sum) -> float:
    return round(sums.seconds / 60, 1)


def _cell(value: object) -> object:
    from gipper.cli.render import money

    return money(value) if isinstance(value, Decimal) else value


def _print_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
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
