"""Reads what an attempt to use CUDA answered, and says in words what it means."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs

_KILLED = (124, 137)


@attrs.frozen(kw_only=True)
class Answer:
    """One attempt. `status` is python3's own; `tries` and `waited_s` count the polls while not ready.

    `basis` is where LD_LIBRARY_PATH came from; `told` the lines of the code, the last one the outcome.
    `status` is None where there is no python3 at all.
    """

    status: int | None
    tries: int = 1
    waited_s: int = 0
    basis: str = ""
    told: tuple[Mapping[str, Any], ...] = ()

    @property
    def last(self) -> Mapping[str, Any]:
        """The outcome; empty where the process told nothing."""
        return self.told[-1] if self.told else {}

    @property
    def error(self) -> int | None:
        """The driver's error number, where a call of its failed."""
        code = self.last.get("error")
        return code if isinstance(code, int) else None

    @property
    def count(self) -> int | None:
        """How many GPUs the driver has; None where the process didn't come to its end."""
        count = self.last.get("count")
        return count if self.status == 0 and isinstance(count, int) else None

    @property
    def path(self) -> str:
        """The LD_LIBRARY_PATH that the process had."""
        return str(self.last.get("path", ""))

    @property
    def capabilities(self) -> tuple[str, ...]:
        """Of the GPUs on which the kernel ran."""
        return tuple(str(t.get("capability")) for t in self.told if t.get("call") == "ran")

    @property
    def no_python(self) -> str | None:
        """Why there was no python3 to ask with, or None. That is the image's fault, not the host's."""
        if self.status is None:
            return "the machine has no python3, so CUDA can't be checked"
        if self.last.get("call") == "python3":
            return f"python3 lacks ctypes, so CUDA can't be checked: {self.last.get('text')}"
        if not self.told and 0 <= self.status < 124:
            return f"python3 doesn't run (status {self.status}), so CUDA can't be checked"
        return None

    def fault(self, limit_s: int) -> str | None:
        """What went wrong, or None where the code came to its end."""
        if self.count is not None:
            return None
        gpu = f" on GPU {self.last['device']}" if "device" in self.last else ""
        if self.status in _KILLED:
            return f"CUDA did not answer within {limit_s} s{gpu}"
        if self.status:
            signal = f"signal {self.status - 128}" if self.status > 128 else f"status {self.status}"
            return f"the process that called CUDA ended with {signal}{gpu}"
        if self.error is not None:
            name = f" ({self.last['name']})" if self.last.get("name") else ""
            return f"{self.last.get('call')} failed{gpu}: CUDA error {self.error}{name}"
        if self.last.get("call") == "load":
            return f"the driver library can't be loaded: {self.last.get('text')}"
        return f"{self.last.get('call', 'CUDA')} failed{gpu}: {self.last.get('text', 'no answer')}"


def read(text: str) -> Answer:
    """From the script's output. Never raises: nonsense is an attempt that told nothing."""
    head, _, rest = text.strip().partition("\n")
    words = head.split(" ")
    if head == "no python3":
        return Answer(status=None)
    if len(words) != 4 or not all(w.isdigit() for w in words[:3]):
        return Answer(status=1)
    status, tries, waited = (int(w) for w in words[:3])
    lines = tuple(t for line in rest.splitlines() if (t := _mapping(line)) is not None)
    return Answer(status=status, tries=tries, waited_s=waited, basis=words[3], told=lines)


def _mapping(line: str) -> Mapping[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
