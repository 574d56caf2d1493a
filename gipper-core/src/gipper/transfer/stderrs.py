"""What the remote side says on stderr: ours from a mark on, sorted into harmless, telling and fatal."""

from __future__ import annotations

import re
from typing import Final

_HARMLESS: Final = re.compile(
    rb"time stamp .* in the future|implausibly old time stamp|Ignoring unknown extended header"
    # A network volume may know neither modes nor owners; the content is what counts.
    rb"|[Cc]annot (change (mode|ownership)|utime)|can't (chmod|chown|utime)"
    rb"|Exiting with failure status due to previous errors|Removing leading"
)
_CHANGED: Final = re.compile(
    rb"^tar: (.*): (?:file changed as we read it|File shrank by \d+ bytes?; padding with zeros"
    rb"|File removed before we read it)$"
)
_NOT_FILES: Final = re.compile(rb"(socket|door) ignored$")
_ESCAPE: Final = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_LETTERS: Final = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}
# More than anyone reads; a stranger must not fill our memory.
_LIMIT: Final = 16 << 20


class Stderr:
    """Collects stderr and gives whole lines of the script itself, those before `mark` left out."""

    def __init__(self, mark: str) -> None:
        self._mark = mark.encode() + b"\n"
        self._rest = b""
        self._begun = False
        self._seen = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes."""
        self._seen += len(data)
        if self._seen > _LIMIT or not data:
            return []
        self._rest += data
        if not self._begun:
            _, found, after = self._rest.partition(self._mark)
            self._begun = bool(found)
            self._rest = after if found else self._rest
        if not self._begun:
            return []
        *lines, self._rest = self._rest.split(b"\n")
        return [line for line in lines if line.strip()]

    def last(self) -> list[bytes]:
        """What came without a line end, once."""
        rest, self._rest = self._rest if self._begun else b"", b""
        return [rest] if rest.strip() else []


def harmless(line: bytes) -> bool:
    """True for what tar says although all went well enough."""
    return _HARMLESS.search(line) is not None


def changed_name(line: bytes) -> bytes | None:
    """The member that GNU tar says changed while it was read, or None for any other line."""
    match = _CHANGED.match(line)
    return _ESCAPE.sub(_unescape, match[1]) if match else None


def not_a_file(line: bytes) -> bool:
    """True where tar left out something that isn't a file, folder or link."""
    return _NOT_FILES.search(line) is not None


def _unescape(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes([int(code, 8) & 0xFF]) if len(code) == 3 else _LETTERS.get(code, code)


def text(lines: list[bytes]) -> str:
    """Lines for a message, control characters neutralised, cut at 2,000 characters."""
    joined = b"; ".join(lines).decode("utf-8", "replace")[:2000]
    return "".join(c if c.isprintable() else "?" for c in joined)
