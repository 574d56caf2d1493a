"""Which charges to ask for and which bills to record. Pure.

A market's bills are asked for since a UTC midnight, and further back where that would cut the bill of a
machine that was alive then, or where one was never billed. A bill is recorded only where it exceeds the last
one of its machine: a day that isn't over grows, and a window that saw less can't shrink a fuller bill.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

import attrs

from gipper.billing.rentals import Key, Rentals, Rented, total
from gipper.money import ZERO, usd
from gipper.values.bills import Bill
from gipper.values.receipts import Receipt, SpendBilled

DAY: Final = timedelta(days=1)
# How much further back machines and their last bills are looked up.
LOOK_BACK: Final = timedelta(days=31)
# A bill read that long after a machine's end has stopped growing.
SETTLED: Final = timedelta(days=2)


@attrs.frozen(kw_only=True)
class Whole:
    """All that one answer says of a machine: dollars in all and by kind, and from when to when."""

    provider: str
    pod: str
    usd: Decimal
    detail: Mapping[str, Decimal]
    lines: int
    since: datetime
    until: datetime

    @property
    def basis(self) -> str:
        """Where the dollars come from, for the receipt."""
        return f"bill: {self.lines} line(s), {self.since:%Y-%m-%d} to {self.until:%Y-%m-%d}"


def midnight(moment: datetime) -> datetime:
    """The UTC midnight at or before `moment`."""
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def first_day(now: datetime, days: int) -> datetime:
    """The UTC midnight `days` + 1 days back."""
    return midnight(now) - (days + 1) * DAY


def since_of(machines: Iterable[Rented], first: datetime) -> datetime:
    """Since when to ask so that no bill of `machines` is cut or missed: `first`, or a midnight before it."""
    return min([first, *(midnight(m.begun) for m in machines if _wanted(m, first))])


def _wanted(machine: Rented, first: datetime) -> bool:
    if machine.gone is None or machine.gone >= first:
        return True
    last = machine.billed
    return last is None or last.at < machine.gone + SETTLED


def wholes(provider: str, bills: Sequence[Bill]) -> dict[Key, Whole]:
    """One answer's lines added up machine by machine."""
    lines: dict[str, list[Bill]] = {}
    for bill in bills:
        lines.setdefault(bill.machine_id, []).append(bill)
    return {(provider, pod): _whole(provider, pod, own) for pod, own in lines.items()}


def _whole(provider: str, pod: str, lines: Sequence[Bill]) -> Whole:
    detail: dict[str, Decimal] = {}
    for line in lines:
        detail[line.kind] = detail.get(line.kind, ZERO) + usd(line.usd)
    return Whole(
        provider=provider, pod=pod, usd=total(detail.values()), detail=detail, lines=len(lines),
        since=min(line.since for line in lines), until=max(line.until for line in lines),
    )  # fmt: skip


def last_bills(receipts: Iterable[Receipt]) -> dict[Key, Decimal]:
    """The fullest bill of each machine that has one."""
    last: dict[Key, Decimal] = {}
    for r in receipts:
        if r.kind == SpendBilled.kind:
            key = (str(r["provider"]), str(r["pod"]))
            last[key] = max(last.get(key, ZERO), r["usd"])
    return last


def fuller(found: Mapping[Key, Whole], rentals: Rentals, last: Mapping[Key, Decimal]) -> list[Whole]:
    """Those of `found` that are of machines in `rentals` and exceed the last bill, oldest machine first."""
    return [found[k] for k in rentals.machines if k in found and found[k].usd > last.get(k, ZERO)]


def receipt_of(whole: Whole) -> SpendBilled:
    """The receipt that records a bill."""
    return SpendBilled(
        provider=whole.provider, pod=whole.pod, usd=whole.usd, detail=whole.detail, basis=whole.basis
    )


def cut_since(found: Mapping[Key, Whole], rentals: Rentals, asked: datetime) -> datetime | None:
    """When to ask again from, where a machine in the answer is older than asked for; None = whole."""
    begun = [midnight(rentals.machines[k].begun) for k in found if k in rentals.machines]
    return min((b for b in begun if b < asked), default=None)
