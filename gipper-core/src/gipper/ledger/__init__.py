"""Receipts, read and exported: `from gipper import ledger`, then `ledger.read(since=...)`."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from datetime import datetime
from pathlib import Path
from typing import TextIO

from gipper.ledger.protocol import LedgerReader
from gipper.values.receipts import Receipt

__all__ = ["export", "read"]


def read(
    since: datetime | None = None,
    kinds: Collection[str] | None = None,
    job: str | None = None,
    until: datetime | None = None,
    folder: Path | None = None,
) -> Iterator[Receipt]:
    """Receipts in order, ts in [`since`, `until`) (aware), of `kinds`, of the run `job`.

    Each is a mapping that answers to `job`, `run` and the payload's own keys; dollars are `Decimal`.
    From the data folder of this user's environment unless `folder` is given; a ledger that doesn't
    exist has no receipts. Raises LedgerError.
    """
    from gipper.ledger.store import SqliteLedger
    from gipper.runtime import RealRuntime

    store = SqliteLedger.open(folder or _data_folder(), RealRuntime(), writable=False)
    try:
        yield from store.read(since=since, until=until, kinds=kinds, run=job)
    finally:
        store.close()


def export(store: LedgerReader, out: TextIO) -> int:
    """Every receipt as one line of canonical JSON, over which its hash is made; how many there were."""
    from gipper.ledger.chain import canonical, from_receipt

    count = 0
    for receipt in store.read():
        out.write(canonical(from_receipt(receipt)) + "\n")
        count += 1
    return count


def _data_folder() -> Path:
    from gipper.paths import Paths

    return Path(Paths.from_env(os.environ).data_folder)
