"""A manifest as a tar stream, in blocks that fill a few SSH packets exactly.

The stream is always a valid archive: a file that shrinks while it is read is padded to the size that
its header announced, one that grows is cut there. Both are named in `changed`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from gipper.errors import ConfigError, TransferError
from gipper.remote import Entry, Manifest
from gipper.ssh.bytechannel import BLOCK
from gipper.transfer import filecheck
from gipper.transfer.scanning import MakeScanner
from gipper.transfer.tarhead import END, header, padding

# Above this a file goes straight into blocks, without a detour through the buffer.
_SMALL: Final = 64 * 1024
# As much as is sent with one system call.
AT_ONCE: Final = 8 * BLOCK
_NS: Final = 1_000_000_000


class TarWriter:
    """Turns `manifest` into blocks. `done` counts the bytes of file content; `changed` names files whose
    content isn't that of the pass.

    A file that changed since the pass is scanned again before its first byte is given out. Raises
    ConfigError where that finds a provider key, TransferError where a file is gone or unreadable.
    """

    def __init__(
        self, manifest: Manifest, *, scanner: MakeScanner | None = None, block: int = AT_ONCE
    ) -> None:
        self.changed: list[str] = []
        self.done = 0
        self._manifest = manifest
        self._scanner = scanner
        self._block = block
        self._buffer = bytearray()

    def blocks(self) -> Iterator[bytes]:
        """All blocks; only the last may be shorter."""
        for entry in self._manifest.entries:
            if entry.type == "file":
                yield from self._file(entry)
            else:
                self._buffer += _without_content(entry)
            if len(self._buffer) >= self._block:
                yield from self._full()
        self._buffer += END
        yield from self._full()
        yield bytes(self._buffer)

    def _full(self) -> Iterator[bytes]:
        size, buffer = self._block, self._buffer
        while len(buffer) >= size:
            yield bytes(buffer[:size])
            del buffer[:size]

    def _file(self, entry: Entry) -> Iterator[bytes]:
        fd, seen = _open(entry)
        try:
            differs = not filecheck.same(entry, seen) and self._differs(entry, fd)
            self._buffer += _head(entry, seen)
            if seen.st_size <= _SMALL:
                self._buffer += _padded(os.read(fd, seen.st_size), seen.st_size)
                self.done += seen.st_size
            else:
                yield from self._large(fd, seen.st_size)
            self._buffer += bytes(padding(seen.st_size))
            after = os.fstat(fd)
            if differs or _moved(seen, after):
                self._note(entry, fd, rescan=_moved(seen, after))
        except OSError as error:
            raise _unreadable(entry, error) from error
        finally:
            os.close(fd)

    def _large(self, fd: int, size: int) -> Iterator[bytes]:
        yield from self._full()
        left = size
        while left:
            want = min(left, self._block - len(self._buffer))
            data = _padded(os.read(fd, want), want)
            left -= want
            if want == self._block:
                yield data
            else:
                self._buffer += data
                yield from self._full()
            self.done += want

    def _differs(self, entry: Entry, fd: int) -> bool:
        return self._scan(entry, fd) != entry.sha256

    def _scan(self, entry: Entry, fd: int) -> str:
        reading = filecheck.read_all(fd, self._scanner() if self._scanner else None)
        if reading.found:
            raise ConfigError(
                f"{entry.source} changed and now holds the value of {', '.join(sorted(reading.found))}",
                hint="take the key out of the file, and run again",
            )
        return reading.sha256

    def _note(self, entry: Entry, fd: int, *, rescan: bool) -> None:
        self.changed.append(entry.path)
        if rescan:
            self._scan(entry, fd)


def _moved(before: os.stat_result, after: os.stat_result) -> bool:
    return (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns)


def _padded(data: bytes, size: int) -> bytes:
    return data if len(data) == size else data + bytes(size - len(data))


def _open(entry: Entry) -> tuple[int, os.stat_result]:
    try:
        return filecheck.open_file(entry.source)
    except OSError as error:
        raise _unreadable(entry, error) from error


def _unreadable(entry: Entry, error: OSError) -> TransferError:
    why = error.strerror or str(error)
    return TransferError(f"{entry.source} can't be read any more: {why}", hint="put it back, and run again")


def _head(entry: Entry, seen: os.stat_result) -> bytes:
    name, mtime = os.fsencode(entry.path), seen.st_mtime_ns // _NS
    return header(name, b"0", mode=seen.st_mode, size=seen.st_size, mtime=mtime)


def _without_content(entry: Entry) -> bytes:
    name, mtime = os.fsencode(entry.path), entry.mtime_ns // _NS
    if entry.type == "link":
        link = os.fsencode(entry.link or "")
        return header(name, b"2", mode=0o777, size=0, mtime=mtime, link=link)
    # Its owner must be able to fill a folder, also when the same tree is sent a second time.
    return header(name + b"/", b"5", mode=entry.mode | 0o700, size=0, mtime=mtime)
