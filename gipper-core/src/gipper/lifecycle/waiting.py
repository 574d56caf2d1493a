"""From "rented" to "a shell answers", bounded; and what is wrong when it doesn't come to that."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Final

import attrs

from gipper.errors import (
    BadHost,
    ConnectFailed,
    GipperError,
    NoCapacity,
    RemoteError,
    Stopped,
    Unsuitable,
)
from gipper.lifecycle.proof import Rental, note_twins
from gipper.lifecycle.services import Backoff, Interrupts, Services
from gipper.remote import Dialer, Remote, Target
from gipper.values.bills import Diagnosis
from gipper.values.machines import Machine, MachineState

# Dearer than offered: by more than this share and this much an hour.
_DEARER_SHARE: Final = Decimal("1.02")
_DEARER_USD_H: Final = Decimal("0.01")
_DIAL_S: Final = 15.0
# A promise that is due before a run can be over.
_SHORT_S: Final = 5.0
# How often a machine that doesn't start is asked why: logs are dear to ask for.
_WHY_EVERY_S: Final = 30.0
# How long a session must stay before the machine counts as ready; longer after each one that broke.
_HOLD_S: Final = 0.2
_HOLD_GROWS: Final = 4.0
_HOLD_MOST_S: Final = 20.0


@attrs.frozen(kw_only=True)
class Door:
    """How to get into machines: the dialer, the key pair and this run's known hosts."""

    dialer: Dialer
    key_file: Path
    public_key: str
    pins: Path

    def target(self, rental: Rental, machine: Machine) -> Target:
        """Whom to dial for `machine`."""
        return Target(
            machine_id=machine.id,
            addresses=machine.addresses,
            user=machine.user or rental.provider.info.ssh_user,
            key_file=self.key_file,
            pins=self.pins,
            host_key=machine.host_key,
        )


@attrs.frozen(kw_only=True)
class Ready:
    """A machine that answers."""

    remote: Remote
    machine: Machine
    seconds: float


def dearer(offered: Decimal, told: Decimal | None) -> bool:
    """True where the market now says more than was offered; nothing and 0 mean "not said"."""
    return (
        bool(told) and told is not None and told > offered * _DEARER_SHARE and told - offered > _DEARER_USD_H
    )


def wait_ready(
    services: Services, rental: Rental, offered: Decimal, door: Door, limit_s: float, interrupts: Interrupts
) -> Ready:
    """Wait until SSH answers and its session stays, `limit_s` seconds at most.

    Raises BadHost (broken or never up), Unsuitable (image or account at fault), NoCapacity (stopped, or
    dearer than offered), Stopped. The machine is the caller's to end.
    """
    return _Waiting(services, rental, offered, door, limit_s, interrupts).run()


class _Waiting:
    def __init__(
        self, services: Services, rental: Rental, offered: Decimal, door: Door, limit_s: float,
        interrupts: Interrupts,
    ) -> None:  # fmt: skip
        self.services = services
        self.rental = rental
        self.offered = offered
        self.door = door
        self.limit_s = limit_s
        self.interrupts = interrupts
        self.begun = services.runtime.monotonic()
        self.seen = False
        self.authorized: set[str] = set()
        self.last = "the market has not shown it yet"
        self.broken = 0
        self.asked_why_s = 0.0
        self.cause: Diagnosis | None = None

    def run(self) -> Ready:
        backoff = Backoff(most=5.0)
        while True:
            if self.interrupts.level:
                raise Stopped(f"asked to stop while {self.rental.pod} was starting")
            machine = self._describe()
            if machine is not None:
                self._judge(machine)
                self._ask_why(machine)
                remote = self._dial(machine)
                if remote is not None:
                    self._see_in_list()
                    return Ready(remote=remote, machine=machine, seconds=self._waited())
            if self._waited() >= self.limit_s:
                raise self._diagnosed(f"not ready after {self.limit_s:.0f} s (ready limit): {self.last}")
            self.services.pause(backoff.next(), self.interrupts.once)

    def _see_in_list(self) -> None:
        """Once a listing has shown the machine, its absence from later ones proves something at once;
        else a teardown must wait until the market's promise to show it is due."""
        promised = self.rental.provider.info.appear_s
        if self.rental.listed or (promised is not None and promised <= _SHORT_S):
            return
        try:
            listing = self.rental.provider.list_ours()
        except GipperError:
            return
        note_twins(self.services, self.rental, listing)
        self.rental.listed = any(m.id == self.rental.pod for m in listing)

    def _waited(self) -> float:
        return self.services.runtime.monotonic() - self.begun

    def _describe(self) -> Machine | None:
        try:
            machine = self.rental.provider.describe(self.rental.pod)
        except GipperError as error:
            self.last = self.services.redact(error.message)
            return None
        if machine is None and self.seen:
            raise BadHost(f"machine {self.rental.pod} vanished while it was starting")
        if machine is not None and not self.seen:
            self.seen = True
            self._see_in_list()
        return machine

    def _judge(self, machine: Machine) -> None:
        if dearer(self.offered, machine.usd_h):
            raise NoCapacity(
                f"{machine.id} costs ${machine.usd_h}/h, offered were ${self.offered}/h: it is given back"
            )
        if machine.state is MachineState.GONE:
            raise BadHost(f"machine {machine.id} ended while it was starting")
        if machine.state is MachineState.STOPPED:
            raise NoCapacity(f"{machine.id} was created but stopped: its GPU was taken")
        if machine.state is MachineState.ERROR:
            raise self._diagnosed(f"the market reports an error: {machine.fault or 'no text'}")
        self._authorize("first describe", machine)

    def _ask_why(self, machine: Machine) -> None:
        """A cause that the market's own log names twice in a row won't go away by waiting."""
        if machine.state not in (MachineState.PENDING, MachineState.STARTING):
            return
        if self._waited() - self.asked_why_s < _WHY_EVERY_S:
            return
        self.asked_why_s = self._waited()
        found, before = self._cause(), self.cause
        self.cause = found
        if found is not None and found == before and found.fault in ("host", "image", "account"):
            raise self._blamed(f"{self.rental.pod} can't start", found)

    def _authorize(self, when: str, machine: Machine) -> None:
        if when in self.authorized:
            return
        self.authorized.add(when)
        try:
            self.rental.provider.authorize(machine, self.door.public_key)
        except GipperError as error:
            self.last = f"the key could not be given to the machine: {self.services.redact(error.message)}"

    def _dial(self, machine: Machine) -> Remote | None:
        if not machine.addresses or machine.state in (MachineState.PENDING, MachineState.STOPPING):
            self.last = f"state {machine.state.value}, no address to log in at"
            return None
        if machine.state is MachineState.RUNNING:
            self._authorize("running", machine)
        try:
            remote = self.door.dialer.dial(
                self.door.target(self.rental, machine), timeout_s=_DIAL_S, stop=self.interrupts.once
            )
        except ConnectFailed as error:
            self._refused(error, machine)
            return None
        except RemoteError as error:
            self.last = self.services.redact(error.message)
            return None
        return self._held(remote)

    def _held(self, remote: Remote) -> Remote | None:
        """`remote`, if it still answers after a while: a machine that restarts in a loop lets us in, too."""
        hold_s = min(_HOLD_MOST_S, _HOLD_S * _HOLD_GROWS**self.broken)
        left_s = max(_HOLD_S, self.limit_s - self._waited())
        try:
            remote.ask("true", timeout_s=_DIAL_S)
            asked = self.services.pause(min(hold_s, left_s), self.interrupts.once)
            remote.ask("true", timeout_s=_DIAL_S)
        except RemoteError as error:
            self.broken += 1
            told = self.services.redact(error.message)
            self.last = f"it lets us in, but no session stays ({self.broken} broke, the last one: {told})"
        else:
            if hold_s <= left_s and not asked:
                return remote
        remote.close()
        return None

    def _refused(self, error: ConnectFailed, machine: Machine) -> None:
        if error.kind == "host_key":
            raise BadHost(self.services.redact(error.message)) from error
        if error.kind == "auth":
            self._authorize("denied", machine)
        self.last = ("key refused: " if error.kind == "auth" else "") + self.services.redact(error.message)

    def _diagnosed(self, text: str) -> GipperError:
        found = self._cause()
        return BadHost(text) if found is None else self._blamed(text, found)

    def _cause(self) -> Diagnosis | None:
        try:
            return self.rental.provider.diagnose(self.rental.pod)
        except GipperError:
            return None

    def _blamed(self, text: str, found: Diagnosis) -> GipperError:
        told = f"{text} ({self.services.redact(found.text)})"
        return Unsuitable(told) if found.fault in ("image", "account") else BadHost(told)
