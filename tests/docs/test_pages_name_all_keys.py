"""The pages on the job file and the settings name every key that there is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from gipper.schema import job_schema
from gipper.values.settings import CustodySettings, Limits, PluginChoices, SafetySettings, Settings

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"


def _keys(schema: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[str]:
    """Dotted names of all keys that hold a value."""
    inner = schema.get("items", schema)
    for key, one in inner.get("properties", {}).items():
        below = list(_keys(one, (*path, key)))
        yield from below or [".".join((*path, key))]


def test_the_job_file_page_names_every_key() -> None:
    """Each key of the schema has its row."""
    page = (DOCS / "job-file.md").read_text(encoding="utf-8")
    missing = [k for k in _keys(job_schema({})) if f"| `{k}` |" not in page and k != "provider"]
    assert not missing and "[provider.NAME]" in page


@pytest.mark.parametrize("cls", [Settings, Limits, PluginChoices, CustodySettings, SafetySettings])
def test_the_settings_page_names_every_key(cls: type) -> None:
    """Each setting is named, each number with the default that it has."""
    page = (DOCS / "settings.md").read_text(encoding="utf-8")
    for field in attrs.fields(cls):
        assert f"`{field.name}`" in page or f"`[{field.name}]`" in page, field.name
        if isinstance(field.default, float):
            row = re.search(rf"^\| `{field.name}` \| ([0-9.]+) \|", page, re.MULTILINE)
            assert row is not None and float(row[1]) == field.default


def test_the_example_is_a_job(tmp_path: Path) -> None:
    """The job that the page shows is accepted."""
    from gipper.job import load

    page = (DOCS / "job-file.md").read_text(encoding="utf-8")
    shown = re.search(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert shown is not None
    (tmp_path / "data").mkdir()
    (tmp_path / "job.toml").write_text(shown[1], encoding="utf-8")
    assert load(tmp_path / "job.toml").name == "train"
