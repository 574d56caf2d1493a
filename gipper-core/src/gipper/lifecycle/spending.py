"""`spend` receipts: what a machine cost by gipper's own count, exactly one for each machine."""

from __future__ import annotations

from datetime import datetime

from gipper.errors import GipperError
from gipper.lifecycle.proof import Rental
from gipper.lifecycle.services import Services
from gipper.money import cost
from gipper.values.receipts import Spend


def record_spend(services: Services, rental: Rental, until: datetime, basis: str) -> tuple[Spend, ...]:
    """One `spend` for each machine of `rental` that has none, under the ledger's lock.

    `usd` = `usd_h` x hours from creation to `until`. `basis` is "computed", or "upper bound" where
    the end isn't known. Never raises for the ledger's sake.
    """
    seconds = max(0.0, (until - rental.since).total_seconds())
    spends = tuple(
        Spend(
            provider=rental.provider.name, pod=pod, usd=cost(rental.usd_h, seconds), seconds=seconds,
            usd_h=rental.usd_h, basis=basis, gpu=rental.gpu,
        )
        for pod in rental.ids
    )  # fmt: skip
    try:
        _under_lock(services, rental, spends)
    except GipperError:
        for spend in spends:
            services.ledger.append_or_spill(spend, run=rental.run, refs=rental.refs)
    return spends


def _under_lock(services: Services, rental: Rental, spends: tuple[Spend, ...]) -> None:
    with services.ledger.transaction() as tx:
        have = {r["pod"] for r in tx.read(run=rental.run, kinds={Spend.kind})}
        for spend in spends:
            if spend.pod not in have:
                tx.append(spend, run=rental.run, refs=rental.refs)
