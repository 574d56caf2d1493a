"""Lets custody's tests import their shared helpers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from custody_world import Incident


@pytest.fixture
def incident(own_folders: Path) -> Incident:
    """An empty ledger in the user's own data folder, in simulated time."""
    return Incident(own_folders / "data")
