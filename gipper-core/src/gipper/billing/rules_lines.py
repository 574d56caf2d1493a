"""Rules about lines of a bill: when, what for, how often. Pure.

Each rule takes the lines that it objects to out of what later ones see, so that no dollar is claimed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

import attrs

from gipper.billing.findings import Finding, FindingKind, finding
from gipper.billing.life import LEAST, SLACK, Life, dollars
from gipper.billing.rentals import Rented
from gipper.billing.traffic import Moved
from gipper.money import usd
from gipper.values.bills import Bill

# A market's clock, and the bucket that it is filling now.
AHEAD: Final = timedelta(hours=1)
# What a job may well move by itself, unseen: images, packages, models, its own uploads.
UNSEEN_GB: Final = 200
MANY_TIMES: Final = 5


@attrs.frozen(kw_only=True)
class Case:
    """One machine, its traffic, and the moment of the audit."""

    machine: Rented
    life: Life
    moved: Moved
    now: datetime


Split = tuple[list[Bill], str, tuple[str, ...]]
Rule = Callable[[Case, Sequence[Bill]], Split]


def apply(case: Case, bills: Sequence[Bill]) -> tuple[list[Finding], list[Bill]]:
    """What the rules find, and the lines that none of them took."""
    left, found = list(bills), list[Finding]()
    for kind, rule in _RULES:
        taken, why, kinds = rule(case, [bill for bill in left if bill.usd > 0])
        if taken and dollars(taken) >= LEAST:
            found.append(finding(kind, case.machine, taken, why, kinds=kinds))
        if taken:
            left = _without(left, taken)
    return found, left


def _without(bills: Sequence[Bill], taken: Sequence[Bill]) -> list[Bill]:
    # By identity: two equal lines are two charges.
    gone = {id(bill) for bill in taken}
    return [bill for bill in bills if id(bill) not in gone]


def _no_interval(_case: Case, bills: Sequence[Bill]) -> Split:
    return [b for b in bills if b.until <= b.since], "it is charged for no time at all", ()


def _future(case: Case, bills: Sequence[Bill]) -> Split:
    late = [b for b in bills if b.since > case.now + AHEAD]
    return late, f"it is charged for a time that had not come when it was read ({case.now:%F %H:%M} UTC)", ()


def _before(case: Case, bills: Sequence[Bill]) -> Split:
    early = [b for b in bills if b.until <= case.life.since - SLACK]
    return early, f"it was rented no earlier than {case.life.since:%F %H:%M:%S} UTC", ()


def _after(case: Case, bills: Sequence[Bill]) -> Split:
    gone = case.machine.gone
    if gone is None:
        return [], "", ()
    why = f"it was ended, and was absent from the account's complete list at {gone:%F %H:%M:%S} UTC"
    return [b for b in bills if b.since >= gone + SLACK], why, ("pod.terminate", "pod.terminated")


def _twice(_case: Case, bills: Sequence[Bill]) -> Split:
    seen: set[tuple[object, ...]] = set()
    again = []
    for bill in bills:
        key = (bill.kind, bill.usd, bill.since, bill.until, bill.text)
        # Traffic in and out are one kind, and may cost the same.
        if key in seen and bill.kind != "bandwidth":
            again.append(bill)
        seen.add(key)
    return again, "the same line stands on the bill twice", ()


def _overlap(_case: Case, bills: Sequence[Bill]) -> Split:
    over = []
    for kind in ("gpu", "disk", "other"):
        over += list(_overlapping([b for b in bills if b.kind == kind]))
    return over, "another line of the bill charges the same time for the same thing", ()


def _overlapping(bills: Sequence[Bill]) -> Iterator[Bill]:
    """Lines that begin inside another one without being its twin: the smaller of the two."""
    reach: Bill | None = None
    for bill in sorted(bills, key=lambda b: (b.since, -b.until.timestamp())):
        if reach is None or bill.since >= reach.until:
            reach = bill
        elif (bill.since, bill.until) != (reach.since, reach.until):
            yield min(bill, reach, key=lambda b: b.usd)
            reach = max(bill, reach, key=lambda b: b.usd)


def _unknown_kind(case: Case, bills: Sequence[Bill]) -> Split:
    # A machine without a GPU is charged for what it has, which is no kind of its own.
    odd = [] if case.machine.gpus == 0 else [b for b in bills if b.kind == "other"]
    return odd, "it is neither GPU, disk nor traffic, and the offer named nothing else", ()


def _bandwidth(case: Case, bills: Sequence[Bill]) -> Split:
    lines, moved = [b for b in bills if b.kind == "bandwidth"], case.moved
    if not lines or moved.in_usd is None or moved.out_usd is None:
        return [], "", ()
    kinds = ("custody.upload", "sync")
    if not moved.in_usd and not moved.out_usd:
        return lines, "the offer's traffic was free", kinds
    if dollars(lines) <= _allowed(moved, moved.in_usd, moved.out_usd):
        return [], "", ()
    why = (
        f"at ${moved.in_usd} a GB in and ${moved.out_usd} out it is far more than the"
        f" {moved.in_gb:.1f} GB in and {moved.out_gb:.1f} GB out that were sent and planned"
    )
    return lines, why, kinds


def _allowed(moved: Moved, in_usd: Decimal, out_usd: Decimal) -> Decimal:
    planned = MANY_TIMES * (moved.in_gb * in_usd + moved.out_gb * out_usd)
    return usd(planned + UNSEEN_GB * max(in_usd, out_usd))


_RULES: Final[tuple[tuple[FindingKind, Rule], ...]] = (
    ("no interval", _no_interval),
    ("future", _future),
    ("before rent", _before),
    ("after end", _after),
    ("twice", _twice),
    ("overlap", _overlap),
    ("unknown kind", _unknown_kind),
    ("bandwidth", _bandwidth),
)
