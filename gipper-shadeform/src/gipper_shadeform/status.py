"""How a machine is doing, from the market's status, its details, and how long that has lasted. Pure.

creating → pending_provider → pending → active → deleting → deleted, and error from each of the first three.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from gipper.api import Diagnosis, MachineState, wire
from gipper_shadeform.errors import CAPACITY, MONEY, QUOTA

_STATES: Final[Mapping[str, MachineState]] = {
    "creating": MachineState.PENDING,
    "pending_provider": MachineState.PENDING,
    "pending": MachineState.STARTING,
    "active": MachineState.RUNNING,
    "error": MachineState.ERROR,
    "deleting": MachineState.STOPPING,
    "deleted": MachineState.GONE,
}
_PREEMPTED: Final = "preempted"
_DETAILS_MOST: Final = 300
# Seconds that a state may last. Dozens of looks at one cloud's "pending_provider" led nowhere (one user).
LIMITS: Final[Mapping[str, float]] = {"creating": 600.0, "pending": 1200.0}
BUILD_S: Final = (900.0, 2400.0)
_BOOT_TIMES: Final = 2.0
ADDRESS_S: Final = 300.0


@attrs.frozen(kw_only=True)
class Status:
    """A state in gipper's words, and what is wrong."""

    word: str
    state: MachineState
    fault: str | None = None


def status_of(row: Mapping[str, Any]) -> Status:
    """The status of one machine as the market tells it."""
    word = (wire.text(row.get("status")) or "").casefold()
    state = _STATES.get(word, MachineState.UNKNOWN)
    details = details_of(row)
    if _PREEMPTED in details.casefold() and state is not MachineState.GONE:
        return Status(word=word, state=MachineState.STOPPED, fault=f"the market took it back ({details})")
    if state is MachineState.ERROR and _says(details, CAPACITY):
        # Accepted, and sold out all the same: nobody's fault, and another offer may do.
        return Status(word=word, state=MachineState.STOPPED, fault=f"sold out after all ({details})")
    fault = f"its creation failed: {details or 'no text'}" if state is MachineState.ERROR else None
    return Status(word=word, state=state, fault=fault)


def overdue(row: Mapping[str, Any], word: str, lasted_s: float, *, reachable: bool) -> str | None:
    """Why a machine that starts is given up; None while its state may still last."""
    if word == "active" and not reachable and lasted_s >= ADDRESS_S:
        return f"active for {lasted_s:.0f} s without an address"
    limit = build_limit_s(row) if word == "pending_provider" else LIMITS.get(word)
    if limit is None or lasted_s < limit:
        return None
    return f"{word} for {lasted_s:.0f} s (at most {limit:.0f}): {details_of(row) or 'no text'}"


def build_limit_s(row: Mapping[str, Any]) -> float:
    """How long a cloud may take to build the machine: twice what the market says, within bounds."""
    told = wire.positive(wire.mapping(row.get("boot_time")).get("max_boot_in_sec")) or 0.0
    return min(BUILD_S[1], max(BUILD_S[0], _BOOT_TIMES * told))


def details_of(row: Mapping[str, Any]) -> str:
    """The market's text beside the status."""
    return (wire.text(row.get("status_details")) or "")[:_DETAILS_MOST]


def diagnosis(row: Mapping[str, Any]) -> Diagnosis | None:
    """Who is at fault that a machine didn't come up; None where nothing is wrong."""
    status = status_of(row)
    text = status.fault
    if text is None:
        return None
    # Money, limits, a lack of machines and a reclaim are no host's fault, and none must be blamed.
    blameless = status.state is MachineState.STOPPED or _says(text, MONEY + QUOTA)
    return Diagnosis(text=text, fault="account" if blameless else "host")


def _says(text: str, words: tuple[str, ...]) -> bool:
    low = text.casefold()
    return any(word in low for word in words)
