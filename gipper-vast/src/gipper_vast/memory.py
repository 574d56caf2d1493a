"""What this process knows of machines beyond what the market says of them. Lost with the process."""

from __future__ import annotations

import threading

import attrs


@attrs.frozen(kw_only=True)
class Rented:
    """How a machine was rented. `fault`: the create itself went wrong, so that it must be ended."""

    spot: bool
    fault: str | None = None


class Memory:
    """Machines that were rented or looked at here; safe to share by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rented: dict[str, Rented] = {}
        self._ran: set[str] = set()
        self._silent: dict[str, float] = {}

    def keep(self, machine_id: str, rented: Rented) -> None:
        """Remember how `machine_id` was rented."""
        with self._lock:
            self._rented[machine_id] = rented

    def of(self, machine_id: str) -> Rented | None:
        """How it was rented; None where this process didn't."""
        with self._lock:
            return self._rented.get(machine_id)

    def heard(self, machine_id: str, *, running: bool) -> None:
        """The host's daemon answered for the machine."""
        with self._lock:
            self._silent.pop(machine_id, None)
            if running:
                self._ran.add(machine_id)

    def silent_s(self, machine_id: str, now: float) -> float:
        """For how long the host has been silent while the machine never ran; 0 for one that did."""
        with self._lock:
            if machine_id in self._ran:
                return 0.0
            return now - self._silent.setdefault(machine_id, now)
