"""Lets the ledger's tests import their shared helpers, and mounts small file systems."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support_root import tmpfs

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    with tmpfs(tmp_path / "disk", "1m") as place:
        yield place
