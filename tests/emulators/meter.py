"""What a machine costs, exactly: dollars an hour over intervals, by kind, cut to any window. Nothing is rounded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import attrs

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


@attrs.frozen(kw_only=True)
class Line:
    """`usd_h` dollars an hour from `since` on, until `until` (None = it goes on)."""

    kind: str
    usd_h: Decimal
    since: datetime
    until: datetime | None = None

    def within(self, since: datetime, until: datetime, now: datetime) -> Decimal:
        """Dollars of that part of the line that lies in the window and in the past."""
        return self.usd_h * hours(self.seconds(since, until, now))

    def seconds(self, since: datetime, until: datetime, now: datetime) -> Decimal:
        """Seconds of the line within the window and the past."""
        end = min(until, now, self.until or now)
        span = end - max(since, self.since)
        return Decimal(max(span, timedelta(0)) // timedelta(microseconds=1)) / 1_000_000


def hours(seconds: Decimal) -> Decimal:
    """Seconds as hours."""
    return seconds / 3600


def total(lines: Iterable[Line], since: datetime, until: datetime, now: datetime) -> Decimal:
    """Dollars of all lines within the window."""
    return sum((line.within(since, until, now) for line in lines), Decimal(0))


def windows(since: datetime, until: datetime, step: timedelta) -> Iterator[tuple[datetime, datetime]]:
    """Whole UTC days or hours that touch [since, until)."""
    day = since.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    start = day + step * ((since - day) // step)
    while start < until:
        yield start, start + step
        start += step
