"""Ending a machine, and proving that it is gone. Nothing here believes a terminate answer.

Gone = the provider's describe says so, and two complete listings at least `settle_s` apart, the first
begun after the last terminate call ended, don't have it. A machine that no listing ever showed is not
proved absent before `appear_s` after its creation. A failed listing proves nothing.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

import attrs

from gipper.errors import GipperError
from gipper.lifecycle.services import Backoff, Services
from gipper.plugins.handle import Provider
from gipper.values.machines import Machine, MachineState
from gipper.values.offers import Listing
from gipper.values.receipts import (
    Payload,
    PodCreate,
    PodTerminate,
    PodTerminated,
    PodTerminationPending,
)

# How long a machine may stay out of the lists where the provider promises nothing.
UNPROMISED_APPEAR_S: Final = 600.0
_ACCEPTED: Final = "accepted"


@attrs.define(kw_only=True)
class Rental:
    """A machine that was rented. `since` is its creation, or the intent where that isn't known.

    `listed` says whether any listing has ever shown it; `twins` are further machines of its name.
    """

    provider: Provider
    run: str
    name: str
    pod: str
    usd_h: Decimal
    since: datetime
    gpu: str | None = None
    job: str = ""
    listed: bool = False
    twins: list[str] = attrs.field(factory=list)

    @property
    def ids(self) -> tuple[str, ...]:
        """All machines of this name."""
        return (self.pod, *self.twins)

    @property
    def refs(self) -> dict[str, str]:
        """What each receipt of this machine refers to: the job by its name."""
        return {"name": self.job} if self.job else {}

    def appear_by(self) -> datetime:
        """When a machine that exists must be in the lists at the latest."""
        promised = self.provider.info.appear_s
        return self.since + timedelta(seconds=UNPROMISED_APPEAR_S if promised is None else promised)


@attrs.frozen(kw_only=True)
class Proof:
    """A machine is gone: the last terminate call's end, and what was seen after it."""

    asked: datetime
    described: datetime
    listings: tuple[datetime, datetime]


def end_machine(services: Services, rental: Rental, why: str, blame: str | None = None) -> Proof | None:
    """Terminate and prove; None = not proved within the provider's patience (receipts say so).

    `blame` is recorded for the history of hosts, see `PodTerminate`.

    Never raises for the provider's or the ledger's sake, and can't be interrupted.
    """
    return _Ending(services, rental, why, blame).run()


def note_twins(services: Services, rental: Rental, listing: Listing[Machine]) -> None:
    """Take machines of this rental's name that aren't known yet into `rental.twins`, with a receipt."""
    for machine in listing:
        if machine.name == rental.name and machine.id not in rental.ids:
            rental.twins.append(machine.id)
            services.reporter.warn(f"{machine.provider} made a second machine {machine.id}: it is ended too")
            _write(services, rental, PodCreate(
                provider=rental.provider.name, pod=machine.id, name=rental.name,
                usd_h=machine.usd_h or rental.usd_h, adopted=True,
            ))  # fmt: skip


class _Ending:
    def __init__(self, services: Services, rental: Rental, why: str, blame: str | None) -> None:
        self.services = services
        self.rental = rental
        self.why = why
        self.blame = blame
        self.asked = services.runtime.now()
        self.told: dict[str, str] = {}
        # Accepted, and missing from every complete listing since: asked no more. A market that limits how
        # often it may be asked would be asked for nothing, and the machine's cost counted too long.
        self.absent: set[str] = set()
        self.last = "never answered"

    def run(self) -> Proof | None:
        give_up = self._deadline()
        backoff = Backoff(most=15.0)
        while True:
            self._ask()
            proof = self._look()
            if proof is not None:
                self._write_proof(proof)
                return proof
            if self.services.runtime.monotonic() >= give_up:
                self._write_pending()
                return None
            self.services.pause(backoff.next())

    def _deadline(self) -> float:
        info = self.rental.provider.info
        patience = max(info.gone_patience_s, self.services.settings.limits.gone_patience)
        unseen = (self.rental.appear_by() - self.asked).total_seconds() + info.settle_s + 1
        least = 0.0 if self.rental.listed else min(unseen, UNPROMISED_APPEAR_S + info.settle_s + 1)
        return self.services.runtime.monotonic() + max(patience, least)

    def _ask(self) -> None:
        for pod in [pod for pod in self.rental.ids if pod not in self.absent]:
            answered: datetime | None = None
            try:
                self.rental.provider.terminate(pod)
                answer, answered = _ACCEPTED, self.services.runtime.now()
            except GipperError as error:
                answer = self.services.redact(error.message)
            self.asked = self.services.runtime.now()
            if self.told.get(pod) != answer:
                self.told[pod] = answer
                self._write(PodTerminate(
                    provider=self.rental.provider.name, pod=pod, name=self.rental.name, why=self.why,
                    answer=answer, answered=answered, blame=self.blame,
                ))  # fmt: skip

    def _look(self) -> Proof | None:
        first = self._absent()
        if first is None or (not self.rental.listed and first < self.rental.appear_by()):
            return None
        described = self._described_gone()
        if described is None:
            return None
        self.services.pause(self.rental.provider.info.settle_s)
        second = self._absent()
        if second is None:
            return None
        return Proof(asked=self.asked, described=described, listings=(first, second))

    def _absent(self) -> datetime | None:
        begun = self.services.runtime.now()
        try:
            listing = self.rental.provider.list_ours()
        except GipperError as error:
            self.last = f"the list could not be read: {self.services.redact(error.message)}"
            self.absent.clear()
            return None
        known = len(self.rental.ids)
        note_twins(self.services, self.rental, listing)
        seen = [m for m in listing if m.id in self.rental.ids and m.state is not MachineState.GONE]
        if seen:
            self.rental.listed = True
            self.last = f"still listed as {seen[0].state.value}"
        shown = {machine.id for machine in seen}
        self.absent = {p for p in self.rental.ids if p not in shown and self.told.get(p) == _ACCEPTED}
        return None if seen or len(self.rental.ids) > known else begun

    def _described_gone(self) -> datetime | None:
        for pod in self.rental.ids:
            try:
                machine = self.rental.provider.describe(pod)
            except GipperError as error:
                self.last = f"it could not be described: {self.services.redact(error.message)}"
                return None
            if machine is not None and machine.state is not MachineState.GONE:
                self.absent.discard(pod)
                self.last = f"still described as {machine.state.value}"
                return None
        return self.services.runtime.now()

    def _write_proof(self, proof: Proof) -> None:
        for pod in self.rental.ids:
            self._write(PodTerminated(
                provider=self.rental.provider.name, pod=pod, name=self.rental.name,
                described=proof.described, listings=proof.listings, leftovers=self._leftovers(pod),
            ))  # fmt: skip

    def _leftovers(self, pod: str) -> tuple[str, ...]:
        try:
            left = tuple(f"{item.id}: {item.text}" for item in self.rental.provider.leftovers(pod))
        except GipperError as error:
            return (f"unknown: {self.services.redact(error.message)}",)
        for item in left:
            self.services.reporter.warn(f"still there after {pod} is gone, and may bill: {item}")
        return left

    def _write_pending(self) -> None:
        for pod in self.rental.ids:
            self._write(PodTerminationPending(
                provider=self.rental.provider.name, pod=pod, name=self.rental.name, last=self.last
            ))  # fmt: skip

    def _write(self, payload: Payload) -> None:
        _write(self.services, self.rental, payload)


def _write(services: Services, rental: Rental, payload: Payload) -> None:
    services.ledger.append_or_spill(payload, run=rental.run, refs=rental.refs)
