"""Tar headers as bytes: ustar with GNU's long names and base-256 numbers, owner 0, any byte in a name."""

from __future__ import annotations

from typing import Final

BLOCK_SIZE: Final = 512
END: Final = bytes(2 * BLOCK_SIZE)
# Field offsets and widths are those of POSIX ustar; the magic is GNU's own ("ustar  \0").
_NAME: Final = 100
_OWNER: Final = b"0000000\0" * 2
_MAGIC: Final = b"ustar  \0"
_TAIL: Final = bytes(BLOCK_SIZE - 265)
_MAX_OCTAL_11: Final = 8**11 - 1
_MAX_OCTAL_7: Final = 8**7 - 1
# Bytes of a header that are the same in all: owner, magic, and the checksum field read as spaces.
_FIXED_SUM: Final = sum(_OWNER) + sum(_MAGIC) + 8 * 32
LONG_NAME: Final = b"././@LongLink"


def padding(size: int) -> int:
    """Zero bytes that follow a member of `size` bytes."""
    return -size % BLOCK_SIZE


def number(value: int) -> bytes:
    """A 12-byte numeric field: octal where it fits, else GNU's base-256 (also for negative times)."""
    if 0 <= value <= _MAX_OCTAL_11:
        return b"%011o\0" % value
    raw = (value & (2**88 - 1)).to_bytes(11, "big")
    return (b"\x80" if value >= 0 else b"\xff") + raw


def _plain(name: bytes, kind: bytes, mode: int, size: int, mtime: int, link: bytes) -> bytes:
    middle = b"%07o\0" % (mode & _MAX_OCTAL_7)
    numbers = number(size) + number(mtime)
    total = _FIXED_SUM + sum(name) + sum(middle) + sum(numbers) + kind[0] + sum(link)
    return b"".join(
        (name.ljust(_NAME, b"\0"), middle, _OWNER, numbers, b"%06o\0 " % total, kind,
         link.ljust(_NAME, b"\0"), _MAGIC, _TAIL)
    )  # fmt: skip


def _long(kind: bytes, text: bytes) -> bytes:
    data = text + b"\0"
    head = _plain(LONG_NAME, kind, 0o644, len(data), 0, b"")
    return head + data + bytes(padding(len(data)))


def header(name: bytes, kind: bytes, *, mode: int, size: int, mtime: int, link: bytes = b"") -> bytes:
    """All header blocks of one member. `kind` is the type flag: b"0" file, b"5" folder, b"2" link.

    `mode` keeps its lowest nine bits only; `mtime` is whole seconds since the epoch.
    """
    before = b""
    if len(link) > _NAME:
        before, link = before + _long(b"K", link), link[:_NAME]
    if len(name) > _NAME:
        before, name = before + _long(b"L", name), name[:_NAME]
    return before + _plain(name, kind, mode & 0o777, size, mtime, link)
