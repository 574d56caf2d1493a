"""The one more look at a machine that was proved gone: its receipt, once for each proof."""

from __future__ import annotations

from datetime import datetime

from gipper.errors import GipperError
from gipper.lifecycle.book import KINDS, Book, PodRecord
from gipper.lifecycle.services import Services
from gipper.values.receipts import PodRecheck


def write_recheck(services: Services, record: PodRecord, pod: str, listed: datetime) -> None:
    """`pod.recheck`, unless another process wrote it meanwhile. Never raises for the ledger's sake.

    `listed`: when the complete listing that lacks the machine began.
    """
    receipt = PodRecheck(provider=record.provider, pod=pod, listed=listed)
    refs = {"name": record.job}
    try:
        with services.ledger.transaction() as tx:
            now = Book.of(tx.read(run=record.run, kinds=KINDS)).pods.get(record.name)
            if now is not None and pod in now.terminated - now.rechecked:
                tx.append(receipt, run=record.run, refs=refs)
    except GipperError:
        services.ledger.append_or_spill(receipt, run=record.run, refs=refs)
