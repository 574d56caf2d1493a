"""The SQLite file: its tables, the triggers that keep it append-only, and connections to it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final
from urllib.parse import quote

from gipper.errors import LedgerError
from gipper.ledger.chain import COLUMNS, Row
from gipper.ledger.faults import LedgerDamaged, primary_code

SCHEMA: Final = 1
APPLICATION_ID: Final = 0x67707231
BUSY_S: Final = 30.0

INSERT: Final = f"INSERT INTO receipts ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - constants

# In one transaction, so that a file either has all of it or counts as not begun.
# INSERT OR REPLACE fires no DELETE trigger: the third one refuses what it could replace.
_CREATE: Final = """
CREATE TABLE receipts (
  seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, ts TEXT NOT NULL, kind TEXT NOT NULL,
  run TEXT, refs TEXT NOT NULL, payload TEXT NOT NULL, prev TEXT NOT NULL
);
CREATE INDEX by_kind ON receipts (kind, ts);
CREATE INDEX by_run ON receipts (run) WHERE run IS NOT NULL;
CREATE TRIGGER no_update BEFORE UPDATE ON receipts
  BEGIN SELECT RAISE(ABORT, 'receipts are never changed'); END;
CREATE TRIGGER no_delete BEFORE DELETE ON receipts
  BEGIN SELECT RAISE(ABORT, 'receipts are never deleted'); END;
CREATE TRIGGER in_order BEFORE INSERT ON receipts
  WHEN NEW.seq IS NOT coalesce((SELECT max(seq) FROM receipts), {base}) + 1
    OR EXISTS (SELECT 1 FROM receipts WHERE id = NEW.id)
  BEGIN SELECT RAISE(ABORT, 'receipts are only added at the end'); END;
PRAGMA application_id = {application};
PRAGMA user_version = {schema};
"""
_NO_SHARING: Final = frozenset(
    {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL}
)
PARTS: Final = frozenset({"receipts", "by_kind", "by_run", "no_update", "no_delete", "in_order"})


class Frozen(sqlite3.Connection):
    """Reads a file as it is now, without the memory that SQLite shares between readers and writers.

    In a folder that can't be written, or on a full disk, there is none. It is for one read only.
    """


def writer(path: Path) -> sqlite3.Connection:
    """A connection for the one who holds the writers' lock. Raises sqlite3.Error."""
    conn = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    # FULL: what is committed has reached the disk before anyone relies on it.
    conn.execute("PRAGMA journal_mode = WAL")
    conn.execute("PRAGMA synchronous = FULL")
    return conn


def reader(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing; `Frozen` where it can't follow writers. Raises sqlite3.Error."""
    try:
        return _tried(path, "mode=ro", sqlite3.Connection)
    except sqlite3.OperationalError as error:
        if primary_code(error) not in _NO_SHARING or _has_log(path):
            raise
    return _tried(path, "mode=ro&immutable=1", Frozen)


def create(conn: sqlite3.Connection, base: int, first: Row | None = None) -> None:
    """Lay out an empty file whose receipts begin at `base` + 1, with its `first`. Raises sqlite3.Error."""
    conn.execute("BEGIN IMMEDIATE")
    for statement in _statements(base):
        conn.execute(statement)
    if first is not None:
        conn.execute(INSERT, first)
    conn.execute("COMMIT")


def is_laid_out(conn: sqlite3.Connection) -> bool:
    """False for a file that nobody finished beginning.

    Raises LedgerError where a later gipper wrote it, LedgerDamaged where a part is missing,
    sqlite3.Error.
    """
    version = conn.execute("PRAGMA user_version").fetchone()[0]
    if version == 0:
        return False
    if version > SCHEMA:
        raise LedgerError(
            f"the ledger was written by a later gipper (schema {version}, this one knows {SCHEMA})",
            hint="pip install --upgrade gipper-core",
        )
    names = {name for (name,) in conn.execute("SELECT name FROM sqlite_master")}
    if missing := sorted(PARTS - names):
        raise LedgerDamaged(f"schema without {', '.join(missing)}")
    return True


def _has_log(path: Path) -> bool:
    log = path.with_name(path.name + "-wal")
    return log.exists() and log.stat().st_size > 0


def _tried(path: Path, how: str, factory: type[sqlite3.Connection]) -> sqlite3.Connection:
    conn = sqlite3.connect(
        f"file:{quote(str(path))}?{how}",
        uri=True,
        timeout=BUSY_S,
        isolation_level=None,
        check_same_thread=False,
        factory=factory,
    )
    try:
        conn.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
    except sqlite3.DatabaseError:
        conn.close()
        raise
    return conn


def _statements(base: int) -> list[str]:
    text = _CREATE.format(base=int(base), application=APPLICATION_ID, schema=SCHEMA)
    out, part = [], ""
    for line in text.splitlines(keepends=True):
        part += line
        if sqlite3.complete_statement(part):
            out.append(part)
            part = ""
    return out
