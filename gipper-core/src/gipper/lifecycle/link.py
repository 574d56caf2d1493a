"""A machine's connection that is made again when it breaks, and the verdict when it can't be.

A dead link blames nobody while the provider can't be asked either: the fault may be here. It is the
host's only when the provider says "running" and every address has failed for `limits.host_lost`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gipper.errors import (
    CommandTimeout,
    ConnectFailed,
    ConnectionLost,
    GipperError,
    RemoteError,
    Stopped,
)
from gipper.lifecycle.proof import Rental
from gipper.lifecycle.services import Backoff, Services
from gipper.lifecycle.waiting import Door, Ready
from gipper.remote import Remote
from gipper.runtime import Event
from gipper.values.machines import Machine, MachineState

T = TypeVar("T")
_DIAL_S = 15.0
# A connection that lived shorter broke for a reason that may still be there: the next one is put off.
_STEADY_S = 10.0
_OVER = frozenset({MachineState.GONE, MachineState.STOPPED, MachineState.ERROR})


class HostLost(RemoteError):
    """The machine is lost. `blame` says whether that counts against the host, `final` whether another
    step need not try again: without it, only this step's time was over."""

    def __init__(self, message: str, *, blame: bool, final: bool = True) -> None:
        super().__init__(message)
        self.blame = blame
        self.final = final


class Link:
    """The live connection to one machine."""

    def __init__(self, services: Services, rental: Rental, door: Door, ready: Ready) -> None:
        self.services = services
        self.rental = rental
        self.door = door
        self.machine: Machine = ready.machine
        self.remote: Remote = ready.remote
        self.dead = False
        self.lost: HostLost | None = None
        self._since = services.runtime.monotonic()
        self._put_off = Backoff(most=30.0, first=0.2)

    def call(self, fn: Callable[[Remote], T], *, until: float, stop: Event | None = None) -> T:
        """`fn(remote)`, again on a new connection after each break, until the monotonic time `until`.

        `fn` must bear repetition. Raises HostLost, Stopped once `stop` is set while there is no
        connection, and whatever else `fn` raises.
        """
        while True:
            if self.lost is not None and self.lost.final:
                raise self.lost
            if self.dead:
                self._renew_or_remember(until, stop)
            try:
                return fn(self.remote)
            except (ConnectionLost, CommandTimeout) as error:
                self.services.reporter.step(f"the connection broke ({self.services.redact(error.message)})")
                self._drop()
                if self.services.runtime.monotonic() >= until:
                    raise HostLost(
                        "the time for this step is over and the link is dead", blame=False, final=False
                    ) from error

    def close(self) -> None:
        """Close the connection; it may be used again (it is then made anew)."""
        self._drop()

    def _drop(self) -> None:
        if not self.dead:
            self.dead = True
            self.remote.close()

    def _renew_or_remember(self, until: float, stop: Event | None) -> None:
        try:
            self._renew(until, stop)
        except HostLost as error:
            self.lost = error
            raise

    def _renew(self, until: float, stop: Event | None) -> None:
        backoff = Backoff(most=30.0, first=0.2)
        running_since: float | None = None
        self._hold_back(until, stop)
        while True:
            if stop is not None and stop.is_set():
                raise Stopped("asked to stop while the machine could not be reached")
            told = self._told()
            if told is not None and self._dial(told):
                self.services.reporter.step("connected again")
                return
            now = self.services.runtime.monotonic()
            running = told is not None and told.state is MachineState.RUNNING
            running_since = (running_since or now) if running else None
            if running_since is not None and now - running_since >= self.services.settings.limits.host_lost:
                raise HostLost(f"{self.rental.pod} runs, but none of its addresses answers", blame=True)
            if now >= until:
                raise HostLost(
                    f"{self.rental.pod} could not be reached again in time", blame=False, final=False
                )
            self.services.pause(backoff.next(), stop)

    def _hold_back(self, until: float, stop: Event | None) -> None:
        now = self.services.runtime.monotonic()
        if now - self._since >= _STEADY_S:
            self._put_off.reset()
        else:
            self.services.pause(max(0.0, min(self._put_off.next(), until - now)), stop)

    def _told(self) -> Machine | None:
        """The provider's word, None where it can't be asked. Raises HostLost where that is final."""
        try:
            machine = self.rental.provider.describe(self.rental.pod)
        except GipperError:
            return None
        if machine is None or machine.state in _OVER:
            state = "it does not exist" if machine is None else f"it is {machine.state.value}"
            raise HostLost(f"machine {self.rental.pod} vanished: the market says that {state}", blame=False)
        return machine

    def _dial(self, machine: Machine) -> bool:
        try:
            self.remote = self.door.dialer.dial(self.door.target(self.rental, machine), timeout_s=_DIAL_S)
        except ConnectFailed as error:
            if error.kind == "host_key":
                raise HostLost(f"{self.services.redact(error.message)}", blame=True) from error
            return False
        except RemoteError:
            return False
        self.machine, self.dead = machine, False
        self._since = self.services.runtime.monotonic()
        return True
