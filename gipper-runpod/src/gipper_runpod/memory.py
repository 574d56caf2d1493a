"""What one provider instance has seen of its pods while they start."""

from __future__ import annotations

import threading
from typing import Final

import attrs

# A community host without a public address never gets one; on others it came within a minute.
COMMUNITY_MOST_S: Final = 180.0
_FALLS: Final = 2


@attrs.define
class _Start:
    running_since: float | None = None
    reachable: bool = False
    uptime: float = 0.0
    falls: int = 0


class Memory:
    """Safe to share by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._starts: dict[str, _Start] = {}
        self._hosts: dict[str, str | None] = {}

    def waiting_s(self, pod: str, now: float, *, running: bool, reachable: bool) -> float:
        """Seconds that the pod has run without ever having had an address."""
        with self._lock:
            start = self._starts.setdefault(pod, _Start())
            start.reachable = start.reachable or reachable
            if running and start.running_since is None:
                start.running_since = now
            if start.reachable or start.running_since is None:
                return 0.0
            return now - start.running_since

    def restarts(self, pod: str, uptime: float | None) -> bool:
        """Whether its container was seen to start anew, again and again, before it was ever reachable."""
        with self._lock:
            start = self._starts.setdefault(pod, _Start())
            if uptime is not None:
                start.falls += uptime < start.uptime
                start.uptime = uptime
            return start.falls >= _FALLS and not start.reachable

    def host(self, pod: str) -> tuple[bool, str | None]:
        """(asked already, the host's id)."""
        with self._lock:
            return pod in self._hosts, self._hosts.get(pod)

    def keep_host(self, pod: str, host: str | None) -> None:
        """Remember the answer, also that there is none."""
        with self._lock:
            self._hosts[pod] = host
