"""Reading one ledger file: by index where it is whole, row by row where it isn't."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import attrs

from gipper.ledger.chain import COLUMNS, Row
from gipper.ledger.faults import is_unreadable, primary_code
from gipper.values.receipts import stamp

Fetch = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
"""Runs one query to its end: no cursor stays open between two receipts."""

_CHUNK: Final = 500
_ALL: Final = f"SELECT {COLUMNS} FROM receipts"  # noqa: S608 - constants
_BETWEEN: Final = f"{_ALL} WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT {_CHUNK}"
_ONE: Final = f"{_ALL} WHERE seq = ?"
_LAST: Final = f"{_ALL} ORDER BY seq DESC LIMIT 1"
_FIRST: Final = "SELECT min(seq) FROM receipts"
_BY_RUN: Final = "SELECT seq FROM receipts INDEXED BY by_run WHERE run = ? AND +seq > ? ORDER BY seq"
_BY_KIND: Final = (
    "SELECT seq FROM receipts INDEXED BY by_kind WHERE kind = ? AND ts >= ? AND ts < ? AND +seq > ?"
)
# Jumps from kind to kind in the index instead of walking all of it.
_KINDS: Final = (
    "WITH RECURSIVE k(kind) AS (SELECT min(kind) FROM receipts UNION ALL"
    " SELECT (SELECT min(kind) FROM receipts WHERE kind > k.kind) FROM k WHERE k.kind IS NOT NULL)"
    " SELECT kind FROM k WHERE kind IS NOT NULL"
)
_EARLIEST: Final = ""
_LATEST: Final = "~"


@attrs.frozen(kw_only=True)
class Query:
    """Which receipts; times as stamps, None where that filter is off."""

    since: str | None = None
    until: str | None = None
    kinds: tuple[str, ...] | None = None
    run: str | None = None
    after_seq: int = 0

    @property
    def narrow(self) -> bool:
        """True where an index finds the rows."""
        return any(f is not None for f in (self.since, self.until, self.kinds, self.run))

    def admits(self, row: Row) -> bool:
        """True where every filter lets `row` through."""
        return (
            row.seq > self.after_seq
            and (self.run is None or row.run == self.run)
            and (self.kinds is None or row.kind in self.kinds)
            and (self.since is None or row.ts >= self.since)
            and (self.until is None or row.ts < self.until)
        )


@attrs.define
class Tally:
    """How many rows a read passed over."""

    skipped: int = 0


def query(
    since: datetime | None,
    until: datetime | None,
    kinds: Collection[str] | None,
    run: str | None,
    after_seq: int,
) -> Query:
    """The filters as SQLite can compare them."""
    return Query(
        since=None if since is None else stamp(since),
        until=None if until is None else stamp(until),
        kinds=None if kinds is None else tuple(sorted(map(_bindable, set(kinds)))),
        run=None if run is None else _bindable(run),
        after_seq=after_seq,
    )


def last_row(conn: sqlite3.Connection) -> Row | None:
    """The row with the highest seq. Raises sqlite3.Error."""
    found = conn.execute(_LAST).fetchone()
    return None if found is None else Row(*found)


def one_row(conn: sqlite3.Connection, seq: int) -> Row | None:
    """The row at `seq`. Raises sqlite3.Error."""
    found = conn.execute(_ONE, (seq,)).fetchone()
    return None if found is None else Row(*found)


def first_seq(fetch: Fetch) -> int | None:
    """The lowest seq of the file; None where it is empty or can't be said."""
    found = _attempt(fetch, _FIRST, ())
    return found[0][0] if found else None


def last_seq(fetch: Fetch) -> int | None:
    """The highest seq of the file; None where it is empty or can't be said."""
    found = _attempt(fetch, "SELECT max(seq) FROM receipts", ())
    return found[0][0] if found else None


def matching(fetch: Fetch, want: Query, floor: int, top: int, tally: Tally) -> Iterator[Row]:
    """Rows that `want` admits among those in (`floor`, `top`], in order of seq.

    What can't be read, and in a walk over all rows what is missing, is counted in `tally`.
    """
    # Each kind is a query of its own: what was stored after `top` was known may be seen by some of them
    # only, and a reader that goes on from the last row would never see the rest.
    seqs = _by_index(fetch, want, top) if want.narrow else None
    if seqs is not None:
        return filter(want.admits, _pick(fetch, seqs, tally))
    return filter(want.admits, _walk(fetch, max(floor, want.after_seq), top, tally))


def _by_index(fetch: Fetch, want: Query, top: int) -> array[int] | None:
    try:
        return array("q", sorted(seq for seq in _seqs(fetch, want) if seq <= top))
    except sqlite3.DatabaseError as error:
        if not is_unreadable(error) and primary_code(error) != sqlite3.SQLITE_ERROR:
            raise
        return None


def _seqs(fetch: Fetch, want: Query) -> Iterator[int]:
    if want.run is not None:
        yield from (seq for (seq,) in fetch(_BY_RUN, (want.run, want.after_seq)))
        return
    kinds = want.kinds if want.kinds is not None else [kind for (kind,) in fetch(_KINDS, ())]
    for kind in kinds:
        bounds = (kind, want.since or _EARLIEST, want.until or _LATEST, want.after_seq)
        yield from (seq for (seq,) in fetch(_BY_KIND, bounds))


def _pick(fetch: Fetch, seqs: array[int], tally: Tally) -> Iterator[Row]:
    for start in range(0, len(seqs), _CHUNK):
        part = seqs[start : start + _CHUNK]
        marks = ",".join("?" * len(part))
        found = _attempt(fetch, f"{_ALL} WHERE seq IN ({marks}) ORDER BY seq", part)
        yield from map(Row._make, found if found is not None else _singly(fetch, part, tally))


def _walk(fetch: Fetch, at: int, top: int, tally: Tally) -> Iterator[Row]:
    while at < top:
        found = _attempt(fetch, _BETWEEN, (at, top))
        if found is None:
            reached = min(at + _CHUNK, top)
            found = _singly(fetch, range(at + 1, reached + 1), tally)
        else:
            reached = found[-1][0] if found else top
            tally.skipped += reached - at - len(found)
        at = reached
        yield from map(Row._make, found)


def _singly(fetch: Fetch, seqs: Sequence[int], tally: Tally) -> list[tuple[Any, ...]]:
    out = []
    for seq in seqs:
        found = _attempt(fetch, _ONE, (seq,))
        out += found or []
        tally.skipped += not found
    return out


def _attempt(fetch: Fetch, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]] | None:
    try:
        return fetch(sql, values)
    except sqlite3.DatabaseError as error:
        if not is_unreadable(error) and primary_code(error) != sqlite3.SQLITE_ERROR:
            raise
        return None


def _bindable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
