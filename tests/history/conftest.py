"""Lets the history's tests import their shared helpers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from history_world import Trail


@pytest.fixture
def trail(own_folders: Path) -> Trail:
    """An empty ledger in the user's own data folder."""
    return Trail(own_folders / "data")
