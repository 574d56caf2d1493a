"""How far a market's clock is from ours, from the Date of its answers."""

from __future__ import annotations

import statistics
import threading
from collections import deque
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from gipper.http_retry import http_date

KEEP: Final = 5
# A Date has whole seconds: on average the moment was half a second later.
_HALF: Final = timedelta(seconds=0.5)


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
        seen = self.seen
        return statistics.median(offset for _, offset in seen) if seen else None
