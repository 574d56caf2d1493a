"""Reading a ledger file that SQLite refuses, from a copy that is mended just enough to be opened.

Every ledger file is laid out by the same statements, so that page 1 of a fresh one (header and list
of tables) fits any other of the same page size. A file that was cut short is filled up
with empty pages. The damaged file itself is never touched.
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

_MAGIC: Final = b"SQLite format 3\x00"
_PAGE: Final = 4096
# Offsets in the header of the format's own documentation (sqlite.org/fileformat2.html, section 1.3).
_CHANGES_AT: Final = 24
_PAGES_AT: Final = 28
_VALID_FOR_AT: Final = 92


def open_copy(path: Path) -> sqlite3.Connection:
    """A connection to a mended copy, whose files are already unlinked. Raises OSError, sqlite3.Error."""
    copy = path.with_name(f".{path.stem}-{os.getpid()}-{os.urandom(4).hex()}.salvage")
    wal = copy.with_name(copy.name + "-wal")
    try:
        page = _fresh_first_page(copy)
        _copy_private(path, copy)
        _mend(copy, page)
        old_wal = path.with_name(path.name + "-wal")
        if old_wal.exists():
            _copy_private(old_wal, wal)
        return _opened(copy)
    finally:
        for leftover in (copy, wal, copy.with_name(copy.name + "-shm")):
            leftover.unlink(missing_ok=True)


def _opened(copy: Path) -> sqlite3.Connection:
    conn = writer(copy)
    try:
        conn.execute("PRAGMA query_only = ON")
        conn.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
    except sqlite3.DatabaseError:
        conn.close()
        raise
    return conn


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


def _mend(path: Path, page: bytes) -> None:
    with path.open("r+b") as file:
        start = file.read(_PAGE)
        size = path.stat().st_size
        if start.startswith(_MAGIC) and len(start) == _PAGE:
            file.truncate(max(size, _PAGE * _pages_said(start, size)))
            return
        file.seek(0)
        file.write(_with_pages(page, max(1, size // _PAGE)))


def _pages_said(start: bytes, size: int) -> int:
    (pages,) = struct.unpack_from(">I", start, _PAGES_AT)
    # A number from a damaged file: one that is far off must not fill the disk, sparse as it is.
    return int(pages) if pages * _PAGE <= size * 100 else size // _PAGE


def _with_pages(page: bytes, pages: int) -> bytes:
    fresh = bytearray(page)
    struct.pack_into(">I", fresh, _PAGES_AT, pages)
    fresh[_VALID_FOR_AT : _VALID_FOR_AT + 4] = fresh[_CHANGES_AT : _CHANGES_AT + 4]
    return bytes(fresh)
