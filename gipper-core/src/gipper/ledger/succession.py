"""Opening the file that is written: the first one, or the one that follows a damaged one."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from pathlib import Path
from typing import Final

import attrs

from gipper.ledger import files, head, reading, salvage, schema
from gipper.ledger.chain import Row, draft
from gipper.ledger.faults import LedgerDamaged, is_damage
from gipper.ledger.head import START, Head
from gipper.ledger.health import head_of
from gipper.values.receipts import LedgerOpened

_SEARCH_BACK: Final = 10_000


def opened(folder: Path, path: Path, now: datetime) -> sqlite3.Connection:
    """A writer's connection to `path`, laid out if it is new; the caller holds the writers' lock.

    Raises LedgerDamaged, LedgerError, sqlite3.Error, OSError.
    """
    known = head.read(folder)
    if files.number_of(path) == 1 and known not in {None, START} and not path.exists():
        raise LedgerDamaged(f"it is missing, and the head file knows {known.seq if known else 0} receipts")
    files.create_private(path)
    conn = schema.writer(path)
    try:
        if not schema.is_laid_out(conn):
            _lay_out(conn, folder, path, known, now)
    except BaseException:
        conn.close()
        raise
    return conn


def connect_anyhow(path: Path) -> sqlite3.Connection | None:
    """A reading connection, over a mended copy where SQLite refuses the file; None where nothing helps.

    Raises OSError.
    """
    try:
        return schema.reader(path)
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
    try:
        return salvage.open_copy(path)
    except sqlite3.DatabaseError:
        return None


def last_good(conn: sqlite3.Connection | None, known: Head) -> Head:
    """The last receipt of a file that can be read, searched downwards from `known`; else `known`."""
    if conn is None:
        return known
    try:
        last = reading.last_row(conn)
    except sqlite3.DatabaseError:
        last = _downwards(conn, known.seq)
    return known if last is None else head_of(last)


def _lay_out(conn: sqlite3.Connection, folder: Path, path: Path, known: Head | None, now: datetime) -> None:
    if files.number_of(path) > 1:
        _follow(conn, folder, path, known or START, now)
    elif known in {None, START}:
        head.write(folder, START)
        schema.create(conn, 0)
        files.sync_folder(folder)
    else:
        raise LedgerDamaged("its tables are gone")


def _follow(conn: sqlite3.Connection, folder: Path, path: Path, known: Head, now: datetime) -> None:
    old = folder / files.file_name(files.number_of(path) - 1)
    good = _last_good_of(old, known)
    if known.seq > good.seq:
        _reproach(folder, old.name, f"receipts {good.seq + 1} to {known.seq} are missing")
    base = max(known.seq, good.seq)
    first = _opening(old.name, good, base, now)
    schema.create(conn, base, first)
    head.write(folder, head_of(first))
    files.sync_folder(folder)


def _opening(old: str, good: Head, base: int, now: datetime) -> Row:
    told = LedgerOpened(after=old, last_seq=good.seq, last_hash=good.hash)
    return draft(told, None, None, now).at(base + 1, good.hash)


def _last_good_of(old: Path, known: Head) -> Head:
    if not old.exists():
        return known
    conn = connect_anyhow(old)
    try:
        return last_good(conn, known)
    finally:
        if conn is not None:
            conn.close()


def _reproach(folder: Path, name: str, why: str) -> None:
    state = files.load_state(folder)
    closed = {name: why, **state.closed}
    files.save_state(folder, attrs.evolve(state, closed=closed, accepted=state.accepted - {name}))


def _downwards(conn: sqlite3.Connection, top: int) -> Row | None:
    for seq in range(top, max(0, top - _SEARCH_BACK), -1):
        try:
            row = reading.one_row(conn, seq)
        except sqlite3.DatabaseError:
            continue
        if row is not None:
            return row
    return None
