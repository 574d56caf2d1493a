"""Reading a ledger file whose header is gone, from a copy with a new first page.

Every ledger file is laid out by the same statements, so that page 1 of a fresh one (header and list
of tables) fits any other of the same page size. The damaged file itself is never touched.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
from pathlib import Path
from typing import Final

from gipper.ledger.files import create_private
from gipper.ledger.schema import create, writer

MAGIC: Final = b"SQLite format 3\x00"
_PAGE: Final = 4096
# Offsets in the header of the format's own documentation (sqlite.org/fileformat2.html, section 1.3).
_CHANGES_AT: Final = 24
_PAGES_AT: Final = 28
_VALID_FOR_AT: Final = 92


def header_is_gone(path: Path) -> bool:
    """True where a file that holds something doesn't begin as a SQLite file does. Raises OSError."""
    with path.open("rb") as file:
        start = file.read(len(MAGIC))
    return bool(start) and start != MAGIC


def open_copy(path: Path) -> sqlite3.Connection:
    """A connection to a mended copy, whose files are already unlinked. Raises OSError, sqlite3.Error."""
    copy = path.with_name(f".{path.stem}-{os.getpid()}-{os.urandom(4).hex()}.salvage")
    wal = copy.with_name(copy.name + "-wal")
    try:
        page = _fresh_first_page(copy)
        _copy_private(path, copy)
        _replace_first_page(copy, page)
        old_wal = path.with_name(path.name + "-wal")
        if old_wal.exists():
            _copy_private(old_wal, wal)
        conn = writer(copy)
        conn.execute("PRAGMA query_only = ON")
        return conn
    finally:
        for leftover in (copy, wal, copy.with_name(copy.name + "-shm")):
            leftover.unlink(missing_ok=True)


def _fresh_first_page(path: Path) -> bytes:
    create_private(path)
    conn = writer(path)
    try:
        create(conn, 0)
    finally:
        conn.close()
    page = path.read_bytes()[:_PAGE]
    path.unlink()
    return page


def _copy_private(source: Path, target: Path) -> None:
    create_private(target)
    with source.open("rb") as old, target.open("wb") as new:
        shutil.copyfileobj(old, new, 1 << 20)


def _replace_first_page(path: Path, page: bytes) -> None:
    fresh = bytearray(page)
    pages = path.stat().st_size // _PAGE
    struct.pack_into(">I", fresh, _PAGES_AT, pages)
    fresh[_VALID_FOR_AT : _VALID_FOR_AT + 4] = fresh[_CHANGES_AT : _CHANGES_AT + 4]
    with path.open("r+b") as file:
        file.write(fresh)
