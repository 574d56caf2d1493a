"""Folders that only their owner may look into."""

from __future__ import annotations

from pathlib import Path

PRIVATE = 0o700


def make_private(path: Path) -> None:
    """Make `path`, and every missing folder above it, with mode 0700 from the first moment.

    Folders that exist keep their mode. Raises OSError.
    """
    for folder in (*reversed(path.parents), path):
        if not folder.is_dir():
            folder.mkdir(mode=PRIVATE, exist_ok=True)
