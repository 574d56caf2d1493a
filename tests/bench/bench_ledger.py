"""What a durable receipt costs against a bare SQLite commit of the same size."""

from __future__ import annotations

import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path

from gipper.ledger.store import SqliteLedger
from gipper.runtime import RealRuntime
from gipper.values.receipts import CustodyNote

ROUNDS = 1500
WARM_UP = 100
LIMIT = 2.0
NOTE = CustodyNote(provider="local", pod="m-1", text="x" * 150, by="bench")
REFS = {"name": "bench"}


def bare(folder: Path) -> sqlite3.Connection:
    """A database with one table and no index, WAL and FULL like the ledger's."""
    conn = sqlite3.connect(folder / "bare.sqlite", isolation_level=None)
    conn.execute("PRAGMA journal_mode = WAL")
    conn.execute("PRAGMA synchronous = FULL")
    conn.execute("CREATE TABLE t (seq INTEGER PRIMARY KEY, body TEXT)")
    return conn


def one_commit(conn: sqlite3.Connection, body: str) -> float:
    """Seconds for one bare commit."""
    start = time.perf_counter()
    conn.execute("BEGIN IMMEDIATE")
    conn.execute("INSERT INTO t (body) VALUES (?)", (body,))
    conn.execute("COMMIT")
    return time.perf_counter() - start


def one_append(ledger: SqliteLedger) -> float:
    """Seconds for one durable append."""
    start = time.perf_counter()
    ledger.append(NOTE, run="0123456789", refs=REFS)
    return time.perf_counter() - start


def main() -> list[tuple[str, float, float]]:
    """(name, measured ratio, limit), medians of interleaved single operations."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        conn, ledger = bare(folder), SqliteLedger.open(folder / "data", RealRuntime())
        body = "x" * 430
        pairs = [(one_append(ledger), one_commit(conn, body)) for _ in range(ROUNDS)][WARM_UP:]
        ledger.close()
        conn.close()
    ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
    return [("ledger append / bare SQLite commit", ours / theirs, LIMIT)]


if __name__ == "__main__":
    rows = main()
    for label, ratio, limit in rows:
        print(f"{label}: {ratio:.2f} (at most {limit:g})")
    sys.exit(any(ratio > limit for _, ratio, limit in rows))
