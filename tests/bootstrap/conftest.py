"""Bare machines, one for each shell."""

from __future__ import annotations

from pathlib import Path

import pytest
from bootstrap.bare_machine import SHELLS, BareMachine


@pytest.fixture(params=sorted(SHELLS))
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> BareMachine:
    """A bare machine, once with each shell."""
    return BareMachine(tmp_path / "machine", request.param)


@pytest.fixture
def one(tmp_path: Path) -> BareMachine:
    """A bare machine with dash, for what doesn't depend on the shell."""
    return BareMachine(tmp_path / "machine")
