"""How a machine is doing, from the market's four status fields and its text. Pure.

The words are those of the market's API pages and of its client 1.9.1 (August 2026); the verdicts follow what
users reported: `stopped` alone isn't an end while an image loads, an error text beside `Retrying` is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from gipper.api import Diagnosis, MachineState, wire

_BOOTING: Final = frozenset({None, "created", "loading"})
_AGAIN: Final = frozenset({"rebooting", "recycling"})
SILENT: Final = frozenset({"unknown", "offline"})
_PROGRESS: Final = ("retrying", "downloading", "extracting", "pull complete", "verifying checksum", "waiting")
_IMAGE: Final = (
    "manifest unknown", "manifest for", "pull access denied", "repository does not exist", "unauthorized",
    "failed to resolve reference", "invalid reference format", "/run/sshd must be owned by root",
)  # fmt: skip
_HOST: Final = (
    "error response from daemon", "oci runtime create failed", "failed to inject cdi devices",
    "unresolvable cdi devices", "failed to start containers", "nvidia-container-cli: initialization error",
    "driver failed programming external connectivity", "no space left", "error pulling image configuration",
    "download failed after attempts", "layer does not exist", "toomanyrequests",
)  # fmt: skip


@attrs.frozen(kw_only=True)
class Status:
    """A state in gipper's words, and what is wrong. `silent`: the host's daemon doesn't answer."""

    state: MachineState
    fault: str | None = None
    silent: bool = False


def status_of(row: Mapping[str, Any]) -> Status:
    """The status of one machine as the market tells it."""
    actual = _word(row, "actual_status")
    intended, current, after = (_word(row, f) for f in ("intended_status", "cur_state", "next_state"))
    message = wire.text(row.get("status_msg"))
    if current == "unloaded":
        return Status(state=MachineState.STOPPING)
    if actual == "exited":
        return Status(state=MachineState.ERROR, fault=f"its container exited: {message or 'no text'}")
    if actual in SILENT:
        return Status(state=MachineState.UNKNOWN, silent=True)
    if actual in _BOOTING and _is_broken(message, current):
        return Status(state=MachineState.ERROR, fault=message)
    stopped = (intended, current, after) == ("stopped",) * 3
    if stopped or actual in ("stopped", "frozen"):
        return Status(state=MachineState.STOPPED, fault=message)
    return Status(state=_alive(actual, intended))


def _alive(actual: str | None, intended: str | None) -> MachineState:
    if intended == "stopped":
        return MachineState.STOPPED if actual in _BOOTING else MachineState.STOPPING
    if actual == "running":
        return MachineState.RUNNING
    if actual is None:
        return MachineState.PENDING
    return MachineState.STARTING if actual in _BOOTING | _AGAIN else MachineState.UNKNOWN


def _is_broken(message: str | None, current: str | None) -> bool:
    """An image that can't be had is the end everywhere; a daemon's error only once the hold is given up."""
    low = (message or "").casefold()
    if any(word in low for word in _PROGRESS):
        return False
    if any(word in low for word in _IMAGE):
        return True
    return current == "stopped" and any(word in low for word in _HOST)


def blamed(text: str) -> Diagnosis | None:
    """Who is at fault by an error text; None where it has none of the known words."""
    low = text.casefold()
    if any(word in low for word in _IMAGE):
        return Diagnosis(text=text, fault="image")
    return Diagnosis(text=text, fault="host") if any(word in low for word in _HOST) else None


def _word(row: Mapping[str, Any], field: str) -> str | None:
    found = wire.text(row.get(field))
    return None if found is None or found.casefold() in ("null", "none") else found.casefold()
