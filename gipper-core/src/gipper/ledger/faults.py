"""What can be wrong with a ledger, told in gipper's own errors instead of SQLite's."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gipper.errors import LedgerError


class LedgerFull(LedgerError):
    """No space is left where the ledger lies."""


class LedgerBusy(LedgerError):
    """Another process kept the ledger longer than this one may wait."""


class LedgerDamaged(LedgerError):
    """A ledger file can't be trusted any more; `message` says why."""


ROOM_BYTES: Final = 256 * 1024
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_NO_ROOM: Final = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN})
_BROKEN: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})


def primary_code(error: sqlite3.Error) -> int | None:
    """SQLite's result code without its extension; None where Python itself complains."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else int(code) & 0xFF


def is_busy(error: sqlite3.Error) -> bool:
    """True where waiting might help."""
    return primary_code(error) in _BUSY


def is_damage(error: sqlite3.Error) -> bool:
    """True where the file itself is broken, so that a new one must be begun."""
    return primary_code(error) in _BROKEN


def is_out_of_room(folder: Path) -> bool:
    """True where less is free than SQLite's own files beside a ledger need."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < ROOM_BYTES


def is_unreadable(error: sqlite3.Error) -> bool:
    """True where a page or a row can't be read, be it the file's fault or the disk's."""
    return primary_code(error) in {*_BROKEN, sqlite3.SQLITE_IOERR, None}


def explain(error: sqlite3.Error | OSError, folder: Path) -> LedgerError:
    """`error` as a LedgerError with what to do about it."""
    if isinstance(error, sqlite3.Error):
        return _explain_sqlite(error, folder)
    if error.errno in _FULL:
        return full(folder)
    return LedgerError(
        f"the ledger in {folder} can't be used: {error.strerror or error}",
        hint=f"check that {folder} is a folder of yours that can be written, or set GIPPER_DATA",
    )


def full(folder: Path) -> LedgerFull:
    """No space."""
    return LedgerFull(
        f"no space is left for the ledger in {folder}",
        hint=f"free some space there (see: df -h {folder}), then try again",
    )


def busy(folder: Path, seconds: float) -> LedgerBusy:
    """Held by someone else."""
    return LedgerBusy(
        f"the ledger in {folder} was held by another process for {seconds:g} s",
        hint=f"see who holds it: fuser -v {folder / 'ledger.lock'}",
    )


@contextmanager
def translated(folder: Path) -> Iterator[None]:
    """Turn errors of SQLite and of the file system into LedgerError."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise explain(error, folder) from error


def _explain_sqlite(error: sqlite3.Error, folder: Path) -> LedgerError:
    code = primary_code(error)
    # Without room for its own files SQLite speaks of an I/O error or of a file that it can't open.
    if code == sqlite3.SQLITE_FULL or (code in _NO_ROOM and is_out_of_room(folder)):
        return full(folder)
    if code in _BUSY:
        return LedgerBusy(
            f"the ledger in {folder} is locked by another program",
            hint=f"close what has it open: fuser -v {folder / 'ledger.sqlite'}",
        )
    if code in _BROKEN:
        return LedgerDamaged(f"the ledger in {folder} is damaged: {error}", hint="gipper ledger verify")
    return LedgerError(
        f"the ledger in {folder} can't be used: {error}",
        hint=f"check that {folder} and the files in it can be written, or set GIPPER_DATA",
    )
