"""Pure readers of marked output: they are fed bytes as they come and know what they mean."""

from __future__ import annotations

from typing import Final

_NOISE_KEPT: Final = 400
_TAIL: Final = 128
_SLACK: Final = 256 * 1024


class MarkerFilter:
    """Drops everything up to and with the line that holds a marker."""

    def __init__(self, marker: str) -> None:
        self._marker = marker.encode("ascii") + b"\n"
        self._held = b""
        self.seen = False

    def feed(self, data: bytes) -> bytes:
        """The part of `data` that belongs to the command."""
        if self.seen:
            return data
        held = self._held + data
        at = held.find(self._marker)
        if at >= 0:
            self.seen, self._held = True, b""
            return held[at + len(self._marker) :]
        self._held = held[-max(len(self._marker) - 1, _NOISE_KEPT) :]
        return b""

    @property
    def noise(self) -> str:
        """The end of what came while the marker was not there yet, to be shown."""
        return self._held[-_NOISE_KEPT:].decode("utf-8", "replace").strip()


class Sink:
    """Keeps the first `limit` bytes that it is given."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()

    def add(self, data: bytes) -> None:
        """Keep what still fits of `data`."""
        self._kept += data[: self._limit - len(self._kept)]

    def value(self) -> bytes:
        """All that was kept."""
        return bytes(self._kept)


class FrameReader:
    """One stream's answer to a frame (see `quoting.frame`)."""

    def __init__(self, marker: str, limit: int) -> None:
        self._start = f"\n{marker}{{\n".encode("ascii")
        self._end = f"\n{marker}}}".encode("ascii")
        self._limit = limit
        self._open = False
        self._data = bytearray()
        self._searched = 0
        self.done = False
        self.status = -1

    def feed(self, data: bytes) -> None:
        """Take bytes in; `done` is set once the end border is whole."""
        self._data += data
        if not self._open:
            self._find_start()
        if self._open and not self.done:
            self._find_end()

    def value(self) -> bytes:
        """The output between the borders, the first `limit` bytes of it."""
        return bytes(self._data[: self._limit])

    def _find_start(self) -> None:
        at = self._data.find(self._start)
        if at < 0:
            # Noise, perhaps with the first half of the border at its end.
            del self._data[: -len(self._start)]
            return
        del self._data[: at + len(self._start)]
        self._open = True

    def _find_end(self) -> None:
        at = self._data.find(self._end, self._searched)
        line_end = self._data.find(b"\n", at + len(self._end)) if at >= 0 else -1
        if line_end >= 0:
            text = bytes(self._data[at + len(self._end) : line_end]).strip()
            self.status = int(text) if text.isdigit() else -1
            del self._data[at:]
            self.done = True
        elif at < 0:
            self._shrink()
            self._searched = max(0, len(self._data) - len(self._end))

    def _shrink(self) -> None:
        if len(self._data) > self._limit + _SLACK:
            del self._data[self._limit : -_TAIL]
