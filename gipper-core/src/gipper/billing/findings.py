"""What an audit finds, and as the claim that a user can paste into a market's support form. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Final, Literal

import attrs

from gipper.billing.rentals import Evidence, Rented, total
from gipper.money import wire
from gipper.values.bills import Bill
from gipper.values.receipts import stamp

FindingKind = Literal[
    "unknown machine", "no interval", "future", "before rent", "after end", "twice", "overlap",
    "unknown kind", "bandwidth", "no gpu time", "rate", "too long", "disk", "grew late",
]  # fmt: skip
MOST_LINES: Final = 20


@attrs.frozen(kw_only=True)
class Finding:
    """A charge that doesn't fit: `usd` dollars of the machine's `bills` in [`since`, `until`).

    `name` and `run` are None for a machine that no receipt knows. `receipts` are those that it rests on.
    """

    kind: FindingKind
    provider: str
    machine: str
    name: str | None
    run: str | None
    since: datetime
    until: datetime
    usd: Decimal
    why: str
    bills: tuple[Bill, ...]
    receipts: tuple[Evidence, ...]


def finding(
    kind: FindingKind,
    machine: Rented,
    bills: Iterable[Bill],
    why: str,
    *,
    usd: Decimal | None = None,
    kinds: Iterable[str] = (),
) -> Finding:
    """A finding about a known machine; `usd` is all of `bills` unless given, `kinds` of receipts."""
    lines = tuple(bills)
    return Finding(
        kind=kind, provider=machine.provider, machine=machine.pod, name=machine.name, run=machine.run,
        since=min(b.since for b in lines), until=max(b.until for b in lines),
        usd=total(b.usd for b in lines) if usd is None else usd, why=why, bills=lines,
        receipts=machine.rests_on("pod.intent", "pod.create", *kinds),
    )  # fmt: skip


def claim(found: Finding) -> str:
    """The finding as a text that says everything to someone who has never heard of gipper."""
    named = f" ({found.name})" if found.name else ""
    lines = [
        f"Charge in question: ${wire(found.usd)}",
        f"Machine: {found.machine}{named}",
        f"Interval: {_utc(found.since)} to {_utc(found.until)}",
        f"Why: {found.why}",
        "Lines of the bill:",
        *(f"  {_line(bill)}" for bill in found.bills[:MOST_LINES]),
    ]
    if len(found.bills) > MOST_LINES:
        lines.append(f"  and {len(found.bills) - MOST_LINES} more")
    return "\n".join([*lines, *_rests(found)])


def _rests(found: Finding) -> list[str]:
    if not found.receipts:
        return ["Records: none of our records names this machine."]
    told = (f"  {e.kind} of {stamp(e.ts)}, no. {e.seq}, {e.id}" for e in found.receipts)
    return ["Records that this rests on (each sealed by the one after it):", *told]


def _line(bill: Bill) -> str:
    text = f", {bill.text}" if bill.text else ""
    return f"{_utc(bill.since)} to {_utc(bill.until)}: {bill.kind} ${wire(bill.usd)}{text}"


def _utc(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
