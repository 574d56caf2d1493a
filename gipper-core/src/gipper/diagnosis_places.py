"""Doctor on this computer's side: folders, disks, permissions, the dotenv, the SSH key."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gipper.diagnosis_finding import Finding, trouble, warning, well

if TYPE_CHECKING:
    from gipper.core import Gipper

_LEAST_FREE: Final = 1 << 30
_MUCH: Final = 1 << 30
_IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})


def data_folder(gipper: Gipper) -> Iterator[Finding]:
    """Can it be written, is there room, will its locks and its bytes hold."""
    from gipper.installation import is_network_filesystem

    folder = gipper.paths.data_folder
    place = next(p for p in (folder, *folder.parents) if p.exists())
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        yield trouble("data folder", f"{folder} can't be written", "mend its permissions, or set GIPPER_DATA")
        return
    yield well("data folder", str(folder))
    free = shutil.disk_usage(place).free
    if free < _LEAST_FREE:
        yield warning("data folder", f"only {free / 1e6:,.0f} MB are free there", "make room on that disk")
    if is_network_filesystem(place):
        yield warning(
            "data folder", f"{folder} is on a network file system, where locks may not hold",
            "set GIPPER_DATA to a folder on a local disk",
        )  # fmt: skip
    if _kind_of_disk(place) in _IN_MEMORY:
        yield warning(
            "data folder", f"{folder} is in memory: a restart loses the ledger, and which machines run",
            "set GIPPER_DATA to a folder on a disk",
        )  # fmt: skip
    if folder.exists() and folder.stat().st_mode & 0o077:
        yield warning("data folder", f"others can look into {folder}", f"chmod 700 {_word(folder)}")


def runs(gipper: Gipper) -> Iterator[Finding]:
    """How much the folders of all runs hold."""
    folder = gipper.paths.data_folder / "runs"
    if not folder.is_dir():
        return
    found = [p for p in folder.iterdir() if p.is_dir()]
    size = sum(_size(p) for p in found)
    text = f"{len(found)} run folders, {size / 1e6:,.1f} MB in {folder}"
    if size < _MUCH:
        yield well("runs", text)
        return
    largest = max(found, key=_size)
    yield warning(
        "runs", f"{text}; the largest is {largest.name}",
        f"rm -r {_word(largest)} once you no longer need its log (`gipper pod proof {largest.name}` first)",
    )  # fmt: skip


def keys_folder(gipper: Gipper) -> Iterator[Finding]:
    """The folder of gipper's own SSH key, and the key: nobody else may read or replace it."""
    folder = gipper.paths.keys_folder
    key = folder / "id_ed25519"
    if folder.exists() and folder.stat().st_mode & 0o022:
        yield trouble("keys folder", f"others can replace what is in {folder}", f"chmod 700 {_word(folder)}")
    if not key.exists():
        yield well("ssh key", f"{key} is made at first use")
    elif _shared(key):
        yield trouble("ssh key", f"others can read {key}", f"chmod 600 {_word(key)}")
    else:
        yield well("ssh key", str(key))


def dotenv(gipper: Gipper) -> Iterator[Finding]:
    """Which dotenv counts, whether it is there, and whether it is private."""
    named = gipper.paths.dotenv
    file = named or gipper.paths.dotenv_beside_config
    if not file.exists():
        if named is not None:
            yield warning(
                "dotenv", f"GIPPER_ENV names {file}, which doesn't exist: no other dotenv counts",
                "write it, or unset GIPPER_ENV",
            )  # fmt: skip
        return
    if file.is_file() and _shared(file):
        yield trouble(
            "dotenv", f"others can read {file}: no key is taken from it", f"chmod 600 {_word(file)}"
        )
    elif not os.access(file, os.R_OK):
        yield trouble("dotenv", f"{file} can't be read", f"look at ls -l {_word(file)}")
    else:
        yield well("dotenv", str(file))


def _kind_of_disk(place: Path) -> str:
    from gipper.installation import filesystem_type

    try:
        mounts = Path("/proc/self/mountinfo").read_text(errors="replace")
    except OSError:
        return ""
    return filesystem_type(mounts, place.resolve())


def _shared(file: Path) -> bool:
    return bool(stat.S_IMODE(file.stat().st_mode) & 0o077)


def _size(folder: Path) -> int:
    return sum(p.lstat().st_size for p in folder.rglob("*") if p.is_file() and not p.is_symlink())


def _word(path: Path) -> str:
    return shlex.quote(str(path))
