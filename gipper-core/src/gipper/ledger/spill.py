"""Receipts that could not be stored: kept as JSON lines until a later process stores them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gipper.errors import LedgerError
from gipper.ledger.chain import Draft, draft_line, parse_draft

NAME: Final = "spill.jsonl"
_UNREAD: Final = "spill.unread.jsonl"
RunFolder = Callable[[str], Path]


def places(folder: Path, run_folder: RunFolder | None, run: str | None) -> list[Path]:
    """Where a receipt of `run` may be spilled to, the best first."""
    found = [folder]
    if run_folder is not None and run is not None:
        found.insert(0, run_folder(run))
    return [place / NAME for place in found]


def waiting(folder: Path, run_folder: RunFolder | None) -> list[Path]:
    """All spill files: of the ledger's folder and of every run's. Run folders are siblings."""
    runs = run_folder("0") if run_folder is not None else None
    beside = sorted(runs.parent.glob(f"*/{NAME}")) if runs is not None else []
    return [p for p in dict.fromkeys([folder / NAME, *beside]) if p.exists()]


def put(paths: list[Path], item: Draft) -> Path | None:
    """Append `item` durably to the first of `paths` that takes it; None where none does."""
    data = (draft_line(item) + "\n").encode()
    for path in paths:
        try:
            if path.parent.is_dir():
                _append(path, data)
                return path
        except OSError:
            continue
    return None


@contextmanager
def taken(path: Path) -> Iterator[tuple[list[Draft], list[str]]]:
    """The spilled receipts and the lines that aren't any; the file goes when the body succeeds.

    Lines that aren't receipts are kept in a file beside it. Raises OSError.
    """
    with _locked(path) as fd:
        good, bad = _parse(_content(fd))
        yield good, bad
        if bad:
            _append(path.with_name(_UNREAD), ("\n".join(bad) + "\n").encode())
        path.unlink(missing_ok=True)


def _parse(text: str) -> tuple[list[Draft], list[str]]:
    good, bad = [], []
    for line in filter(str.strip, text.split("\n")):
        try:
            good.append(parse_draft(line))
        except LedgerError:
            bad.append(line)
    return good, bad


def _append(path: Path, data: bytes) -> None:
    with _locked(path) as fd:
        size = os.fstat(fd).st_size
        # A line that a full disk cut short must not swallow this one.
        torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
        _write_all(fd, b"\n" + data if torn else data, size)
        os.fsync(fd)


def _write_all(fd: int, data: bytes, size: int) -> None:
    done = 0
    try:
        while done < len(data):
            done += os.pwrite(fd, data[done:], size + done)
    except OSError:
        os.ftruncate(fd, size)
        raise


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            # Another process may have stored and removed it while this one waited.
            if os.fstat(fd).st_nlink:
                yield fd
                return
        finally:
            os.close(fd)


def _content(fd: int) -> str:
    size = os.fstat(fd).st_size
    return os.pread(fd, size, 0).decode("utf-8", "replace")
