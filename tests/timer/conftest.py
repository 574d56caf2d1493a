"""A user with fake tools."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from timer_world import User


@pytest.fixture
def user(own_folders: Path) -> User:
    """Nothing on PATH yet."""
    return User(own_folders)
