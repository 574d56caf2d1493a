"""A market's rate limit: a least interval for each endpoint and caller; some push the next call further away."""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.frozen
class Interval:
    """At most `most` calls within `seconds`; a refused call costs `penalty_s` more."""

    seconds: float
    penalty_s: float = 0.0
    most: int = 1


@attrs.define
class RateLimit:
    """Refuses, never queues."""

    intervals: Mapping[str, Interval]
    on: bool = True
    _calls: dict[tuple[str, str], list[float]] = attrs.field(factory=dict)
    _shut: dict[tuple[str, str], float] = attrs.field(factory=dict)
    refused: list[str] = attrs.field(factory=list)

    def too_early(self, endpoint: str, caller: str, now: float) -> float | None:
        """Seconds that the caller should have waited, or None for a call that is let in."""
        interval = self.intervals.get(endpoint)
        if interval is None or not self.on:
            return None
        key = (endpoint, caller)
        calls = [t for t in self._calls.get(key, []) if now - t < interval.seconds]
        wait = max(self._shut.get(key, 0.0) - now, 0.0)
        if len(calls) >= interval.most:
            wait = max(wait, interval.seconds - (now - calls[0]))
        if wait > 0:
            self._shut[key] = now + wait + interval.penalty_s
            self.refused.append(endpoint)
            return wait
        self._calls[key] = [*calls, now]
        return None
