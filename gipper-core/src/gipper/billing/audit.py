"""Charges that don't fit what the receipts say of a machine. Pure: bills and receipts in, findings out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from gipper.billing import rules_lines, rules_sums
from gipper.billing.findings import Finding
from gipper.billing.life import LEAST, Life, dollars
from gipper.billing.rentals import Key, Rentals, Rented, total
from gipper.billing.traffic import Moved
from gipper.values.bills import Bill


def audit(
    provider: str, bills: Sequence[Bill], rentals: Rentals, traffic: Mapping[Key, Moved], now: datetime
) -> list[Finding]:
    """All findings among one market's `bills`, the most dollars first.

    `rentals` must come from all receipts: a machine that it doesn't hold counts as unknown. No dollar is in
    two findings.
    """
    found = list[Finding]()
    for pod, lines in _by_machine(bills).items():
        machine = rentals.get(provider, pod)
        if machine is None:
            found += _unknown(provider, pod, lines)
        else:
            found += _known(machine, lines, traffic.get(machine.key, Moved()), now)
    return sorted(found, key=lambda f: (-f.usd, f.machine, f.kind))


def _by_machine(bills: Sequence[Bill]) -> dict[str, list[Bill]]:
    found: dict[str, list[Bill]] = {}
    for bill in bills:
        found.setdefault(bill.machine_id, []).append(bill)
    return found


def _known(machine: Rented, lines: Sequence[Bill], moved: Moved, now: datetime) -> list[Finding]:
    life = Life.of(machine, now)
    case = rules_lines.Case(machine=machine, life=life, moved=moved, now=now)
    found, left = rules_lines.apply(case, lines)
    found += rules_sums.sums(machine, life, left)
    return found + rules_sums.grown(machine, lines, now, total(f.usd for f in found))


def _unknown(provider: str, pod: str, lines: Sequence[Bill]) -> list[Finding]:
    if dollars(lines) < LEAST:
        return []
    why = (
        "no receipt of this ledger names this machine: it was rented by another tool or person, or by nobody"
    )
    return [
        Finding(
            kind="unknown machine", provider=provider, machine=pod, name=None, run=None,
            since=min(b.since for b in lines), until=max(b.until for b in lines), usd=dollars(lines),
            why=why, bills=tuple(lines), receipts=(),
        )
    ]  # fmt: skip
