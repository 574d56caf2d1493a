"""The day's cap: what is spent and reserved today, checked and reserved under the ledger's lock.

A reservation is `pod.intent`, raised by `pod.reserve`. Nothing here asks a network while the lock is held.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

import attrs

from gipper.errors import CapRefused, GipperError
from gipper.ledger.protocol import LedgerTransaction
from gipper.lifecycle.book import KINDS, Book
from gipper.lifecycle.proof import Rental
from gipper.lifecycle.services import Services
from gipper.money import cost
from gipper.values.receipts import PodIntent, PodReserve, Receipt

# Spend and open machines older than this are not looked for when a cap is checked.
_HORIZON: Final = timedelta(days=45)
# By how much a reservation is raised at a time, and how long before it is used up.
_CHUNKS_S: Final = (1800.0, 600.0, 120.0)
_AGAIN_S: Final = 10.0
_AHEAD_S: Final = 60.0
_TEARDOWN_S: Final = 600.0


def intend(services: Services, intent: PodIntent, *, run: str, job: str) -> Receipt:
    """Check the day's cap and write the intent, in one transaction. Raises CapRefused, LedgerError."""
    with services.ledger.transaction() as tx:
        _check(services, tx, intent.reserved_usd, name=None)
        return tx.append(intent, run=run, refs={"name": job})


def raise_to(services: Services, rental: Rental, amount: Decimal) -> None:
    """Raise the reservation of an open machine to `amount`. Raises CapRefused, LedgerError."""
    raised = PodReserve(provider=rental.provider.name, name=rental.name, reserved_usd=amount)
    with services.ledger.transaction() as tx:
        _check(services, tx, amount, name=rental.name)
        tx.append(raised, run=rental.run, refs=rental.refs)


def _check(services: Services, tx: LedgerTransaction, wanted: Decimal, *, name: str | None) -> None:
    now = services.runtime.now()
    book = Book.of(tx.read(since=now - _HORIZON, kinds=KINDS))
    own = book.pods.pop(name, None) if name is not None else None
    committed = book.committed(now, now)
    cap = services.settings.daily_cap_usd
    if committed + max(wanted, own.counted(now) if own else wanted) > cap:
        raise CapRefused(
            f"the day's cap of ${cap:.2f} would be passed: ${committed:.2f} spent or reserved today, "
            f"${wanted:.2f} for this run (spend in other ledgers isn't seen)",
            hint="raise daily_cap_usd in config.toml, or look at `gipper pod cost` and `gipper pod ls`",
        )


@attrs.define
class Meter:
    """Keeps a running machine inside its reservation. `end` is the machine's own; seconds elsewhere."""

    services: Services
    rental: Rental
    reserved: Decimal
    collect_s: float
    end: datetime
    _not_before: float = 0.0
    _refusal: str | None = None

    def accrued(self) -> Decimal:
        """Dollars so far."""
        return cost(self.rental.usd_h, (self.services.runtime.now() - self.rental.since).total_seconds())

    def most(self) -> Decimal:
        """The most that the machine can cost: ten minutes past its end."""
        return cost(self.rental.usd_h, (self._end - self.rental.since).total_seconds() + _TEARDOWN_S)

    @property
    def _end(self) -> datetime:
        # The machine's end is told by the market's clock, what has accrued is counted by ours.
        return self.end - self.rental.provider.market_time().ahead

    def tick(self) -> str | None:
        """Raise the reservation before it is used up; a reason to end the job where the day is full."""
        rest = cost(self.rental.usd_h, self.collect_s + _TEARDOWN_S)
        used = self.accrued() + rest
        if self.rental.usd_h <= 0 or used + cost(self.rental.usd_h, _AHEAD_S) < self.reserved:
            return None
        refusal = self._raise_some(used)
        return refusal if used >= self.reserved else None

    def _raise_some(self, used: Decimal) -> str | None:
        """Raise by as much as the day allows; why not, where it allows nothing."""
        now = self.services.runtime.monotonic()
        if now < self._not_before:
            return self._refusal
        for chunk in _CHUNKS_S:
            wanted = min(self.most(), used + cost(self.rental.usd_h, chunk))
            self._refusal = None if wanted <= self.reserved else self._raise(wanted)
            if self._refusal is None:
                return None
        self._not_before = now + _AGAIN_S
        return self._refusal

    def reserve_all(self) -> None:
        """Reserve the most that the machine can cost. Raises CapRefused."""
        if self.most() > self.reserved:
            raise_to(self.services, self.rental, self.most())
            self.reserved = self.most()

    def _raise(self, wanted: Decimal) -> str | None:
        try:
            raise_to(self.services, self.rental, wanted)
        except GipperError as error:
            return self.services.redact(error.message)
        self.reserved = wanted
        return None
