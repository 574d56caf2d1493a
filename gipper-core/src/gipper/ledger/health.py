"""What is looked at each time a file is opened or written: its header, its end, and the head file.

The whole chain is walked by `verify` alone.
"""

from __future__ import annotations

import sqlite3
from itertools import pairwise
from typing import Final

from gipper.ledger.chain import GENESIS, Row, digest
from gipper.ledger.faults import LedgerDamaged, is_unreadable
from gipper.ledger.head import START, Head, compare
from gipper.ledger.reading import last_row, one_row

_RECENT: Final = 32


def head_of(row: Row | None) -> Head:
    """What the head file should say when `row` is the last."""
    return START if row is None else Head(row.seq, digest(row))


def end_of(conn: sqlite3.Connection) -> Row | None:
    """The last row. Raises LedgerDamaged where it can't be read, other sqlite3.Error as they are."""
    try:
        return last_row(conn)
    except sqlite3.DatabaseError as error:
        if not is_unreadable(error):
            raise
        raise LedgerDamaged(f"its end can't be read ({error})") from error


def check_end(conn: sqlite3.Connection, head: Head | None, last: Row | None) -> bool:
    """True where the head file has to be brought up to `last`.

    Raises LedgerDamaged where head and receipts contradict each other.
    """
    at_end = head_of(last)
    if head == at_end:
        return False
    if head is None:
        if last is None:
            return True
        raise LedgerDamaged("the head file is missing or unreadable, so that a cut can't be ruled out")
    return _place_head(conn, head, at_end)


def check_recent(conn: sqlite3.Connection, last: Row | None) -> None:
    """Raise LedgerDamaged where the chain of the last 32 receipts is broken."""
    if last is None:
        return
    rows = [one_row(conn, seq) for seq in range(max(_first(conn), last.seq - _RECENT + 1), last.seq + 1)]
    for before, after in pairwise(rows):
        if after is None or (before is not None and after.prev != digest(before)):
            raise LedgerDamaged(f"the chain is broken near receipt {last.seq}")
    if last.seq == 1 and last.prev != GENESIS:
        raise LedgerDamaged("the first receipt follows an unknown one")


def _place_head(conn: sqlite3.Connection, head: Head, at_end: Head) -> bool:
    first = _first(conn)
    there = one_row(conn, head.seq)
    place = compare(head, at_end, first, None if there is None else digest(there))
    if place == "behind":
        return True
    if place == "ahead":
        raise LedgerDamaged(f"receipts {at_end.seq + 1} to {head.seq} were cut off")
    raise LedgerDamaged(f"receipt {head.seq} is not the one that the head file knows")


def _first(conn: sqlite3.Connection) -> int:
    """The lowest seq in the file: one that follows a damaged file doesn't begin at 1."""
    first: int = conn.execute("SELECT coalesce(min(seq), 1) FROM receipts").fetchone()[0]
    return first
