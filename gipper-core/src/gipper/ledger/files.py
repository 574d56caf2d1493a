"""The ledger's folder: which file is written now, which are closed, what was accepted."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from gipper.errors import LedgerError
from gipper.folders import make_private
from gipper.ledger.faults import is_out_of_room

_STATE: Final = "ledger.state"
_RESERVE: Final = "ledger.reserve"
_RESERVE_BYTES: Final = 64 * 1024
_NAME: Final = re.compile(r"ledger(?:-([2-9]|[1-9][0-9]+))?\.sqlite")


@attrs.frozen(kw_only=True)
class State:
    """`closed`: files that get no more receipts, and why; `accepted`: those that the user knows of."""

    closed: Mapping[str, str] = attrs.field(factory=dict)
    accepted: frozenset[str] = frozenset()


def file_name(number: int) -> str:
    """`ledger.sqlite`, `ledger-2.sqlite`, ..."""
    return "ledger.sqlite" if number == 1 else f"ledger-{number}.sqlite"


def existing(folder: Path) -> list[Path]:
    """The ledger files in order; none where there is no folder. Raises OSError."""
    try:
        names = [p.name for p in folder.iterdir()]
    except FileNotFoundError:
        return []
    found = {int(m[1] or 1): m[0] for m in map(_NAME.fullmatch, names) if m}
    return [folder / found[number] for number in sorted(found)]


def number_of(path: Path) -> int:
    """The number in a ledger file's name. Raises ValueError for another name."""
    match = _NAME.fullmatch(path.name)
    if match is None:
        raise ValueError(f"{path.name} is not a ledger file")
    return int(match[1] or 1)


def writing(folder: Path, state: State) -> Path:
    """The file that gets the next receipt; it may not exist yet."""
    number = 1
    while file_name(number) in state.closed or os.path.exists(f"{folder}/{file_name(number + 1)}"):  # noqa: PTH110 - on the way of every append
        number += 1
    return folder / file_name(number)


def load_state(folder: Path) -> State:
    """What is known of closed files; nothing where the file is missing or unreadable."""
    try:
        fd = os.open(f"{folder}/{_STATE}", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return State()
    try:
        with os.fdopen(fd, encoding="utf-8") as file:
            data = json.load(file)
        return State(closed=dict(data["closed"]), accepted=frozenset(data["accepted"]))
    except (ValueError, KeyError, TypeError):
        # Files that have a successor count as damaged all the same, and as not accepted.
        return State()


def save_state(folder: Path, state: State) -> None:
    """Replace what is known, durably; the caller holds the writers' lock. Raises OSError."""
    text = json.dumps({"closed": dict(state.closed), "accepted": sorted(state.accepted)}, indent=1)
    fresh = folder / (_STATE + ".new")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, text.encode())
        os.fsync(fd)
    finally:
        os.close(fd)
    fresh.replace(folder / _STATE)


def complaints(folder: Path, state: State) -> dict[str, str]:
    """File → reason for every closed or replaced file that the user hasn't accepted."""
    replaced = {p.name: "a later file took over" for p in existing(folder)[:-1]}
    found = {**replaced, **state.closed}
    return {name: why for name, why in found.items() if name not in state.accepted}


def create_private(path: Path) -> None:
    """Make an empty file with mode 0600 from its first byte, unless it exists. Raises OSError."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def sync_folder(folder: Path) -> None:
    """Make the folder's entries durable. Raises OSError."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_folder(folder: Path) -> None:
    """Make the folder (0700) where it is missing. Raises OSError."""
    make_private(folder)


def check_writable(folder: Path) -> None:
    """Raise LedgerError, with nothing created, where a ledger could not be written in `folder`."""
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise LedgerError(f"{place} is not a folder", hint="set GIPPER_DATA to a folder of yours")
    if not os.access(place, os.W_OK | os.X_OK):
        raise LedgerError(
            f"the ledger's folder {place} can't be written",
            hint=f"chmod u+rwx {place} (or chown it to you), or set GIPPER_DATA",
        )


def keep_reserve(folder: Path) -> None:
    """Hold 64 KiB that `free_reserve` can give back; on a disk that is full there is none."""
    path = folder / _RESERVE
    try:
        if path.exists() and path.stat().st_size == _RESERVE_BYTES:
            return
        if is_out_of_room(folder):
            return
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    except OSError:
        return
    try:
        # Noise, because a file system that compresses would hold no space for zeros.
        os.write(fd, os.urandom(_RESERVE_BYTES))
        os.fsync(fd)
    except OSError:
        path.unlink(missing_ok=True)
    finally:
        os.close(fd)


def free_reserve(folder: Path) -> bool:
    """Give the reserve back; False where there was none."""
    try:
        (folder / _RESERVE).unlink()
    except OSError:
        return False
    return True
