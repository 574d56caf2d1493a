"""What every step of a run is handed: ledger, time, settings, and somebody to tell."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

import attrs

from gipper.http_clock import WARN_S
from gipper.ledger.protocol import LedgerStore
from gipper.runtime import Event, Runtime
from gipper.values.settings import Settings

if TYPE_CHECKING:
    from gipper.plugins.handle import Provider


class Reporter(Protocol):
    """Where a run tells what it does; texts are plain and already redacted."""

    def step(self, text: str) -> None:
        """A step begins or ended: one line."""

    def warn(self, text: str) -> None:
        """Something the user should know, although the run goes on."""

    def log(self, data: bytes) -> None:
        """Bytes that the job wrote, known secrets replaced, control sequences still in it."""

    def progress(self, what: str, done: int, total: int | None) -> None:
        """Bytes moved so far."""


class SilentReporter:
    """Tells nobody."""

    def step(self, text: str) -> None:
        pass

    def warn(self, text: str) -> None:
        pass

    def log(self, data: bytes) -> None:
        pass

    def progress(self, what: str, done: int, total: int | None) -> None:
        pass


class Interrupts:
    """How often the user has asked to stop: 1 = end the job and collect, 2 = don't collect.

    `why` names the first asking ("Ctrl-C", "SIGTERM", "stop").
    """

    def __init__(self, runtime: Runtime) -> None:
        self.once: Event = runtime.event()
        self.twice: Event = runtime.event()
        self.why = ""

    @property
    def level(self) -> int:
        """0, 1 or 2."""
        return int(self.once.is_set()) + int(self.twice.is_set())

    def raise_to(self, level: int, why: str) -> None:
        """Note that the user asked for the `level`th time."""
        self.why = self.why or why
        if level >= 1:
            self.once.set()
        if level >= 2:
            self.twice.set()


@attrs.frozen(kw_only=True)
class Services:
    """The ledger, the clock, the settings and the reporter of one process."""

    settings: Settings
    ledger: LedgerStore
    runtime: Runtime
    reporter: Reporter
    redact: Callable[[str], str]

    def now_at(self, market: Provider) -> datetime:
        """The time now by the market's own clock: machines' ends are told in it."""
        return self.runtime.now() + market.market_time().ahead

    def pause(self, seconds: float, stop: Event | None = None) -> bool:
        """Wait that long; True at once when `stop` is set."""
        events = [] if stop is None else [stop]
        return self.runtime.wait_any(events, self.runtime.monotonic() + seconds) is not None


def warn_of_clock(services: Services, market: Provider) -> None:
    """Tell the user where the market's clock and this computer's are over a minute apart."""
    ahead = market.market_time().ahead.total_seconds()
    if abs(ahead) > WARN_S:
        side = "behind" if ahead > 0 else "ahead of"
        services.reporter.warn(
            f"this computer's clock is {abs(ahead):.0f} s {side} {market.name}'s: machines end by that one"
        )


class Backoff:
    """Pauses that grow from 50 ms by half each time, up to `most` seconds."""

    def __init__(self, most: float, first: float = 0.05) -> None:
        self._first = first
        self._most = most
        self._next = first

    def next(self) -> float:
        """The next pause in seconds."""
        now, self._next = self._next, min(self._most, self._next * 1.5)
        return now

    def reset(self) -> None:
        """Begin again with the shortest."""
        self._next = self._first
