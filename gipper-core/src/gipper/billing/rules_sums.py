"""Rules about sums: more than rate x time can come to, disk without its GPU, growth after the end. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from gipper.billing.findings import Finding, FindingKind, finding
from gipper.billing.life import LEAST, SLACK, Life, Slot, dollars, slots
from gipper.billing.recording import SETTLED
from gipper.billing.rentals import Rented, total
from gipper.money import ZERO
from gipper.values.bills import Bill

# A machine that never let anyone in may load for so long before its disk alone is odd.
LOADING: Final = timedelta(hours=1)
_ENDS: Final = ("pod.terminate", "pod.terminated")


def sums(machine: Rented, life: Life, bills: Sequence[Bill]) -> list[Finding]:
    """What GPU and disk lines come to, against the machine's life and rate."""
    every = slots(bills)
    idle = [slot for slot in every if machine.gpus != 0 and _idle(slot, life)]
    rest = [slot for slot in every if slot not in idle]
    found = _no_gpu_time(machine, idle)
    for kind, over in _excesses(life, rest).items():
        usd = total(amount for _, amount in over)
        if usd >= LEAST:
            lines = [b for slot, _ in over for b in slot.bills]
            kinds = () if kind == "rate" else _ENDS
            found.append(finding(kind, machine, lines, _why(kind, machine, life), usd=usd, kinds=kinds))
    return found


def _idle(slot: Slot, life: Life) -> bool:
    """Disk without GPU while the machine should have had its GPU."""
    if dollars(slot.gpu) > 0 or dollars(slot.disk) <= 0:
        return False
    if life.ready is None:
        return life.overlap(slot.since, slot.until) > LOADING
    since = max(slot.since, life.ready)
    return since < slot.until and life.overlap(since, slot.until) > SLACK


def _no_gpu_time(machine: Rented, idle: Sequence[Slot]) -> list[Finding]:
    lines = [bill for slot in idle for bill in slot.disk]
    if dollars(lines) < LEAST:
        return []
    why = "its disk is charged for a time without a GPU: it had stopped, and nobody asked for that"
    return [finding("no gpu time", machine, lines, why, kinds=("pod.ready", *_ENDS))]


def _excesses(life: Life, rest: Iterable[Slot]) -> dict[FindingKind, list[tuple[Slot, Decimal]]]:
    found: dict[FindingKind, list[tuple[Slot, Decimal]]] = {}
    for slot in rest:
        usd = dollars(slot.bills) - slot.most(life)
        if usd > 0:
            found.setdefault(_kind(slot, life), []).append((slot, usd))
    return found


def _kind(slot: Slot, life: Life) -> FindingKind:
    if dollars(slot.gpu) <= slot.most(life):
        return "disk"
    return "rate" if slot.inside(life) else "too long"


def _why(kind: FindingKind, machine: Rented, life: Life) -> str:
    end = f"{life.until:%F %H:%M:%S} UTC"
    lived = f"it lived from {life.since:%F %H:%M:%S} UTC to {end}" + ("" if life.proved else " (now)")
    if kind == "disk":
        return (
            f"the offer's ${machine.usd_h} an hour held the disk; GPU and disk together are charged above it"
        )
    if kind == "rate":
        return f"it was rented for ${machine.usd_h} an hour and is charged at a higher rate"
    return f"{lived}, at ${machine.usd_h} an hour; more hours, or dearer ones, are charged"


def grown(machine: Rented, bills: Sequence[Bill], now: datetime, others: Decimal) -> list[Finding]:
    """What was added to a bill that had been read long after the machine's end, beyond `others`' dollars."""
    gone = machine.gone
    if gone is None or not bills:
        return []
    settled = [r for r in machine.bills if r.at >= gone + SETTLED and r.at <= now]
    if not settled:
        return []
    first = min(settled, key=lambda r: r.at)
    usd = max(dollars(bills), *(r.usd for r in settled)) - first.usd - others
    if usd < LEAST:
        return []
    why = (
        f"proved gone by {gone:%F %H:%M:%S} UTC, its bill was ${first.usd} on {first.at:%F}, and it has"
        " grown since"
    )
    kinds = ("pod.terminate", "pod.terminated", "spend.billed")
    return [finding("grew late", machine, bills, why, usd=max(usd, ZERO), kinds=kinds)]
