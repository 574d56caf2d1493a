"""The only clock, sleep and threads of gipper: everything else is handed a `Runtime`.

The product uses `RealRuntime` (daemon threads). A simulation may give another one in which exactly
one task runs at a time and time is virtual.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Event(Protocol):
    """A flag that is raised once and never lowered."""

    def set(self) -> None:
        """Raise the flag and wake everyone who waits for it."""

    def is_set(self) -> bool:
        """True once raised."""


class Task(Protocol[T_co]):
    """Something that runs beside the caller."""

    @property
    def done(self) -> Event:
        """Set when the task has ended, whichever way."""

    @property
    def cancelled(self) -> Event:
        """Set by `cancel`; the task looks at it when it likes."""

    def cancel(self) -> None:
        """Ask the task to end soon (cooperative)."""

    def result(self) -> T_co:
        """Wait for the end; its value, or its exception raised again."""


class Runtime(Protocol):
    """Time and tasks. All durations are seconds."""

    def now(self) -> datetime:
        """This host's wall clock, aware UTC."""

    def monotonic(self) -> float:
        """Seconds that never jump; only differences mean anything."""

    def sleep(self, seconds: float) -> None:
        """Do nothing for that long."""

    def event(self) -> Event:
        """A new, lowered flag."""

    def spawn(self, name: str, fn: Callable[[], T]) -> Task[T]:
        """Run `fn` beside the caller."""

    def wait_any(self, events: Sequence[Event], deadline: float | None = None) -> Event | None:
        """The first of `events` (in argument order) that is set; None at `deadline` (monotonic)."""


class _RealEvent:
    def __init__(self, cond: threading.Condition) -> None:
        self._cond = cond
        self._flag = False

    def set(self) -> None:
        with self._cond:
            self._flag = True
            self._cond.notify_all()

    def is_set(self) -> bool:
        return self._flag


class _RealTask(Generic[T]):
    def __init__(self, runtime: RealRuntime, name: str, fn: Callable[[], T]) -> None:
        self.done: Event = runtime.event()
        self.cancelled: Event = runtime.event()
        self._runtime = runtime
        self._value: list[T] = []
        self._error: BaseException | None = None
        self._fn = fn
        threading.Thread(target=self._main, name=name, daemon=True).start()

    def _main(self) -> None:
        try:
            self._value.append(self._fn())
        except BaseException as error:  # noqa: BLE001 - handed to whoever asks for the result
            self._error = error
        finally:
            self.done.set()

    def cancel(self) -> None:
        self.cancelled.set()

    def result(self) -> T:
        self._runtime.wait_any([self.done])
        if self._error is not None:
            raise self._error
        return self._value[0]


class RealRuntime:
    """The machine's own clock and daemon threads."""

    def __init__(self) -> None:
        self._cond = threading.Condition()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))

    def event(self) -> Event:
        return _RealEvent(self._cond)

    def spawn(self, name: str, fn: Callable[[], T]) -> Task[T]:
        return _RealTask(self, name, fn)

    def wait_any(self, events: Sequence[Event], deadline: float | None = None) -> Event | None:
        with self._cond:
            while True:
                for event in events:
                    if event.is_set():
                        return event
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return None
                self._cond.wait(left)
