"""The list of allowed hooks files: private, whole, read strictly."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gipper.errors import ConfigError
from gipper.jobhooks_source import Source
from gipper.jobhooks_trust import Trust

NOW = datetime(2026, 12, 1, tzinfo=UTC)


def source(name: str, text: bytes = b"x") -> Source:
    return Source(path=Path("/w") / name, text=text)


def test_it_remembers_each_content_of_a_path(data):
    """Two contents of one path stay allowed side by side; the same one again only renews its time."""
    trust = Trust(data)
    trust.allow([source("a.py", b"1"), source("b.py")], NOW)
    trust.allow([source("a.py", b"2")], NOW)
    trust.allow([source("b.py")], NOW.replace(year=2027))
    assert [(e.path.name, e.allowed.year) for e in trust.entries()] == [
        ("a.py", 2026), ("a.py", 2026), ("b.py", 2027),
    ]  # fmt: skip
    assert trust.revoke([Path("/w/a.py")]) == 2 and trust.revoke([Path("/w/a.py")]) == 0
    assert [e.path.name for e in trust.entries()] == ["b.py"]


def test_it_is_private_from_the_first_byte(data):
    """The file is 600 and its new folder 700 under any umask; nothing half-written stays."""
    old = os.umask(0)
    try:
        Trust(data).allow([source("a.py")], NOW)
    finally:
        os.umask(old)
    assert Trust(data).file.stat().st_mode & 0o777 == 0o600 and data.stat().st_mode & 0o777 == 0o700
    assert not list(data.glob("*.new"))


def test_writers_side_by_side_lose_nothing(data):
    """Many that allow at once: each entry is there."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: Trust(data).allow([source(f"{n}.py")], NOW), range(40)))
    assert len(Trust(data).entries()) == 40


GOOD = {"path": "/w/a.py", "sha256": "0" * 64, "allowed": "2026-12-01T00:00:00+00:00"}
BAD = {
    "no json": "{",
    "empty": "",
    "list": "[]",
    "no schema": '{"allowed": []}',
    "more keys": '{"schema": 1, "allowed": [], "x": 1}',
    "null": '{"schema": 1, "allowed": null}',
    "relative": json.dumps({"schema": 1, "allowed": [{**GOOD, "path": "a.py"}]}),
    "short hash": json.dumps({"schema": 1, "allowed": [{**GOOD, "sha256": "00"}]}),
    "no zone": json.dumps({"schema": 1, "allowed": [{**GOOD, "allowed": "2026-12-01T00:00:00"}]}),
    "entry of text": '{"schema": 1, "allowed": ["x"]}',
    "deep": "[" * 100_000,
    "newer": '{"schema": 2, "allowed": []}',
}


@pytest.mark.parametrize("case", BAD)
def test_a_list_that_gipper_did_not_write_is_refused(data, case):
    """It is named, nothing is allowed by it, and nothing overwrites it."""
    trust = Trust(data)
    data.mkdir()
    trust.file.write_text(BAD[case])
    trust.file.chmod(0o600)
    for call in (trust.entries, lambda: trust.allow([source("a.py")], NOW)):
        with pytest.raises(ConfigError) as error:
            call()
        assert str(trust.file) in error.value.message and error.value.hint
    assert trust.file.read_text() == BAD[case]


def test_a_list_that_others_can_write_is_refused(data):
    """Whoever could write it could allow their own code; the chmod that mends it is told."""
    trust = Trust(data)
    trust.allow([source("a.py")], NOW)
    trust.file.chmod(0o620)
    with pytest.raises(ConfigError, match="others can write") as error:
        trust.entries()
    assert error.value.hint == f"chmod 600 {trust.file}"
