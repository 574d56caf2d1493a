"""What a remote folder holds, as one command tells it: everything's state, and what is open for writing."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple

import attrs

from gipper.errors import CommandTimeout, TransferError
from gipper.ssh.bytechannel import READ, ByteChannel
from gipper.transfer.names import Refuse, printable, split_name

Type = Literal["file", "dir", "other"]
_TYPES: Final[Mapping[bytes, Type]] = {b"f": "file", b"d": "dir"}
_NS: Final = 1_000_000_000
# A list of a million files; a stranger must not fill our memory.
_LIMIT: Final = 256 << 20


class State(NamedTuple):
    """One thing on the machine. A file in two equal states has the same content, as far as one can tell."""

    type: Type
    size: int
    mtime_ns: int
    inode: int


@attrs.frozen(kw_only=True)
class Listing:
    """`things` by path below the source ("" = the file that it is). `now_s` is the machine's clock.

    `exact`: times to the nanosecond, else whole seconds. `writing`: paths open for writing. `refused`:
    one line for each name that can't come home.
    """

    folder: bool
    gnu: bool
    exact: bool
    now_s: int
    things: Mapping[str, State]
    writing: frozenset[str]
    refused: tuple[str, ...] = ()


def read_listing(channel: ByteChannel, mark: str, source: str) -> Listing | Literal["absent", "plain"]:
    """Read the answer to `scripts.listing`. Raises TransferError where it makes no sense."""
    data = read_all(channel)
    head, _, rest = data.partition(b"\n")
    words = head.decode("ascii", "replace").split()
    if words == ["absent"]:
        return "absent"
    if words == ["plain"]:
        return "plain"
    parts = rest.split(f"{mark}\n".encode())
    if len(words) != 4 or len(parts) != 3 or not words[3].isdigit():
        raise TransferError(f"the machine's list of {source} makes no sense", hint="fetch again")
    here, _, opened = parts[0].partition(b"\n")
    folder, exact = words[0] == "folder", words[2] == "exact"
    things, refused = _things(records(parts[1], exact=exact), single=not folder)
    return Listing(
        folder=folder,
        gnu=words[1] == "gnu",
        exact=exact,
        now_s=int(words[3]),
        things=things,
        writing=below(here, opened) if folder else frozenset(),
        refused=tuple(refused),
    )


def read_all(channel: ByteChannel) -> bytes:
    """All that the command prints, then its end. Raises TransferError beyond 256 MiB."""
    pieces: list[bytes] = []
    size = 0
    while data := channel.read(READ):
        pieces.append(data)
        size += len(data)
        if size > _LIMIT:
            raise TransferError("the machine's list is endless", hint="bring home fewer files")
    try:
        channel.status(30.0)
    except CommandTimeout as error:
        raise TransferError("the machine's list has no end", hint="fetch again") from error
    return b"".join(pieces)


def records(data: bytes, *, exact: bool) -> Iterator[tuple[bytes, State]]:
    """The (name, state) pairs of a listing; what doesn't parse is passed over."""
    parse = _exact if exact else _coarse
    for line in data.split(b"\0" if exact else b"\n"):
        fields = line.split(b" ", 4)
        if len(fields) == 5:
            try:
                yield fields[4], parse(fields)
            except ValueError:
                continue


def below(here: bytes, opened: bytes) -> frozenset[str]:
    """Those of the absolute paths in `opened` (a line each) that lie below `here`, relative to it."""
    top = here.rstrip(b"/") + b"/"
    return frozenset(os.fsdecode(p[len(top) :]) for p in opened.split(b"\n") if p.startswith(top))


def _exact(fields: list[bytes]) -> State:
    whole, _, part = fields[2].partition(b".")
    ns = int(whole) * _NS + int(part[:9].ljust(9, b"0"))
    return State(_TYPES.get(fields[0], "other"), int(fields[1]), ns, int(fields[3]))


def _coarse(fields: list[bytes]) -> State:
    mode = int(fields[0], 16)
    kind: Type = "file" if stat.S_ISREG(mode) else "dir" if stat.S_ISDIR(mode) else "other"
    return State(kind, int(fields[1]), int(fields[2]) * _NS, int(fields[3]))


def _things(found: Iterator[tuple[bytes, State]], *, single: bool) -> tuple[dict[str, State], list[str]]:
    things: dict[str, State] = {}
    refused: list[str] = []
    for name, state in found:
        try:
            parts = split_name(name)
        except Refuse as why:
            refused.append(f"{printable(name)}: {why}")
            continue
        if parts:
            things["" if single else os.fsdecode(b"/".join(parts))] = state
    return things, refused
