"""`gipper ledger`, `verify`, `export`."""

from __future__ import annotations

import hashlib
import json
import stat
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from gipper.cli.options import parse_moment
from gipper.ledger.store import SqliteLedger
from gipper.runtime import RealRuntime
from gipper.values.receipts import CustodyNote, RunEnd, Spend

SCRIPT = str(Path(sys.executable).parent / "gipper")


def _gipper(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SCRIPT, *args], capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def ledger(own_folders: Path) -> Iterator[SqliteLedger]:
    """Three receipts of two runs."""
    store = SqliteLedger.open(own_folders / "data", RealRuntime())
    spend = Spend(
        provider="p", pod="1", usd=Decimal("0.5"), seconds=1.0, usd_h=Decimal("1"), basis="computed"
    )
    store.append(spend, run="aaa", refs={"name": "größe"})
    store.append(RunEnd(outcome="succeeded", reason=""), run="aaa")
    store.append(CustodyNote(provider="p", text="t", by="me"), run="bbb")
    yield store
    store.close()


def _lines(*args: str) -> list[dict]:
    done = _gipper("ledger", *args)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_receipts_are_raw(ledger: SqliteLedger) -> None:
    """Each line is a whole receipt as it was hashed: the next one's `prev` is the line's own SHA-256."""
    done = _gipper("ledger")
    lines = done.stdout.splitlines()
    receipts = [json.loads(line) for line in lines]
    assert [r["kind"] for r in receipts] == ["spend", "run.end", "custody.note"]
    assert receipts[0]["payload"]["usd"] == "0.500000"
    for line, following in zip(lines, receipts[1:], strict=False):
        assert hashlib.sha256(line.encode()).hexdigest() == following["prev"]


def test_filters_narrow(ledger: SqliteLedger) -> None:
    """--job, --kind and --since narrow, also together."""
    assert [r["seq"] for r in _lines("--job", "aaa")] == [1, 2]
    assert [r["seq"] for r in _lines("--kind", "spend", "--kind", "custody.note")] == [1, 3]
    assert [r["seq"] for r in _lines("--job", "aaa", "--kind", "run.end")] == [2]
    assert _lines("--since", "2999-01-01") == []
    assert len(_lines("--since", "1d")) == 3


def test_a_misspelt_kind_is_told(ledger: SqliteLedger) -> None:
    """A kind that doesn't exist isn't an empty answer."""
    done = _gipper("ledger", "--kind", "spent")
    assert done.returncode == 2
    assert "next: gipper ledger --kind spend" in done.stderr


def test_verify_says_whole(ledger: SqliteLedger) -> None:
    """A whole ledger: exit 0 and how many receipts."""
    done = _gipper("ledger", "verify")
    assert done.returncode == 0, done.stderr
    assert "3 receipts, whole" in done.stdout


def test_verify_without_a_ledger(own_folders: Path) -> None:
    """Nothing written yet is whole, and verifying makes nothing."""
    assert _gipper("ledger", "verify").returncode == 0
    assert not (own_folders / "data").exists()


def test_verify_finds_a_change(ledger: SqliteLedger, own_folders: Path) -> None:
    """An altered receipt: exit 2, what is wrong, and how to go on; after --accept it is known."""
    ledger.close()
    _alter(own_folders / "data")
    done = _gipper("ledger", "verify")
    assert done.returncode == 2
    assert "problem: " in done.stdout
    assert "--accept" in done.stderr
    assert "Traceback" not in done.stderr
    assert _gipper("ledger", "verify", "--accept").returncode == 0
    assert {1, 2, 3} <= {r["seq"] for r in _lines()}


def _alter(folder: Path) -> None:
    """Change a word of a receipt behind SQLite's back, length kept."""
    changed = 0
    for file in folder.rglob("*"):
        if file.is_file() and b"succeeded" in (data := file.read_bytes()):
            file.write_bytes(data.replace(b"succeeded", b"sacceeded"))
            changed += 1
    assert changed


def test_export_copies_to_a_private_new_file(ledger: SqliteLedger, own_folders: Path) -> None:
    """The copy holds the same lines, can be read by its owner alone, and replaces nothing."""
    copy = own_folders / "copy.jsonl"
    assert _gipper("ledger", "export", str(copy)).returncode == 0
    assert copy.read_text(encoding="utf-8") == _gipper("ledger").stdout
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    again = _gipper("ledger", "export", str(copy))
    assert again.returncode == 2
    assert "exists already" in again.stderr


def test_export_to_stdout(ledger: SqliteLedger) -> None:
    """Without a file, the copy goes to stdout."""
    assert _gipper("ledger", "export").stdout == _gipper("ledger").stdout


def test_head_ends_quietly(ledger: SqliteLedger) -> None:
    """`gipper ledger | head -n 1` prints one line and no complaint."""
    piped = subprocess.run(
        ["sh", "-c", f"{SCRIPT} ledger | head -n 1"], capture_output=True, text=True, timeout=60, check=False
    )
    assert piped.stderr == ""
    assert len(piped.stdout.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-01", datetime(2026, 11, 1, tzinfo=UTC)),
        ("2026-11-01T12:30", datetime(2026, 11, 1, 12, 30, tzinfo=UTC)),
        ("2026-11-01T12:30:00+02:00", datetime(2026, 11, 1, 10, 30, tzinfo=UTC)),
        ("2026-11-01T12:30:00Z", datetime(2026, 11, 1, 12, 30, tzinfo=UTC)),
        ("7d", datetime(2026, 11, 23, 12, tzinfo=UTC)),
        ("90m", datetime(2026, 11, 30, 10, 30, tzinfo=UTC)),
        ("2w", datetime(2026, 11, 16, 12, tzinfo=UTC)),
    ],
)
def test_moments(text: str, moment: datetime) -> None:
    """Dates, times and ages; without a zone, UTC."""
    assert parse_moment(text, datetime(2026, 11, 30, 12, tzinfo=UTC)) == moment


@pytest.mark.parametrize("text", ["", "d", "-1d", "7x", "yesterday", "2026-13-01", "1.5d"])
def test_no_moment(text: str) -> None:
    """What is none of them is refused, not guessed."""
    with pytest.raises(ValueError):
        parse_moment(text, datetime(2026, 11, 30, tzinfo=UTC))


def test_the_calendar_has_a_begin() -> None:
    """A moment before the calendar begins is wrong use, not a crash."""
    done = _gipper("ledger", "--since", "0001-01-01T00:00+05:00")
    assert done.returncode == 2
    assert "no date" in done.stderr
