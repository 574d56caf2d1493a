"""What the distributions ask of an environment."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = sorted([*ROOT.glob("gipper-*/pyproject.toml"), *ROOT.glob("examples/*/pyproject.toml")])


def _requirements(path: Path) -> list[str]:
    project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    optional = project.get("optional-dependencies", {}).values()
    return [*project.get("dependencies", ()), *(line for lines in optional for line in lines)]


@pytest.mark.parametrize("path", PROJECTS, ids=lambda path: path.parent.name)
def test_every_dependency_has_a_lower_bound_and_no_upper(path: Path) -> None:
    """An upper bound breaks whoever installs us beside something newer."""
    wanted = _requirements(path)
    odd = [line for line in wanted if not re.fullmatch(r"[A-Za-z0-9._\[\]-]+>=[0-9][0-9.a-z]*", line)]
    assert wanted
    assert not odd, f"{path.parent.name}: {odd}"
