"""`SimRuntime`: virtual time and exactly one running task, the same order every time.

Real threads pass one baton. A task gives the baton up only in `sleep`, `wait_any`, `result` or by
ending; the scheduler then wakes the earliest of (time, order). When every task waits for something
that can't come, `Deadlock` is raised in the task that runs the simulation.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar

from gipper.runtime import Event

T = TypeVar("T")
_START = datetime(2026, 1, 1, tzinfo=UTC)


class Deadlock(RuntimeError):
    """Nothing can ever happen again."""


class _SimEvent:
    def __init__(self, runtime: SimRuntime) -> None:
        self._runtime = runtime
        self._flag = False

    def set(self) -> None:
        self._flag = True
        self._runtime.recheck()

    def is_set(self) -> bool:
        return self._flag


class _Waiter:
    """One parked thread: what it waits for, until when, and the lock that it sleeps on."""

    def __init__(self, events: Sequence[Event], deadline: float | None, order: int) -> None:
        self.events = events
        self.deadline = deadline
        self.order = order
        self.ready_at: float | None = None
        self.baton = threading.Semaphore(0)

    def due(self, now: float) -> float | None:
        """When this waiter can go on at the earliest; None = not by itself."""
        if any(e.is_set() for e in self.events):
            return now
        return self.deadline


class _SimTask(Generic[T]):
    def __init__(self, runtime: SimRuntime, fn: Callable[[], T]) -> None:
        self.done: Event = runtime.event()
        self.cancelled: Event = runtime.event()
        self._runtime = runtime
        self._fn = fn
        self._value: list[T] = []
        self._error: BaseException | None = None

    def body(self) -> None:
        try:
            self._value.append(self._fn())
        except BaseException as error:  # noqa: BLE001 - handed to whoever asks for the result
            self._error = error
        self.done.set()

    def cancel(self) -> None:
        self.cancelled.set()

    def result(self) -> T:
        self._runtime.wait_any([self.done])
        if self._error is not None:
            raise self._error
        return self._value[0]


class SimRuntime:
    """A `Runtime` in virtual time, begun at `start`."""

    def __init__(self, start: datetime = _START) -> None:
        self._start = start
        self._now = 0.0
        self._order = 0
        self._parked: list[_Waiter] = []
        self._stuck = False

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._now)

    def monotonic(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._park([], self._now + max(0.0, seconds))

    def event(self) -> Event:
        return _SimEvent(self)

    def spawn(self, name: str, fn: Callable[[], T]) -> _SimTask[T]:
        task = _SimTask(self, fn)
        waiter = self._waiter([], self._now)
        self._parked.append(waiter)
        threading.Thread(target=self._thread, args=(task, waiter), name=name, daemon=True).start()
        return task

    def wait_any(self, events: Sequence[Event], deadline: float | None = None) -> Event | None:
        first = next((e for e in events if e.is_set()), None)
        if first is not None:
            return first
        if deadline is not None and deadline <= self._now:
            return None
        self._park(events, deadline)
        return next((e for e in events if e.is_set()), None)

    def recheck(self) -> None:
        """An event was set: its waiters become due when the baton is next passed on."""

    def _waiter(self, events: Sequence[Event], deadline: float | None) -> _Waiter:
        self._order += 1
        return _Waiter(events, deadline, self._order)

    def _park(self, events: Sequence[Event], deadline: float | None) -> None:
        waiter = self._waiter(events, deadline)
        self._parked.append(waiter)
        self._pass_on()
        waiter.baton.acquire()
        if self._stuck:
            raise Deadlock("every task waits for something that can't come")

    def _pass_on(self) -> None:
        heap = [
            (due, w.order, i) for i, w in enumerate(self._parked) if (due := w.due(self._now)) is not None
        ]
        if not heap:
            self._stuck = True
            parked, self._parked = self._parked, []
            for waiter in parked:
                waiter.baton.release()
            return
        due, _, index = heapq.nsmallest(1, heap)[0]
        self._now = max(self._now, due)
        self._parked.pop(index).baton.release()

    def _thread(self, task: _SimTask[T], waiter: _Waiter) -> None:
        waiter.baton.acquire()
        if not self._stuck:
            task.body()
            self._pass_on()
