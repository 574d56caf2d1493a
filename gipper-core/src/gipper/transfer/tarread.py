"""A lean reader of tar streams: ustar, GNU long names and base-256 sizes, pax sizes and paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple
from zlib import adler32

from gipper.transfer.tarhead import BLOCK_SIZE, padding

_ZERO: Final = bytes(BLOCK_SIZE)
# The checksum counts its own field as spaces.
_SPACES: Final = 8 * 32
# Long names and pax records are read into memory: a stranger must not choose how much.
_MAX_EXTRA: Final = 1 << 20
_MAX_EXTRAS_IN_A_ROW: Final = 16


class TornArchive(Exception):
    """The stream ended early or isn't a tar archive; what was read before is good."""


class Member(NamedTuple):
    """One member's header. `kind` is the type flag ("0" also for old archives' NUL and "7")."""

    name: bytes
    kind: bytes
    size: int
    mode: int
    mtime: float
    link: bytes


class ByteSource:
    """Exact reads from a function that gives 1..n bytes, or b"" at its end."""

    def __init__(self, read: Callable[[int], bytes], *, piece: int = 256 * 1024) -> None:
        self._read = read
        self._piece = piece
        self._buffer = b""
        self._view = memoryview(b"")
        self._at = 0
        self.consumed = 0

    def take(self, n: int) -> bytes:
        """Exactly `n` bytes; TornArchive where the stream ends before."""
        end = self._at + n
        if end <= len(self._buffer):
            out = self._buffer[self._at : end]
            self._at = end
            self.consumed += n
            return out
        return b"".join(self.pieces(n))

    def view(self, n: int, pad: int) -> bytes | memoryview:
        """As `take`, mostly not copied; `pad` more bytes are thrown away."""
        at = self._at
        end = at + n
        if end + pad <= len(self._buffer):
            self._at = end + pad
            self.consumed += n + pad
            return self._view[at:end]
        out = b"".join(self.pieces(n))
        self.skip(pad)
        return out

    def pieces(self, n: int) -> Iterator[memoryview]:
        """The next `n` bytes as they come, not copied; TornArchive at an early end."""
        while n:
            if self._at >= len(self._buffer):
                self._fill()
            part = self._view[self._at : self._at + n]
            self._at += len(part)
            self.consumed += len(part)
            n -= len(part)
            yield part

    def _fill(self) -> None:
        self._buffer, self._at = self._read(self._piece), 0
        self._view = memoryview(self._buffer)
        if not self._buffer:
            raise TornArchive("the archive ends too early")

    def skip(self, n: int) -> None:
        """Throw the next `n` bytes away."""
        for _ in self.pieces(n):
            pass

    def line(self, limit: int = 65536) -> bytes:
        """The next line without its end; TornArchive where none ends within `limit` bytes."""
        out = bytearray()
        while len(out) < limit:
            byte = self.take(1)
            if byte == b"\n":
                return bytes(out)
            out += byte
        raise TornArchive("an endless line")

    def until(self, mark: bytes, limit: int) -> bytes:
        """Everything before `mark`, which is consumed too; TornArchive where it isn't within `limit`."""
        got = self._buffer[self._at :]
        while (found := got.find(mark)) < 0:
            if len(got) > limit or not (more := self._read(self._piece)):
                raise TornArchive("the end mark is missing")
            got += more
        self._buffer, self._at = got, found + len(mark)
        self._view = memoryview(got)
        return got[:found]


def _number(field: bytes) -> int:
    if field[:1] in (b"\x80", b"\xff"):
        return int.from_bytes(field[1:], "big", signed=field[:1] == b"\xff")
    text = field.strip(b" \0")
    try:
        return int(text, 8) if text else 0
    except ValueError as error:
        raise TornArchive("a header holds no number where one belongs") from error


def _string(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _name(block: bytes) -> bytes:
    name = _string(block[:100])
    # GNU's magic has no prefix field: its bytes hold times there.
    if block[257:263] == b"ustar\0" and block[345:346] != b"\0":
        return _string(block[345:500]) + b"/" + name
    return name


def _numbers(block: bytes) -> tuple[int, int, int]:
    # The common shape: octal digits up to a NUL. Anything else takes the long way.
    if block[107] == block[135] == block[147] == 0:
        try:
            return int(block[100:107], 8), int(block[124:135], 8), int(block[136:147], 8)
        except ValueError:
            pass
    return _number(block[100:108]), _number(block[124:136]), _number(block[136:148])


def _checksum_fits(block: bytes) -> bool:
    # Adler's lower half is one plus the sum of bytes, modulo 65521: far faster than adding up. Garbage is
    # told from headers; integrity is the business of the transport.
    field = block[148:156]
    stated = _number(field) + sum(field) - _SPACES + 1
    return (adler32(block) & 0xFFFF) == stated % 65521


def _parse(block: bytes) -> Member:
    if not _checksum_fits(block):
        raise TornArchive("a header's checksum is wrong")
    mode, size, mtime = _numbers(block)
    if size < 0:
        raise TornArchive("a header holds a negative size")
    kind = block[156:157]
    plain = b"0" if kind in b"\x007" else kind
    link = _string(block[157:257]) if block[157] else b""
    return Member(_name(block), plain, size, mode, mtime, link)


def _pax(data: bytes) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    while data.strip(b"\0"):
        length, _, rest = data.partition(b" ")
        size = int(length) if length.isdigit() and len(length) < 8 else 0
        record, data = rest[: size - len(length) - 1], data[size:]
        key, equals, value = record.partition(b"=")
        if size <= 0 or not equals or not value.endswith(b"\n"):
            raise TornArchive("a damaged pax header")
        found[key.decode("utf-8", "replace")] = value[:-1]
    return found


def _pax_number(value: bytes) -> float:
    try:
        return float(value)
    except ValueError as error:
        raise TornArchive("a damaged pax header") from error


def _with_extras(member: Member, extras: dict[str, bytes]) -> Member:
    if not extras:
        return member
    size = int(extras["size"]) if extras.get("size", b"").isdigit() else member.size
    mtime = _pax_number(extras["mtime"]) if "mtime" in extras else member.mtime
    name, link = extras.get("path", member.name), extras.get("linkpath", member.link)
    return member._replace(name=name, link=link, size=size, mtime=mtime)


def _extra(source: ByteSource, member: Member) -> dict[str, bytes]:
    if member.size > _MAX_EXTRA:
        raise TornArchive("a name or pax header of more than 1 MiB")
    data = source.take(member.size + padding(member.size))[: member.size]
    if member.kind == b"x":
        return _pax(data)
    if member.kind == b"g":
        return {}
    return {"path" if member.kind == b"L" else "linkpath": _string(data)}


def next_member(source: ByteSource) -> Member | None:
    """The next member; its content must be taken or skipped before the next call. None at the end."""
    extras: dict[str, bytes] = {}
    for _ in range(_MAX_EXTRAS_IN_A_ROW):
        block = source.take(BLOCK_SIZE)
        if block == _ZERO:
            return None
        member = _parse(block)
        if member.kind not in (b"L", b"K", b"x", b"g"):
            return _with_extras(member, extras)
        extras.update(_extra(source, member))
    raise TornArchive("too many extra headers for one member")
