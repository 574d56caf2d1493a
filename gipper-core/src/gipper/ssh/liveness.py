"""Is the other end still there? No keep-alive of TCP or paramiko tells in all cases; a question does."""

from __future__ import annotations

from collections.abc import Callable

from gipper.runtime import Event, Runtime

_STEPS = 5


class Watchdog:
    """Asks the server something every `every_s` seconds; calls `dead` once if no byte comes back.

    `ask` blocks until the server answered (True) or the connection is closed (False: nothing is left
    to watch). Any byte counts as life, since
    on a slow line an answer queues behind data. A peer that is silent is noticed at the latest
    `every_s` + `wait_s` * 1.2 seconds after its last byte. Only the watchdog may send such requests:
    paramiko has one slot for the answer.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        ask: Callable[[], bool],
        received: Callable[[], int],
        dead: Callable[[str], None],
        every_s: float,
        wait_s: float,
    ) -> None:
        self._runtime = runtime
        self._ask = ask
        self._received = received
        self._dead = dead
        self._every_s = every_s
        self._wait_s = wait_s
        self._stop: Event = runtime.event()

    def start(self) -> None:
        """Begin to watch, in a task of its own."""
        self._runtime.spawn("ssh-watchdog", self._watch)

    def stop(self) -> None:
        """Watch no longer; doesn't wait."""
        self._stop.set()

    def _watch(self) -> None:
        while not self._pause(self._every_s):
            answer = self._answer()
            if answer is None and not self._stop.is_set():
                self._dead(f"no sign of life for {self._wait_s:g} s")
            if not answer:
                return

    def _pause(self, seconds: float) -> bool:
        return self._runtime.wait_any([self._stop], self._runtime.monotonic() + seconds) is not None

    def _answer(self) -> bool | None:
        # In a task: a writer that is stuck holds the lock that the question needs, too.
        question = self._runtime.spawn("ssh-probe", self._ask)
        seen, since = self._received(), self._runtime.monotonic()
        while True:
            until = self._runtime.monotonic() + self._wait_s / _STEPS
            event = self._runtime.wait_any([question.done, self._stop], until)
            if event is not None:
                return question.result() if event is question.done else None
            if self._received() != seen:
                seen, since = self._received(), self._runtime.monotonic()
            elif self._runtime.monotonic() - since >= self._wait_s:
                return None
