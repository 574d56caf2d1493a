"""The provider's hooks."""

from __future__ import annotations

import re
from typing import Final

from gipper.api import (
    CheckResult,
    Listing,
    Machine,
    Offer,
    OfferGone,
    OfferQuery,
    ProviderContext,
    ProviderError,
    ProviderInfo,
    Remote,
    RentRequest,
    Watchdog,
    hookimpl,
)
from gipper_ssh import offers, scripts
from gipper_ssh.answers import Held, facts, held
from gipper_ssh.boxes import LOOK_S, Boxes, Silent
from gipper_ssh.info import info
from gipper_ssh.inventory import HINT, Box
from gipper_ssh.leasing import Leasing
from gipper_ssh.offers import Seen

_LEAST_S: Final = 1.0
_VISIBLE: Final = "sed -n 's/^visible=//p' \"$HOME/.gipper-ssh/lease\""
_NO_INVENTORY: Final = f"ssh: no inventory of boxes: {HINT}"


class SshProvider:
    """Boxes of one's own. A machine is a lease on a box; its end leaves the box as it was."""

    def __init__(self, context: ProviderContext) -> None:
        self._context = context
        self._boxes = Boxes(context)

    @staticmethod
    @hookimpl
    def gipper_provider() -> ProviderInfo:
        """See the hook of the same name, as for all methods here."""
        return info()

    @hookimpl
    def gipper_list_offers(self, query: OfferQuery) -> Listing[Offer]:
        boxes = self._boxes.inventory()
        if boxes is None:
            return Listing(items=(), notes=(_NO_INVENTORY,))
        left = query.deadline - self._context.runtime.monotonic()
        looked = self._boxes.each(
            boxes, lambda box: self._look(box, max(_LEAST_S, min(LOOK_S, left / 2 - 1)))
        )
        told = [
            (box, seen.why if isinstance(seen, Silent) else offers.offer(box, seen, query))
            for box, seen in looked
        ]
        notes = ["ssh: pod.image is not used, a job runs on the box as it is"] if query.image else []
        notes += [f"ssh: box {box.name} left out: {why}" for box, why in told if isinstance(why, str)]
        return Listing(items=tuple(o for _, o in told if isinstance(o, Offer)), notes=tuple(notes))

    @hookimpl
    def gipper_rent(self, offer: Offer, request: RentRequest) -> Machine:
        box = next((box for box in self._boxes.inventory() or () if box.name == offer.id), None)
        if box is None:
            raise OfferGone(f"ssh: box {offer.id} isn't in the inventory any more")
        return self._leasing().take(box, offer, request)

    @hookimpl
    def gipper_describe(self, machine_id: str) -> Machine | None:
        return self._leasing().describe(machine_id)

    @hookimpl
    def gipper_list_ours(self) -> Listing[Machine]:
        leasing = self._leasing()
        # Noted before the boxes are asked: whoever is asked for later isn't in this listing anyway.
        owing = leasing.marks.boxes()
        boxes = self._boxes.inventory()
        if boxes is None and not owing:
            return Listing(items=(), notes=(_NO_INVENTORY,))
        read = self._boxes.each(boxes or (), leasing.read)
        silent = {box.name: found.why for box, found in read if isinstance(found, Silent)}
        known = {box.name for box, _ in read}
        silent |= dict.fromkeys(owing - known, "it isn't in the inventory")
        _refuse_if_owed({name: why for name, why in silent.items() if name in owing})
        found = [(box, lease) for box, lease in read if isinstance(lease, Held)]
        items = tuple(leasing.machine(box, lease) for box, lease in _once(found))
        notes = tuple(f"ssh: box {name} was not asked: {why}" for name, why in silent.items())
        return Listing(items=items, notes=notes)

    @hookimpl
    def gipper_terminate(self, machine_id: str) -> None:
        self._leasing().end(machine_id)

    @hookimpl
    def gipper_watchdog(self, machine: Machine) -> Watchdog | None:
        if not scripts.is_name(machine.name):
            return None
        return Watchdog(command=scripts.end_from_inside(machine.name))

    @hookimpl
    def gipper_preflight(self, remote: Remote) -> CheckResult:
        """The GPUs that were offered, where the box has more."""
        visible = remote.ask(_VISIBLE, timeout_s=30.0).text.strip()
        if not re.fullmatch(r"[0-9]{1,3}(,[0-9]{1,3})*", visible):
            return CheckResult()
        env = {"CUDA_VISIBLE_DEVICES": visible, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        return CheckResult(facts={"visible": visible}, env=env)

    def _look(self, box: Box, limit_s: float) -> Seen:
        answer = self._boxes.ask(box, lambda _: scripts.look(facts=True), hello_s=limit_s, answer_s=limit_s)
        return Seen(held=held(answer), facts=facts(answer))

    def _leasing(self) -> Leasing:
        return Leasing(self._context, self._boxes)


def _refuse_if_owed(silent: dict[str, str]) -> None:
    """A box that may hold a lease of ours and says nothing makes a listing incomplete."""
    if silent:
        told = "; ".join(f"{name}: {why}" for name, why in sorted(silent.items()))
        raise ProviderError(
            f"ssh: boxes that may still be leased by this installation can't be asked ({told})",
            hint="bring them back, or put them back into the inventory; `gipper pod reap` then frees them",
        )


def _once(found: list[tuple[Box, Held]]) -> list[tuple[Box, Held]]:
    """Each lease once, where two entries of the inventory turn out to be one box: by its renter's name."""
    best: dict[str, tuple[Box, Held]] = {}
    for box, lease in found:
        key = lease.token or f"{box.name}.{lease.name}"
        if key not in best or lease.box == box.name:
            best[key] = (box, lease)
    return list(best.values())
