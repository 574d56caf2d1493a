"""What is noticed when a ledger is opened, without a lock and without writing anything."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from gipper.ledger import files, head, health, schema
from gipper.ledger.faults import LedgerDamaged, is_damage
from gipper.ledger.head import START, Head


def notice(folder: Path, state: files.State) -> dict[str, str]:
    """Name → reason of the file that is written now, if it is damaged; else nothing.

    Raises LedgerError where a later gipper wrote it, sqlite3.Error and OSError where it can't be read.
    """
    # Without the lock head and file may be of two moments while a ledger is begun: damage stays.
    return _once(folder, state) and _once(folder, files.load_state(folder))


def _once(folder: Path, state: files.State) -> dict[str, str]:
    known = head.read(folder)
    path = files.writing(folder, state)
    try:
        if path.exists():
            _check(path, known)
        elif files.number_of(path) == 1 and known not in {None, START}:
            raise LedgerDamaged("it is missing, and the head file knows receipts of it")
    except LedgerDamaged as error:
        return {path.name: error.message}
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        return {path.name: str(error)}
    return {}


def _check(path: Path, known: Head | None) -> None:
    conn = schema.reader(path)
    try:
        if not schema.is_laid_out(conn):
            if files.number_of(path) == 1 and known not in {None, START}:
                raise LedgerDamaged("its tables are gone")
            return
        last = health.end_of(conn)
        health.check_end(conn, known, last)
        health.check_recent(conn, last)
    finally:
        conn.close()
