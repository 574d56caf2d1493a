"""The job's log here: the machine's bytes with known secrets replaced, resumed at its exact byte.

Next to `log` lies `log.pos`: how many of the machine's bytes are in how many bytes of `log`. What a
crash left in `log` beyond that is cut off before the log goes on.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol


class StreamRedactor(Protocol):
    """Replaces known values in a stream; `pending` bytes of it are held back until more is known."""

    def feed(self, data: bytes) -> bytes:
        """What can be shown of the stream so far."""

    def finish(self) -> bytes:
        """The rest."""

    @property
    def pending(self) -> int:
        """Input bytes that are held back."""


class JobLog:
    """Appends to `folder/log`. `offset` is the machine's byte to ask for next."""

    def __init__(self, folder: Path, redactor: StreamRedactor) -> None:
        self._redactor = redactor
        self._pos = folder / "log.pos"
        self.path = folder / "log"
        start, size = self._resume()
        self.offset = start
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.ftruncate(fd, size)
        os.lseek(fd, size, os.SEEK_SET)
        self._fd = fd
        self._size = size

    def feed(self, data: bytes) -> bytes:
        """Store the machine's next bytes; returns what is new in the log. Raises OSError (disk full)."""
        clean = self._redactor.feed(data)
        self.offset += len(data)
        self._write(clean)
        return clean

    def finish(self) -> bytes:
        """Store what was held back; the log is complete. Returns what is new in it."""
        clean = self._redactor.finish()
        self._write(clean)
        return clean

    def close(self) -> None:
        """Close the file; idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _write(self, clean: bytes) -> None:
        view = memoryview(clean)
        while view:
            view = view[os.write(self._fd, view) :]
        self._size += len(clean)
        temporary = self._pos.with_suffix(".tmp")
        temporary.write_text(f"{self.offset - self._redactor.pending} {self._size}\n", encoding="ascii")
        temporary.replace(self._pos)

    def _resume(self) -> tuple[int, int]:
        try:
            start, size = (int(x) for x in self._pos.read_text(encoding="ascii").split())
            return (start, size) if self.path.stat().st_size >= size else (0, 0)
        except (OSError, ValueError):
            return 0, 0
