"""Catching up with the ledger: from the stored summary, or from the first receipt where it doesn't match."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Final

from gipper.history_file import Stored, Unreadable, opened, save
from gipper.history_fold import KINDS, fold
from gipper.history_summary import Summary
from gipper.ledger.chain import digest, from_receipt
from gipper.ledger.protocol import LedgerReader
from gipper.values.receipts import Receipt

# Storing costs as much as the summary is long, catching up as much as there are new receipts.
_SHARE: Final = 100


def learn(reader: LedgerReader, folder: Path, since: datetime) -> Summary:
    """What all receipts that the ledger holds now say of rentals from `since` on. Raises LedgerError.

    Only receipts that the stored summary doesn't have are read. It is made anew where it is missing,
    unreadable, of another schema, or ends with a receipt that this ledger doesn't have. The ledger is
    never locked; of two processes that store at once the last one wins, and both are right.
    """
    with opened(folder) as stored:
        if stored is not None:
            try:
                found = _continued(reader, folder, stored, since)
            except Unreadable:
                found = None
            if found is not None:
                return found
    return _anew(reader, folder)


def _continued(reader: LedgerReader, folder: Path, stored: Stored, since: datetime) -> Summary | None:
    """The stored summary brought up to now; None where it isn't one of this ledger."""
    receipts = reader.read(after_seq=max(0, stored.seq - 1))
    last = next(receipts, None)
    if last is None or last.seq != stored.seq or fingerprint(last) != stored.hash:
        return None
    first = next(receipts, None)
    if first is None:
        return stored.since(since.timestamp())
    summary = stored.whole()
    count = _add(summary, chain((first,), receipts))
    if count * _SHARE >= len(summary.rentals):
        save(folder, summary)
    return summary


def _anew(reader: LedgerReader, folder: Path) -> Summary:
    # By kind first: an index finds them, and a third of all receipts says nothing of hosts.
    summary = Summary()
    _add(summary, reader.read(kinds=KINDS))
    _add(summary, reader.read(after_seq=summary.seq))
    if summary.seq:
        save(folder, summary)
    return summary


def _add(summary: Summary, receipts: Iterable[Receipt]) -> int:
    last, count = None, 0
    for last in receipts:
        fold(summary, last)
        count += 1
    if last is not None:
        summary.seq, summary.hash = last.seq, fingerprint(last)
    return count


def fingerprint(receipt: Receipt) -> str:
    """The receipt's hash, which vouches for all that came before it."""
    return digest(from_receipt(receipt))
