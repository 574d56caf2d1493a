"""Shared by the ledger's tests: receipts to store, and ways to break the files behind SQLite's back."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from gipper.ledger.store import SqliteLedger
from gipper.runtime import RealRuntime
from gipper.values.receipts import CustodyNote, Receipt

RUN = "0123456789"


def note(text: str) -> CustodyNote:
    """A small receipt."""
    return CustodyNote(provider="local", pod="m-1", text=text, by="tester")


def opened(
    folder: Path,
    *,
    writable: bool = True,
    notes: list[str] | None = None,
    observers: Callable[[Receipt], None] | None = None,
    run_folder: Callable[[str], Path] | None = None,
) -> SqliteLedger:
    """The ledger of `folder`; what it tells goes to `notes`."""
    told = [] if notes is None else notes
    return SqliteLedger.open(
        folder,
        RealRuntime(),
        writable=writable,
        on_note=told.append,
        observers=observers,
        run_folder=run_folder,
    )


def filled(folder: Path, count: int) -> list[Receipt]:
    """`count` receipts in `folder`, everything closed again."""
    store = opened(folder)
    with store.transaction() as tx:
        receipts = [tx.append(note(f"n{i}"), run=RUN) for i in range(1, count + 1)]
    store.close()
    return receipts


def texts(folder: Path) -> list[str]:
    """What a fresh reader finds."""
    store = opened(folder, writable=False)
    found = [r["text"] for r in store.read(kinds=None) if r.kind == "custody.note"]
    store.close()
    return found


def tamper(folder: Path, *statements: str, name: str = "ledger.sqlite") -> None:
    """Run SQL on a file with its triggers taken off and put back."""
    conn = sqlite3.connect(folder / name, isolation_level=None)
    triggers = conn.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for trigger, _ in triggers:
        conn.execute(f"DROP TRIGGER {trigger}")
    for statement in statements:
        conn.execute(statement)
    for _, sql in triggers:
        conn.execute(sql)
    conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    conn.close()


def settle(folder: Path, name: str = "ledger.sqlite") -> Path:
    """Move everything from the write-ahead log into the file, and return its path."""
    conn = sqlite3.connect(folder / name)
    conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    conn.close()
    return folder / name


def python(code: str, *args: str, **options: object) -> subprocess.Popen[str]:
    """A process that runs `code` with `args`, its output captured."""
    return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-c", code, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
