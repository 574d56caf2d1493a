"""One input file at a time: open it safely, tell whether it is still what the pass saw, hash and scan it."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs

from gipper.remote import Entry
from gipper.transfer.scanning import Scanner

PIECE: Final = 256 * 1024
# The sensitive-file rules look at the beginning only.
HEAD: Final = 1 << 20


@attrs.frozen(kw_only=True)
class Reading:
    """What one read of a whole file found."""

    size: int
    sha256: str
    found: frozenset[str]
    head: bytes


def open_file(path: Path) -> tuple[int, os.stat_result]:
    """A regular file's descriptor and state; OSError for anything else, links and fifos too."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    seen = os.fstat(fd)
    if not stat.S_ISREG(seen.st_mode):
        os.close(fd)
        raise OSError(f"{path} is no longer a regular file")
    return fd, seen


def same(entry: Entry, seen: os.stat_result) -> bool:
    """True where size, modification time and inode are those of the pass."""
    return (seen.st_size, seen.st_mtime_ns, seen.st_ino) == (entry.size, entry.mtime_ns, entry.inode)


def recheck(entry: Entry) -> bool:
    """True where the file need not be read again: by path, size, mtime and inode it is what was hashed."""
    try:
        return same(entry, entry.source.lstat())
    except OSError:
        return False


def read_all(fd: int, scanner: Scanner | None, step: Callable[[int], None] | None = None) -> Reading:
    """Hash and scan an open file from its start. Raises OSError."""
    digest, head, size = hashlib.sha256(), bytearray(), 0
    while data := os.pread(fd, PIECE, size):
        digest.update(data)
        if scanner is not None:
            scanner.feed(data)
        if len(head) < HEAD:
            head += data[: HEAD - len(head)]
        size += len(data)
        if step is not None:
            step(len(data))
    found = frozenset() if scanner is None else scanner.found
    return Reading(size=size, sha256=digest.hexdigest(), found=found, head=bytes(head))
