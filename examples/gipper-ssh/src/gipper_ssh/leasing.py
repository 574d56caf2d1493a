"""Taking, reading and ending leases: what the provider's hooks are made of."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import attrs

from gipper.api import (
    Address,
    Doubtful,
    Machine,
    MachineState,
    NoCapacity,
    Offer,
    OfferGone,
    ProviderContext,
    ProviderError,
    Refused,
    RentRequest,
)
from gipper_ssh import scripts
from gipper_ssh.answers import Held, held
from gipper_ssh.boxes import Boxes
from gipper_ssh.info import PROVIDER
from gipper_ssh.inventory import Box
from gipper_ssh.marks import Marks
from gipper_ssh.rules import is_key
from gipper_ssh.scripts import ACT_S
from gipper_ssh.talk import Answer, Lost, NotReached

_RENT_S: Final = ACT_S + 15.0
# Killing and removing all that a job left.
_END_S: Final = 120.0


class Leasing:
    """Leases on boxes; the box is asked each time."""

    def __init__(self, context: ProviderContext, boxes: Boxes) -> None:
        self._runtime = context.runtime
        self._boxes = boxes
        self.marks = Marks(context.data_folder)

    def take(self, box: Box, offer: Offer, request: RentRequest) -> Machine:
        """Take the box for `request`. Raises the errors of a rent."""
        lease = _lease(box, offer, request, self._runtime.now())
        machine_id = f"{box.name}.{request.name}"
        try:
            with self.marks.asking(machine_id) as fd:
                answer = self._ask_for(box, lease, fd)
        except OSError as error:
            raise Refused(
                f"ssh: what is leased can't be noted: {error}",
                kind="account",
                hint="look for a full disk, or a data folder that can't be written",
            ) from error
        except (NoCapacity, Refused):
            self.marks.forget(machine_id)
            raise
        return self._taken(box, request, answer, machine_id)

    def read(self, box: Box) -> Held | None:
        """The lease that the box has now, whoever holds it. Raises NotReached, Lost, ProviderError."""
        with self.marks.judging(box.name) as quiet:
            found = held(self._boxes.ask(box, lambda _: scripts.look(facts=False)))
            for machine_id in quiet:
                if found is None or machine_id != f"{box.name}.{found.name}":
                    self.marks.forget(machine_id)
        return found

    def describe(self, machine_id: str) -> Machine | None:
        """The machine, None where its box says that there is no such lease. Raises ProviderError."""
        box, name = self._parts(machine_id)
        try:
            found = self.read(box)
        except (NotReached, Lost) as fault:
            raise _unheard(box, fault) from fault
        return self.machine(box, found) if found is not None and found.name == name else None

    def end(self, machine_id: str) -> None:
        """End the lease and all that belongs to it. Raises ProviderError where that isn't done."""
        box, name = self._parts(machine_id)
        try:
            answer = self._boxes.ask(box, lambda _: scripts.end(name), answer_s=_END_S)
        except (NotReached, Lost) as fault:
            raise _unheard(box, fault) from fault
        if answer.first("ended") is None:
            why = answer.first("fault") or "its answer makes no sense"
            raise ProviderError(f"ssh: box {box.name} isn't cleaned: {why}")

    def machine(self, box: Box, found: Held) -> Machine:
        """A lease as a machine. One whose time is over is still there until somebody cleans up after it."""
        return Machine(
            provider=PROVIDER,
            id=f"{box.name}.{found.name}",
            name=found.name,
            state=MachineState.RUNNING,
            addresses=(Address(host=box.address, port=box.port),),
            ports=tuple(attrs.evolve(p, host=box.address, outside=p.inside) for p in found.ports),
            usd_h=box.usd_h if found.usd_h is None else found.usd_h,
            created=found.created,
            user=box.user,
            host_id=box.name,
            host_key=self._boxes.host_key(box),
        )

    def _ask_for(self, box: Box, lease: scripts.Lease, fd: int) -> Answer:
        sent = 0.0

        def script(uptime: float) -> str:
            nonlocal sent
            sent = self._runtime.monotonic()
            return scripts.rent(lease, uptime)

        try:
            return self._boxes.ask(box, script, answer_s=_RENT_S, keep=(fd,))
        except NotReached as fault:
            raise NoCapacity(f"ssh: box {box.name} can't be reached now: {fault}") from fault
        except Lost as fault:
            # By then the box takes it no more, so that its word on its lease is final.
            self._runtime.sleep(sent + ACT_S + 2 - self._runtime.monotonic())
            raise Doubtful(f"ssh: box {box.name} was asked for {lease.name}, and then: {fault}") from fault

    def _taken(self, box: Box, request: RentRequest, answer: Answer, machine_id: str) -> Machine:
        if answer.first("leased") is not None:
            found = held(answer)
            if found is not None and found.name == request.name:
                return self.machine(box, found)
        gone, refused = answer.first("gone"), answer.first("refused")
        if gone is None and refused is None:
            why = answer.first("fault") or "its answer makes no sense"
            raise Doubtful(f"ssh: box {box.name} was asked for {request.name}, and says: {why}")
        self.marks.forget(machine_id)
        if gone is not None:
            raise OfferGone(f"ssh: box {box.name} is not to be had: {gone}")
        raise Refused(f"ssh: box {box.name} can't be leased: {refused}", kind="offer")

    def _parts(self, machine_id: str) -> tuple[Box, str]:
        box, _, name = machine_id.partition(".")
        if not scripts.is_name(name):
            raise ProviderError(f"ssh: {machine_id!r} is no machine's id", hint="ids are BOX.NAME")
        return self._boxes.find(box), name


def _unheard(box: Box, fault: Exception) -> ProviderError:
    return ProviderError(
        f"ssh: box {box.name} ({box.address}) can't be asked: {fault}",
        hint=f"see that the box is up and lets you in: ssh -p {box.port} {box.address}",
    )


def _lease(box: Box, offer: Offer, request: RentRequest, created: datetime) -> scripts.Lease:
    parts = request.public_key.split()
    if len(parts) < 2 or not is_key(parts[0], parts[1]):
        raise Refused("ssh: the request's public key is not an OpenSSH public key", kind="request")
    if not scripts.is_name(request.name):
        raise Refused(f"ssh: no lease can be called {request.name!r}", kind="request")
    return scripts.Lease(
        name=request.name,
        box=box.name,
        token=secrets.token_hex(8),
        life_s=request.boot_watchdog_s,
        # The comment makes the line this lease's own: a key that was there before stays.
        key=f"{parts[0]} {parts[1]} {request.name}",
        created=created.isoformat(),
        usd_h=str(offer.usd_h),
        ports=",".join(f"{port.protocol}:{port.inside}" for port in request.ports),
        visible=_visible(offer.raw),
    )


def _visible(raw: Mapping[str, Any]) -> str:
    text = raw.get("visible")
    return text if isinstance(text, str) else ""
