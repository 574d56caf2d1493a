"""Ctrl-C once: end the job, collect, give back. Twice: don't collect. Three times: leave, and say what
may still cost money. SIGTERM and SIGHUP count like the first, and so does SIGUSR1, by which
`gipper pod stop` asks.

The run works in a task beside the main thread, so a signal never breaks a step in the middle: it only
raises a flag that the steps look at.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, TypeVar

from gipper.cli.render import warn
from gipper.lifecycle.services import Interrupts
from gipper.outcomes import EXIT_INTERRUPTED, EXIT_NOT_GONE
from gipper.runtime import Runtime

T = TypeVar("T")
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
_WORDS: Final = {"SIGINT": "Ctrl-C", "SIGUSR1": "stop"}
_POLL_S: Final = 0.1
_TELL: Final = {
    1: "asked to stop: ending the job, bringing outputs home, giving the machine back (again: don't collect)",
    2: "asked twice: outputs are not brought home; giving the machine back (again: leave at once)",
}


def supervised(
    runtime: Runtime, interrupts: Interrupts, work: Callable[[], T], at_risk: Callable[[], str | None]
) -> T:
    """`work()` in a task of its own, while this thread counts signals.

    At the third one the process ends at once: with 5 and `at_risk()` told where that is a machine, else
    with 130.
    """
    with _counted() as asked:
        task = runtime.spawn("run", work)
        told = 0
        while runtime.wait_any([task.done], runtime.monotonic() + _POLL_S) is None:
            while told < len(asked):
                told += 1
                _raise(interrupts, told, asked[told - 1], at_risk)
        return task.result()


def _raise(interrupts: Interrupts, level: int, name: str, at_risk: Callable[[], str | None]) -> None:
    if level >= 3:
        _leave(at_risk())
    warn(f"gipper: {_TELL[level]}")
    interrupts.raise_to(level, _WORDS.get(name, name))


def _leave(machine: str | None) -> None:
    if machine is not None:
        warn(f"gipper: left at once; {machine}")
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            continue
    os._exit(EXIT_INTERRUPTED if machine is None else EXIT_NOT_GONE)


@contextmanager
def _counted() -> Iterator[list[str]]:
    asked: list[str] = []

    def note(number: int, _frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        # A second SIGTERM or SIGHUP asks for nothing new: only Ctrl-C climbs.
        if name == "SIGINT" or not asked:
            asked.append(name)

    before = {number: signal.signal(number, note) for number in _SIGNALS}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
