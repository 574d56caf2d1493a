"""What one provider instance has seen: lasting states, endings that we asked for, offers that were empty."""

from __future__ import annotations

import threading
from typing import Final

# An offer that was sold out isn't shown again before.
EMPTY_S: Final = 600.0


class Memory:
    """Safe to share by threads; times are monotonic seconds. Lost with the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._states: dict[str, tuple[str, float]] = {}
        self._ended: set[str] = set()
        self._empty: dict[str, float] = {}

    def lasted_s(self, machine_id: str, state: str, now: float) -> float:
        """Seconds since the machine was first seen in this state, without another in between."""
        with self._lock:
            known = self._states.get(machine_id)
            if known is None or known[0] != state:
                self._states[machine_id] = known = (state, now)
            return now - known[1]

    def end(self, machine_id: str) -> None:
        """We asked to end it."""
        with self._lock:
            self._ended.add(machine_id)

    def ended(self, machine_id: str) -> bool:
        """Whether this process asked to end it."""
        with self._lock:
            return machine_id in self._ended

    def sold_out(self, offer: str, now: float) -> None:
        """The create of this offer found nothing free."""
        with self._lock:
            self._empty[offer] = now

    def is_sold_out(self, offer: str, now: float) -> bool:
        """Whether it found nothing free just now."""
        with self._lock:
            return now - self._empty.get(offer, now - EMPTY_S) < EMPTY_S
