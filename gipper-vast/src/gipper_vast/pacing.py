"""How often the market may be asked: least intervals by method and endpoint, kept for all callers at once.

Intervals are those of the market's own API pages of August 2026. A call that comes too early is refused,
not queued, and some endpoints then push the next call further away: so we wait before we ask.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from typing import Final

import attrs

from gipper.api import ProviderError, Runtime

SEARCH: Final = "search"
LIST: Final = "list"
READ: Final = "read"
CREATE: Final = "create"
DESTROY: Final = "destroy"
KEY: Final = "ssh"
LOGS: Final = "logs"
CHARGES: Final = "charges"
USER: Final = "user"


@attrs.frozen(kw_only=True)
class Pace:
    """`most` calls within `seconds`; `penalty_s` is what a refused call costs at least."""

    seconds: float = 1.0
    most: int = 1
    penalty_s: float = 2.0


PACES: Final[Mapping[str, Pace]] = {
    # About ten a minute and address, by the text of the pages; one is left to a second process.
    SEARCH: Pace(seconds=60.0, most=9, penalty_s=6.0),
    LIST: Pace(seconds=1.0),
    READ: Pace(seconds=2.0),
    CREATE: Pace(seconds=4.5, penalty_s=12.0),
    DESTROY: Pace(seconds=3.0, penalty_s=3.0),
    KEY: Pace(seconds=1.0),
    LOGS: Pace(seconds=1.0),
    CHARGES: Pace(seconds=1.0),
    USER: Pace(seconds=1.0),
}


class Gate:
    """Lets each endpoint's calls through at its pace; safe to share by threads."""

    def __init__(self, runtime: Runtime, paces: Mapping[str, Pace] = PACES) -> None:
        self._runtime = runtime
        self._paces = paces
        self._lock = threading.Lock()
        self._slots: dict[str, deque[float]] = {}
        self._shut: dict[str, float] = {}

    def pace(self, endpoint: str) -> Pace:
        """The pace of `endpoint`."""
        return self._paces.get(endpoint, Pace())

    def pass_through(self, endpoint: str, deadline: float | None = None) -> None:
        """Wait for this endpoint's turn. Raises ProviderError where it comes after `deadline` (monotonic)."""
        wait = self._reserve(endpoint, deadline)
        if wait > 0:
            self._runtime.sleep(wait)

    def refused(self, endpoint: str, seconds: float) -> None:
        """The market said "too often": nobody asks there for `seconds`."""
        with self._lock:
            until = self._runtime.monotonic() + seconds
            self._shut[endpoint] = max(until, self._shut.get(endpoint, until))

    def _reserve(self, endpoint: str, deadline: float | None) -> float:
        pace = self.pace(endpoint)
        with self._lock:
            now = self._runtime.monotonic()
            slots = self._slots.setdefault(endpoint, deque(maxlen=pace.most))
            full = slots[0] + pace.seconds if len(slots) == pace.most else now
            turn = max(now, full, self._shut.get(endpoint, now))
            if deadline is not None and turn > deadline:
                raise ProviderError(
                    f"vast: {endpoint} may be asked again in {turn - now:.0f} s, which is too late here",
                    hint="the market limits how often it may be asked: try again in a minute",
                )
            slots.append(turn)
            return turn - now
