"""The head file: one record of fixed size, written over in place after each commit.

It says how far the ledger goes. Behind the ledger and on its chain: a writer died between its commit
and this write. Ahead of it: receipts were cut off.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final, Literal, NamedTuple

from gipper.ledger.chain import GENESIS

NAME: Final = "ledger.head"
_RECORD: Final = re.compile(rb"([0-9]{20}) ([0-9a-f]{64})\n")
_SIZE: Final = 86

Place = Literal["on", "behind", "ahead", "astray"]


class Head(NamedTuple):
    """The last receipt's place and hash; (0, 64 zeros) before the first."""

    seq: int
    hash: str


START: Final = Head(0, GENESIS)


def read(folder: Path) -> Head | None:
    """What the head file says; None where there is none or it is unreadable. Raises OSError else."""
    try:
        fd = os.open(f"{folder}/{NAME}", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        data = os.read(fd, _SIZE + 1)
    finally:
        os.close(fd)
    match = _RECORD.fullmatch(data)
    return Head(int(match[1]), match[2].decode()) if match else None


def write(folder: Path, head: Head) -> None:
    """Put `head` down in one write, making the file (0600) where it is missing. Raises OSError."""
    fd = os.open(f"{folder}/{NAME}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(fd, f"{head.seq:020d} {head.hash}\n".encode(), 0)
        if os.fstat(fd).st_size != _SIZE:
            os.ftruncate(fd, _SIZE)
    finally:
        os.close(fd)


def compare(head: Head, last: Head, first_seq: int, hash_at_head: str | None) -> Place:
    """Where `head` stands to a file whose receipts go from `first_seq` to `last`.

    `hash_at_head` is the hash of the receipt at `head.seq` in that file, None where there is none.
    """
    if head == last:
        return "on"
    if head.seq > last.seq:
        return "ahead"
    before_this_file = head == START or (first_seq > 1 and head.seq < first_seq)
    return "behind" if before_this_file or hash_at_head == head.hash else "astray"
