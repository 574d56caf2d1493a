"""The summary as one file beside the ledger, replaced as a whole; unreadable is the same as missing.

A first line of JSON says what follows: names, then the rentals in blocks of so many rows, each with all
columns as raw numbers, then what only adding to the summary needs. Each part has its checksum, so that
whoever looks at the last months reads the last blocks and nothing else.
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, Final

import attrs

from gipper.history_rentals import IDS, NUMBERS, Names, Rentals
from gipper.history_summary import SCHEMA, Summary

NAME: Final = "history.summary"
BLOCK_ROWS: Final = 2048
_LONGEST_HEAD: Final = 1 << 24


class Unreadable(Exception):
    """The stored summary isn't whole, or not of this schema."""


@attrs.frozen
class _Part:
    """Bytes of the file: where, how many, their checksum. `latest`: a block's newest rental."""

    at: int
    size: int
    crc: int
    latest: float


@attrs.frozen(kw_only=True)
class Stored:
    """A stored summary whose parts are read when they are asked for. `seq` and `hash` are its last
    receipt's."""

    seq: int
    hash: str
    _file: BinaryIO
    _parts: Sequence[_Part]

    def since(self, first: float) -> Summary:
        """At least all rentals from the time `first` on; it can't be added to. Raises Unreadable."""
        return self._read([part for part in self._parts[1:-1] if part.latest >= first])

    def whole(self) -> Summary:
        """The whole summary, ready to be added to. Raises Unreadable."""
        summary = self._read(self._parts[1:-1])
        summary.machines, summary.runs = json.loads(self._bytes(self._parts[-1]))
        return summary

    def _read(self, blocks: Sequence[_Part]) -> Summary:
        rentals = Rentals()
        for block in blocks:
            _extend(rentals, memoryview(self._bytes(block)))
        names = Names(json.loads(self._bytes(self._parts[0])))
        return Summary(seq=self.seq, hash=self.hash, names=names, rentals=rentals)

    def _bytes(self, part: _Part) -> bytes:
        try:
            self._file.seek(part.at)
            data = self._file.read(part.size)
        except OSError as error:
            raise Unreadable from error
        if len(data) != part.size or zlib.crc32(data) != part.crc:
            raise Unreadable
        return data


@contextmanager
def opened(folder: Path) -> Iterator[Stored | None]:
    """The stored summary; None where there is none of this schema. A later `save` doesn't change it."""
    try:
        file = (folder / NAME).open("rb")
    except OSError:
        yield None
        return
    with file:
        yield _stored(file)


def save(folder: Path, summary: Summary) -> None:
    """Replace the stored summary (0600). Does nothing where the folder can't be written."""
    fresh = folder / f"{NAME}.{os.getpid()}-{os.urandom(4).hex()}"
    try:
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError:
        return
    try:
        with os.fdopen(fd, "wb") as file:
            file.writelines(_encoded(summary))
        # Not synced: what a crash tears is found by its checksum and made again.
        fresh.replace(folder / NAME)
    except OSError:
        fresh.unlink(missing_ok=True)


def _encoded(summary: Summary) -> list[bytes]:
    parts = [(json.dumps(summary.names.texts).encode(), 0.0)]
    parts += _blocks(summary.rentals)
    parts.append((json.dumps([summary.machines, summary.runs]).encode(), 0.0))
    told = [[len(data), zlib.crc32(data), latest] for data, latest in parts]
    head = {**_format(), "seq": summary.seq, "hash": summary.hash, "parts": told}
    return [json.dumps(head).encode() + b"\n", *(data for data, _ in parts)]


def _blocks(rentals: Rentals) -> Iterator[tuple[bytes, float]]:
    columns = _columns(rentals)
    for start in range(0, len(rentals), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        yield b"".join(column[rows].tobytes() for column in columns), max(rentals.numbers["at"][rows])


def _columns(rentals: Rentals) -> list[array[Any]]:
    return [*rentals.ids.values(), *rentals.numbers.values()]


def _format() -> Mapping[str, Any]:
    sizes = [array(code).itemsize for code in "id"]
    return {"schema": SCHEMA, "order": sys.byteorder, "sizes": sizes, "columns": [*IDS, *NUMBERS]}


def _stored(file: BinaryIO) -> Stored | None:
    try:
        line = file.readline(_LONGEST_HEAD)
        head = json.loads(line)
        if any(head.get(key) != value for key, value in _format().items()):
            return None
        return Stored(seq=head["seq"], hash=head["hash"], file=file, parts=_parts(len(line), head["parts"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _parts(start: int, told: Sequence[tuple[int, int, float]]) -> list[_Part]:
    places = accumulate((size for size, _, _ in told), initial=start)
    parts = [_Part(at, *part) for at, part in zip(places, told, strict=False)]
    if len(parts) < 2:
        raise ValueError("no names, or no index")
    return parts


def _extend(rentals: Rentals, data: memoryview) -> None:
    columns = _columns(rentals)
    rows, odd = divmod(len(data), sum(column.itemsize for column in columns))
    if odd:
        raise Unreadable
    at = 0
    for column in columns:
        end = at + rows * column.itemsize
        column.frombytes(data[at:end])
        at = end
