"""Why a machine's bill isn't what was computed, line by line; they add up to the difference exactly. Pure.

Computed = the offer's rate x the time from creation to the order to end. By the contract of offers that rate
holds the disk. Each line takes only what its cause can account for; what is left is unexplained.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal
from typing import Final, Literal

import attrs

from gipper.billing.rentals import Recorded, Rented
from gipper.money import MICRO, ZERO, cost

Cause = Literal[
    "disk", "bandwidth", "other", "late start", "late end", "end not known", "rounding", "unexplained"
]
CAUSES: Final[tuple[Cause, ...]] = (
    "disk", "bandwidth", "other", "late start", "late end", "end not known", "rounding", "unexplained",
)  # fmt: skip
# Markets charge very short rentals as a few minutes.
LEAST_BILLED_S: Final = 300.0
_DAY: Final = timedelta(days=1)
_CENT: Final = Decimal("0.01")


@attrs.frozen(kw_only=True)
class Difference:
    """Billed less computed, in all and by cause; only causes with dollars are in `lines`."""

    usd: Decimal
    lines: dict[Cause, Decimal]


def explain(machine: Rented) -> Difference | None:
    """The difference of a machine that has both figures, else None."""
    computed, bill = machine.computed, machine.billed
    if computed is None or bill is None:
        return None
    fees: dict[Cause, Decimal] = {
        "bandwidth": bill.detail.get("bandwidth", ZERO),
        "other": bill.usd - sum((bill.detail.get(k, ZERO) for k in ("gpu", "disk", "bandwidth")), ZERO),
    }
    gpu, disk = bill.detail.get("gpu", ZERO), bill.detail.get("disk", ZERO)
    # A rate that holds the disk is what markets promise; it is given up only where more fits without.
    inside = _rental(machine, bill, gpu + disk - computed.usd)
    apart = {"disk": disk, **_rental(machine, bill, gpu - computed.usd)}
    best = apart if abs(apart["unexplained"]) < abs(inside["unexplained"]) else inside
    lines = {cause: amount for cause in CAUSES if (amount := {**fees, **best}.get(cause, ZERO))}
    return Difference(usd=bill.usd - computed.usd, lines=lines)


def add(differences: Iterable[Difference]) -> Difference:
    """Several machines' differences as one."""
    every = list(differences)
    sums = {c: sum((d.lines.get(c, ZERO) for d in every), ZERO) for c in CAUSES}
    return Difference(usd=sum((d.usd for d in every), ZERO), lines={c: s for c, s in sums.items() if s})


def _rental(machine: Rented, bill: Recorded, rest: Decimal) -> dict[Cause, Decimal]:
    """`rest` shared out among the causes that lie in time and rounding."""
    computed = machine.computed
    assert computed is not None
    rate, found = computed.usd_h, dict[Cause, Decimal]()
    if rest < 0:
        found["late start"] = max(rest, -cost(rate, machine.ready_s or 0.0))
        if computed.upper_bound:
            found["end not known"] = rest - found["late start"]
    else:
        found["late end"] = min(rest, cost(rate, machine.dying_s))
    rest -= sum(found.values(), ZERO)
    margin = _rounding(machine, bill)
    least = cost(rate, max(0.0, LEAST_BILLED_S - computed.seconds))
    found["rounding"] = max(-margin, min(rest, margin + least))
    return {**found, "unexplained": rest - found["rounding"]}


def _rounding(machine: Rented, bill: Recorded) -> Decimal:
    """The most by which rounding can move a bill: half of its last digit for each line of each day."""
    computed = machine.computed
    assert computed is not None
    days = (computed.at - machine.begun) // _DAY + 2
    lines = days * max(1, len(bill.detail))
    return unit(bill.detail.values()) * lines / 2


def unit(amounts: Iterable[Decimal]) -> Decimal:
    """The coarsest of a cent to a micro-dollar that all `amounts` are multiples of."""
    known, step = [a for a in amounts if a], _CENT
    while step > MICRO and any(amount % step for amount in known):
        step /= 10
    return step if known else MICRO
