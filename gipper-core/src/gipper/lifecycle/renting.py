"""From an offer to a machine whose id is known, or to the certainty that there is none.

Write-ahead: `pod.intent` is durable before the market is asked, and the name in it is the machine's.
Whatever the market answers, the name finds the machine again.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

import attrs

from gipper.errors import Doubtful, GipperError, NotProvedGone, RentError
from gipper.lifecycle.caps import intend
from gipper.lifecycle.proof import UNPROMISED_APPEAR_S, Rental, end_machine, note_twins
from gipper.lifecycle.services import Backoff, Interrupts, Services
from gipper.lifecycle.spending import record_spend
from gipper.naming import MachineName
from gipper.plugins.handle import Provider
from gipper.plugins.handle_rent import DoubtfulRent
from gipper.values.machines import Machine, RentRequest
from gipper.values.offers import Offer
from gipper.values.receipts import (
    Payload,
    PodCreate,
    PodCreateDoubtful,
    PodCreateFailed,
    PodIntent,
)


@attrs.frozen(kw_only=True)
class Renting:
    """One try: whose run, which offer, and the request that core computed for it."""

    provider: Provider
    run: str
    job: str
    attempt: int
    offer: Offer
    request: RentRequest
    reserved: Decimal

    def intent(self) -> PodIntent:
        """The receipt that is written before the market is asked."""
        gpu = self.offer.gpu
        return PodIntent(
            provider=self.provider.name, offer=self.offer.id, name=self.request.name, attempt=self.attempt,
            end=self.request.end, usd_h=self.offer.usd_h, reserved_usd=self.reserved,
            gpu=gpu.name if gpu else None, gpu_count=self.offer.gpu_count, host_id=self.offer.host_id,
            region=self.offer.region, appear_s=self.provider.info.appear_s,
        )  # fmt: skip


def rent(services: Services, renting: Renting, interrupts: Interrupts) -> Rental:
    """Rent one machine.

    Raises CapRefused (nothing asked), OfferGone, NoCapacity or Refused (nothing created), DearerThanOffered
    (ended and proved gone), NotProvedGone (nobody knows whether a machine exists, or one is left), and
    Doubtful where none was found and the provider's promise says that none will come.
    """
    intended = intend(services, renting.intent(), run=renting.run, job=renting.job).ts
    try:
        machine = renting.provider.rent(renting.offer, renting.request)
    except Doubtful as doubt:
        return _resolve(services, renting, interrupts, doubt, intended)
    except GipperError as error:
        # One of the market's clear words, or a plugin that could not even be asked: nothing was created.
        _write(services, renting, PodCreateFailed(
            provider=renting.provider.name, name=renting.request.name, error=type(error).__name__,
            text=services.redact(error.message),
        ))  # fmt: skip
        raise
    return _created(services, renting, machine, intended, adopted=False)


def _created(
    services: Services, renting: Renting, machine: Machine, intended: datetime, *, adopted: bool
) -> Rental:
    usd_h = machine.usd_h if machine.usd_h else renting.offer.usd_h
    rental = Rental(
        provider=renting.provider, run=renting.run, name=renting.request.name, pod=machine.id,
        usd_h=max(usd_h, renting.offer.usd_h), since=services.runtime.now() if not adopted else intended,
        gpu=renting.offer.gpu.name if renting.offer.gpu else None, job=renting.job, listed=adopted,
    )  # fmt: skip
    # The machine exists: from here on a full disk must not keep us from supervising and ending it.
    services.ledger.append_or_spill(
        PodCreate(
            provider=renting.provider.name, pod=machine.id, name=renting.request.name, usd_h=usd_h,
            host_key=machine.host_key, host_id=machine.host_id or renting.offer.host_id, adopted=adopted,
        ),
        run=renting.run, refs=rental.refs,
    )  # fmt: skip
    return rental


def _resolve(
    services: Services, renting: Renting, interrupts: Interrupts, doubt: Doubtful, intended: datetime
) -> Rental:
    found, listings = _look(services, renting, interrupts, intended)
    seen = doubt.seen if isinstance(doubt, DoubtfulRent) else None
    if not found and seen is not None:
        found = _under_its_id(services, renting, seen, intended)
    if found:
        rental = _created(services, renting, found[0], intended, adopted=True)
        for machine in found[1:]:
            note_twin(services, rental, machine)
        return rental
    _write(services, renting, PodCreateDoubtful(
        provider=renting.provider.name, name=renting.request.name, text=services.redact(doubt.message),
        listings=listings,
    ))  # fmt: skip
    promised = renting.provider.info.appear_s is not None and len(listings) >= 2
    if not promised or interrupts.level or seen is not None:
        raise NotProvedGone(_unknown(services, renting, doubt, seen), hint=_watch_hint(renting))
    raise doubt


def note_twin(services: Services, rental: Rental, machine: Machine) -> None:
    """Take one more machine of the same name into the rental."""
    from gipper.values.offers import Listing

    note_twins(services, rental, Listing(items=(machine,)))


def _look(
    services: Services, renting: Renting, interrupts: Interrupts, intended: datetime
) -> tuple[list[Machine], tuple[datetime, ...]]:
    """Machines of the name, from at least two complete listings until `appear_s` (one if interrupted)."""
    promised = renting.provider.info.appear_s
    until = intended + timedelta(seconds=UNPROMISED_APPEAR_S if promised is None else promised)
    give_up = until + timedelta(seconds=renting.provider.info.gone_patience_s)
    complete: list[datetime] = []
    backoff = Backoff(most=15.0)
    while True:
        begun = services.runtime.now()
        try:
            listing = renting.provider.list_ours()
        except GipperError as error:
            services.reporter.warn(f"{renting.provider.name}: {services.redact(error.message)}")
        else:
            complete.append(begun)
            found = [m for m in listing if m.name == renting.request.name]
            enough = len(complete) >= 2 and begun >= until
            if found or enough or interrupts.level:
                return found, tuple(complete)
        if services.runtime.now() >= give_up:
            return [], tuple(complete)
        pause = max(backoff.next(), renting.provider.info.settle_s if complete else 0.0)
        services.pause(pause, interrupts.once if complete and not interrupts.level else None)


def _under_its_id(services: Services, renting: Renting, seen: Machine, intended: datetime) -> list[Machine]:
    """The machine that the provider itself returned, if it is ours beyond doubt.

    It bears our name after all, or it was created after our intent under a name that no market
    was asked for: the latter is ended at once, because nobody would find it again.
    """
    try:
        machine = renting.provider.describe(seen.id)
    except GipperError:
        return []
    if machine is None:
        return []
    if machine.name == renting.request.name:
        return [machine]
    created = machine.created and machine.created - renting.provider.market_time().ahead
    if created is None or created < intended or MachineName.parse(machine.name) is not None:
        # It may be another run's: a market that mixes up its answers must not make us end that.
        return []
    rental = _created(services, renting, machine, intended, adopted=True)
    proof = end_machine(services, rental, f"the market named it {machine.name!r}")
    if proof is None:
        raise NotProvedGone(
            f"{machine.provider} made machine {machine.id} under another name, and it isn't proved gone",
            hint=_watch_hint(renting),
        )
    record_spend(services, rental, proof.asked, "computed")
    raise RentError(f"{machine.provider} made a machine under another name; it was ended and is gone")


def _unknown(services: Services, renting: Renting, doubt: Doubtful, seen: Machine | None) -> str:
    which = f" (it answered with id {seen.id})" if seen is not None else ""
    return (
        f"nobody knows whether {renting.provider.name} made the machine {renting.request.name}{which}: "
        f"{services.redact(doubt.message)}; it may cost ${renting.offer.usd_h:.3f}/h"
    )


def _watch_hint(renting: Renting) -> str:
    return (
        "type `gipper pod reap` in a few minutes: it looks for the name and ends the machine; "
        f"or look for {renting.request.name} in the market's own console"
    )


def _write(services: Services, renting: Renting, payload: Payload) -> None:
    services.ledger.append_or_spill(payload, run=renting.run, refs={"name": renting.job})
