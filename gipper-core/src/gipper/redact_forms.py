"""The shapes in which one secret turns up: plain, quoted, escaped, URL-encoded, base64-encoded."""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote, quote_plus

MIN_LENGTH: Final = 8
_SHELL_SPECIAL: Final = frozenset(" \t\"'\\$`!*?[](){}<>|&;~#^")


def long_enough(value: str) -> bool:
    """Shorter values would turn up everywhere: replacing them would black out logs."""
    return len(value.strip()) >= MIN_LENGTH


def forms(value: str) -> frozenset[bytes]:
    """Every byte string that stands for `value`. Surrounding white space is not part of the secret."""
    out = set[bytes]()
    for text in {value, value.strip(), value.replace("\n", "\r\n")}:
        out.update(_text_forms(text))
        for raw in _encodings(text):
            out.update(base64_cores(raw))
    return frozenset(form for form in out if len(form) >= MIN_LENGTH)


def scan_forms(value: str) -> frozenset[bytes]:
    """`forms` without line ends, for a scanner that leaves line ends out of what it scans."""
    return frozenset(
        core for form in forms(value) if len(core := form.translate(None, b"\r\n")) >= MIN_LENGTH
    )


def base64_cores(raw: bytes) -> Iterator[bytes]:
    """What base64 makes of `raw` wherever it stands in a longer text: the characters, for each of the
    three alignments and both alphabets, that depend on `raw` alone."""
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + raw)
        first, last = -(-shift * 8 // 6), (shift + len(raw)) * 8 // 6
        core = encoded[first:last]
        yield core
        yield core.translate(bytes.maketrans(b"+/", b"-_"))


def _text_forms(text: str) -> Iterator[bytes]:
    for raw in _encodings(text):
        yield raw
        yield from _url_forms(raw)
    for escaped in _escaped(text):
        yield from _encodings(escaped)


def _encodings(text: str) -> set[bytes]:
    """Bytes of the environment that aren't UTF-8 stand in a str as lone surrogates: two spellings."""
    return {text.encode("utf-8", "surrogatepass"), _escape_bytes(text)}


def _escape_bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _url_forms(raw: bytes) -> Iterator[bytes]:
    for encoded in {quote(raw, safe=""), quote(raw), quote_plus(raw), quote_plus(raw, safe="/")}:
        yield encoded.encode()
        yield _lower_hex(encoded).encode()


def _lower_hex(encoded: str) -> str:
    head, *rest = encoded.split("%")
    return "%".join([head, *(part[:2].lower() + part[2:] for part in rest)])


def _escaped(text: str) -> Iterator[str]:
    for ascii_only in (True, False):
        inner = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        yield inner
        yield inner.replace("/", "\\/")
    yield repr(text)[1:-1]
    yield shlex.quote(text)[1:-1] if shlex.quote(text) != text else text
    yield text.replace("'", "'\\''")
    yield "".join(f"\\{c}" if c in _SHELL_SPECIAL else c for c in text)
