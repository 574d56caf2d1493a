"""How far a market's clock is from ours, from the Date of its answers."""

from __future__ import annotations

import statistics
import threading
from collections import deque
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

import attrs

from gipper.http_retry import http_date

# Of the answers that told the time, so many are remembered.
KEEP: Final = 24
# The offset is the median of the last few.
_LATEST: Final = 5
# Seconds. Beyond WARN the user is told; beyond DOUBT one clock is wrong, and two answers at least APART
# from each other must agree within ALIKE before anything is ended by its time.
WARN_S: Final = 60.0
DOUBT_S: Final = 600.0
APART_S: Final = 5.0
ALIKE_S: Final = 60.0
# A Date has whole seconds: on average the moment was half a second later.
_HALF: Final = timedelta(seconds=0.5)


@attrs.frozen(kw_only=True)
class MarketTime:
    """How far a market's clock is ahead of ours, and whether a machine may be ended by it."""

    ahead: timedelta = timedelta(0)
    sure: bool = True


class ServerClock:
    """The last few offsets, seconds, positive where the market's clock is ahead of ours."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: deque[tuple[float, float]] = deque(maxlen=KEEP)

    def note(self, headers: Mapping[str, str], sent: datetime, got: datetime, monotonic: float) -> None:
        """Learn from an answer. One that a cache kept (it has an Age) says nothing about now."""
        moment = http_date(headers.get("Date"))
        if moment is None or headers.get("Age", "0").strip() not in ("", "0"):
            return
        offset = (moment + _HALF - (sent + (got - sent) / 2)).total_seconds()
        with self._lock:
            self._seen.append((monotonic, offset))

    @property
    def seen(self) -> tuple[tuple[float, float], ...]:
        """(our monotonic time of the answer, offset) of the last few answers, oldest first."""
        with self._lock:
            return tuple(self._seen)

    @property
    def offset_s(self) -> float | None:
        """The median offset, or None before any answer told the time."""
        latest = self.seen[-_LATEST:]
        return statistics.median(offset for _, offset in latest) if latest else None

    def reading(self) -> MarketTime:
        """The market's time as far as it is known; our own where it was never told."""
        offset = self.offset_s
        if offset is None:
            return MarketTime()
        near = all(abs(told) <= DOUBT_S for _, told in self.seen[-_LATEST:])
        return MarketTime(ahead=timedelta(seconds=offset), sure=near or self._agreed())

    def _agreed(self) -> bool:
        seen = self.seen
        last, offset = seen[-1]
        return any(last - then >= APART_S and abs(offset - told) <= ALIKE_S for then, told in seen)
