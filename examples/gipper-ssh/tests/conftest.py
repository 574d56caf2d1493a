"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support_box import Box

pytest_plugins = ["gipper.testing.pytest_plugin"]


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    """A box that is up; at the test's end nothing of it is left."""
    (tmp_path / "box").mkdir()
    with Box(tmp_path / "box") as box:
        yield box
