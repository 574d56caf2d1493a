"""When a machine could cost money, and how much at most in any interval. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

import attrs

from gipper.billing.rentals import Rented
from gipper.money import ZERO, usd
from gipper.values.bills import Bill

# Clocks differ, markets round a rental up to a few minutes: so much is never held against them.
SLACK: Final = timedelta(minutes=5)
# Dearer than offered by less than both is what a run accepts, too.
DEARER: Final = Decimal("1.02")
DEARER_USD_H: Final = Decimal("0.01")
# What rounding may add to a line, and the least that is worth a claim.
ROUNDING: Final = Decimal("0.001")
LEAST: Final = Decimal("0.01")
_SECOND: Final = timedelta(seconds=1)
_MICRO: Final = timedelta(microseconds=1)


@attrs.frozen(kw_only=True)
class Life:
    """From the intent to the proof of its end; `until` is now while it isn't proved gone."""

    since: datetime
    until: datetime
    proved: bool
    usd_h: Decimal
    ready: datetime | None

    @classmethod
    def of(cls, machine: Rented, now: datetime) -> Life:
        """The machine's life as the receipts know it."""
        ready = None if machine.ready_s is None else machine.created + timedelta(seconds=machine.ready_s)
        gone = machine.gone
        return cls(
            since=machine.begun, until=now if gone is None else max(gone, machine.begun),
            proved=gone is not None, usd_h=machine.usd_h, ready=ready,
        )  # fmt: skip

    def overlap(self, since: datetime, until: datetime) -> timedelta:
        """How much of [`since`, `until`) it was alive."""
        return max(timedelta(0), min(until, self.until) - max(since, self.since))

    @property
    def allowed_usd_h(self) -> Decimal:
        """The highest rate that isn't held against the market."""
        return max(self.usd_h * DEARER, self.usd_h + DEARER_USD_H)


@attrs.frozen(kw_only=True)
class Slot:
    """A machine's GPU and disk lines of one interval."""

    since: datetime
    until: datetime
    gpu: tuple[Bill, ...]
    disk: tuple[Bill, ...]

    @property
    def bills(self) -> tuple[Bill, ...]:
        """All lines."""
        return (*self.gpu, *self.disk)

    def most(self, life: Life) -> Decimal:
        """The most that a machine can cost in this time at its rate, with slack for clock and rounding."""
        alive = min(self.until - self.since, life.overlap(self.since, self.until) + SLACK)
        return usd(life.allowed_usd_h * _hours(alive)) + ROUNDING * len(self.bills)

    def inside(self, life: Life) -> bool:
        """Whether the machine was alive all the time."""
        return life.overlap(self.since, self.until) >= self.until - self.since - _SECOND


def slots(bills: Iterable[Bill]) -> list[Slot]:
    """GPU and disk lines by interval, in order of time."""
    found: dict[tuple[datetime, datetime], list[Bill]] = {}
    for bill in bills:
        if bill.kind in ("gpu", "disk"):
            found.setdefault((bill.since, bill.until), []).append(bill)
    return [
        Slot(since=since, until=until, gpu=_of("gpu", lines), disk=_of("disk", lines))
        for (since, until), lines in sorted(found.items())
    ]


def _of(kind: str, lines: Iterable[Bill]) -> tuple[Bill, ...]:
    return tuple(line for line in lines if line.kind == kind)


def _hours(span: timedelta) -> Decimal:
    return Decimal(span // _MICRO) / 3_600_000_000


def dollars(bills: Iterable[Bill]) -> Decimal:
    """The sum of the lines, credits among them."""
    return sum((bill.usd for bill in bills), ZERO)
