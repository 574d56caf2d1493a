"""One redaction for everything that is shown or recorded: known secrets become ``<redacted>``.

A position of the text is covered where it belongs to an occurrence of any form of any known value; each
unbroken run of covered positions is replaced once, everything else stays as it was, byte for byte.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from gipper.errors import ConfigError
from gipper.redact_forms import MIN_LENGTH, forms, long_enough
from gipper.redact_scan import KeyScanner, key_finder
from gipper.redact_shapes import REDACTED, token_shapes

__all__ = ["REDACTED", "KeyScanner", "Redactor", "StreamRedactor", "key_finder", "token_shapes"]

_MARK: Final = REDACTED.encode()
# A run of occurrences may go on for ever; up to here it is kept whole.
_WHOLE: Final = 1 << 16


class Redactor:
    """The values that one gipper instance knows; it never shows them itself. Safe to share by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._labels: tuple[str, ...] = ()
        self._needles: tuple[bytes, ...] = ()

    def __repr__(self) -> str:
        return f"Redactor({', '.join(self._labels)})"

    def add(self, value: str, label: str) -> None:
        """Redact `value` from now on, in open streams too. `label` says whose value it is.

        Raises ConfigError, naming the label alone, where `value` has under 8 characters.
        """
        if not long_enough(value):
            raise ConfigError(
                f"{label} has under {MIN_LENGTH} characters: hiding it would black out whole logs",
                hint="use a longer secret, or hand it over as a plain variable if it is none",
            )
        with self._lock:
            self._labels = tuple(dict.fromkeys([*self._labels, label]))
            self._needles = tuple(dict.fromkeys([*self._needles, *sorted(forms(value))]))

    def text(self, text: str) -> str:
        """`text` without known values."""
        if not self._needles:
            return text
        data = self.data(text.encode("utf-8", "surrogatepass"))
        try:
            return data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:  # a secret that isn't UTF-8 ended inside a character
            return data.decode("utf-8", "replace")

    def data(self, data: bytes) -> bytes:
        """`data` without known values."""
        stream = self.stream()
        return stream.feed(data) + stream.finish()

    def stream(self) -> StreamRedactor:
        """For data that arrives in chunks: the result doesn't depend on where they are cut."""
        return StreamRedactor(lambda: self._needles)

    def value(self, obj: Any) -> Any:
        """`obj` with every str and bytes in it redacted, keys too; tuples stay tuples, mappings
        become dicts, other objects pass as they are."""
        if isinstance(obj, str):
            return self.text(obj)
        if isinstance(obj, (bytes, bytearray)):
            return self.data(bytes(obj))
        if isinstance(obj, Mapping):
            return {self.value(k): self.value(v) for k, v in obj.items()}
        if isinstance(obj, (list, tuple, set, frozenset)):
            items = [self.value(item) for item in obj]
            # A named tuple can't be built from one list.
            return tuple(items) if isinstance(obj, tuple) else type(obj)(items)
        return obj


class StreamRedactor:
    """Holds back only what may be the begin of a known value, so that a log can be followed live."""

    def __init__(self, needles: Callable[[], tuple[bytes, ...]]) -> None:
        self._needles = needles
        self._held = b""
        # How many of the held bytes belong to an occurrence already, and whether the last byte that
        # left did (then its mark stands for what follows too).
        self._covered = 0
        self._inside = False

    @property
    def pending(self) -> int:
        """How many bytes are held back; feeding them to a new stream goes on where this one stood."""
        return len(self._held)

    def feed(self, chunk: bytes) -> bytes:
        """What can leave now."""
        data, needles = self._held + chunk, self._needles()
        spans = self._spans(data, needles)
        upto = len(data) - _open_tail(data, needles)
        start = next((start for start, end in spans if start < upto < end), upto)
        # An occurrence stays in one piece, so that who goes on from `pending` sees all of it.
        return self._leave(data, spans, start if len(data) - start <= _WHOLE else upto)

    def finish(self) -> bytes:
        """What was held back; nothing follows."""
        return self._leave(self._held, self._spans(self._held, self._needles()), len(self._held))

    def _spans(self, data: bytes, needles: tuple[bytes, ...]) -> list[tuple[int, int]]:
        return _merged([(0, self._covered), *_occurrences(data, needles)])

    def _leave(self, data: bytes, spans: list[tuple[int, int]], upto: int) -> bytes:
        out = list[bytes]()
        position = 0
        for start, end in spans:
            out.append(self._plain(data[position : min(start, upto)]))
            if start < min(end, upto):
                out.append(b"" if self._inside else _MARK)
                self._inside = True
            position = min(max(position, end), upto)
        out.append(self._plain(data[position:upto]))
        self._held = data[upto:]
        self._covered = max(
            (end - upto for start, end in spans if start < upto < end), default=self._kept(upto)
        )
        return b"".join(out)

    def _kept(self, upto: int) -> int:
        return max(0, self._covered - upto)

    def _plain(self, piece: bytes) -> bytes:
        if piece:
            self._inside = False
        return piece


def _occurrences(data: bytes, needles: tuple[bytes, ...]) -> Iterator[tuple[int, int]]:
    for needle in needles:
        at = data.find(needle)
        while at >= 0:
            yield at, at + len(needle)
            at = data.find(needle, at + 1)


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for start, end in sorted(s for s in spans if s[0] < s[1]):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def _open_tail(data: bytes, needles: tuple[bytes, ...]) -> int:
    """How many bytes at the end may be the begin of an occurrence that goes on in the next chunk."""
    longest = 0
    for needle in needles:
        at = data.find(needle[:1], max(0, len(data) - len(needle) + 1))
        while 0 <= at < len(data) - longest:
            if needle.startswith(data[at:]):
                longest = len(data) - at
                break
            at = data.find(needle[:1], at + 1)
    return longest
