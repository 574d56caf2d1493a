"""Removing a machine's folder, whatever a job has left in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def remove_tree(root: Path, *, last: str) -> None:
    """Delete `root`; the file `last` in it goes when all else is gone. No error where `root` is absent.

    Copes with read-only trees, odd modes, and depths beyond what a path can say: subfolders are hoisted
    to the top before they are emptied. Links are removed, never followed. Raises OSError.
    """
    try:
        root.chmod(0o700)
        _clear(root, last)
        (root / last).unlink(missing_ok=True)
        root.rmdir()
    except FileNotFoundError:
        if root.exists():
            raise


def _clear(root: Path, last: str) -> None:
    names = _fresh_names(root)
    while True:
        entries = [e for e in _entries(root) if e.name != last]
        if not entries:
            return
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _empty(root / entry.name, root, names)
            else:
                (root / entry.name).unlink(missing_ok=True)


def _empty(folder: Path, root: Path, names: Iterator[str]) -> None:
    folder.chmod(0o700)
    for entry in _entries(folder):
        inner = folder / entry.name
        if entry.is_dir(follow_symlinks=False):
            # Moving a folder rewrites its "..", for which it must be writable itself.
            inner.chmod(0o700)
            inner.rename(root / next(names))
        else:
            inner.unlink(missing_ok=True)
    folder.rmdir()


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        return list(found)


def _fresh_names(root: Path) -> Iterator[str]:
    number = 0
    while True:
        number += 1
        name = f".hoisted-{number}"
        if not os.path.lexists(root / name):
            yield name
