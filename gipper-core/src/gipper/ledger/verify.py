"""Walking the whole chain: what is altered, missing, swapped, cut off or unreadable.

It proves damage and careless edits. Someone who rewrites everything, head file included, is not found.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from gipper.errors import LedgerError
from gipper.ledger import health, reading, schema
from gipper.ledger.chain import Row, digest, to_receipt
from gipper.ledger.faults import LedgerDamaged, is_busy
from gipper.ledger.head import START, Head
from gipper.ledger.protocol import Verdict
from gipper.values.receipts import LedgerOpened

_MOST_PROBLEMS: Final = 50


@attrs.frozen(kw_only=True)
class Source:
    """A ledger file that can be read; `top` is the last seq that it should hold."""

    name: str
    conn: sqlite3.Connection
    fetch: reading.Fetch
    floor: int
    top: int


@attrs.define
class Walk:
    """The state of one verification."""

    at: Head = START
    name: str = ""
    receipts: int = 0
    problems: list[tuple[str, str]] = attrs.field(factory=list)
    mended: list[str] = attrs.field(factory=list)

    def blame(self, name: str, what: str) -> None:
        """Note a problem of the file `name`."""
        self.problems.append((name, what))

    def verdict(self) -> Verdict:
        """The outcome, with the first 50 problems and how many more there are."""
        told = [f"{name}: {what}" for name, what in self.problems[:_MOST_PROBLEMS]]
        if (more := len(self.problems) - len(told)) > 0:
            told.append(f"and {more} more")
        return Verdict(
            receipts=self.receipts,
            head=self.at.hash,
            problems=tuple(dict.fromkeys(told)),
            mended=tuple(self.mended),
        )


def walk(sources: list[Source], head: Head | None, closed: Mapping[str, str]) -> Walk:
    """Follow the chain over all files; `head` was read before them. Raises sqlite3.Error when busy."""
    state = Walk()
    for name, why in closed.items():
        state.blame(name, why)
    for source in sources:
        _file(state, source)
    if sources:
        _end(state, sources[-1], head)
    elif head not in {None, START}:
        state.blame(
            "ledger.sqlite", f"it is gone or unreadable as a whole, with {head.seq if head else 0} receipts"
        )
    return state


def _file(state: Walk, source: Source) -> None:
    for what in _structure(source):
        state.blame(source.name, what)
    if source.floor > state.at.seq:
        # The gap is the older file's: the new one begins where the head file stood.
        state.blame(state.name or source.name, _missing(state.at.seq + 1, source.floor))
        state.at = Head(source.floor, state.at.hash)
    state.name = source.name
    tally = reading.Tally()
    for row in reading.matching(source.fetch, reading.Query(), source.floor, source.top, tally):
        _row(state, source.name, row)
    if state.at.seq < source.top:
        state.blame(source.name, _missing(state.at.seq + 1, source.top))


def _row(state: Walk, name: str, row: Row) -> None:
    if row.seq != state.at.seq + 1:
        state.blame(name, _missing(state.at.seq + 1, row.seq - 1))
    if row.prev != state.at.hash and (row.seq == state.at.seq + 1 or row.kind == LedgerOpened.kind):
        state.blame(name, f"receipt {row.seq} doesn't follow the one before: one of them was altered")
    try:
        to_receipt(row)
    except ValueError as error:
        state.blame(name, f"receipt {row.seq} can't be parsed ({error})")
    state.receipts += 1
    state.at = Head(row.seq, digest(row))


def _missing(first: int, last: int) -> str:
    which = f"receipt {first} is" if first >= last else f"receipts {first} to {last} are"
    return f"{which} missing or unreadable"


def _structure(source: Source) -> Iterator[str]:
    try:
        if not schema.is_laid_out(source.conn):
            yield from () if source.top <= source.floor else ("its tables are gone",)
            return
        yield from (what for (what,) in source.fetch("PRAGMA integrity_check(20)", ()) if what != "ok")
    except LedgerDamaged as error:
        yield error.message
    except LedgerError:
        raise
    except sqlite3.DatabaseError as error:
        if is_busy(error):
            raise
        yield f"it can't be read whole ({error})"


def _end(state: Walk, source: Source, head: Head | None) -> None:
    try:
        last = reading.one_row(source.conn, source.top)
        if health.check_end(source.conn, head, last):
            seq = head.seq if head else 0
            state.mended.append(f"the head file was at receipt {seq} and the ledger at {state.at.seq}")
    except LedgerDamaged as error:
        state.blame(source.name, error.message)
    except sqlite3.DatabaseError as error:
        if is_busy(error):
            raise
        state.blame(source.name, f"its end can't be read ({error})")
