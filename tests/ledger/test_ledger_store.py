"""The ledger's contract: order, filters, transactions, permissions, clear errors."""

from __future__ import annotations

import io
import json
import sqlite3
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from ledger_world import RUN, filled, note, opened, settle, texts
from support_root import need_root

from gipper import ledger
from gipper.errors import LedgerError
from gipper.ledger import reading
from gipper.ledger.chain import GENESIS
from gipper.ledger.store import SqliteLedger
from gipper.runtime import RealRuntime
from gipper.values.receipts import CustodyNote, Shell, Spend, SpendBilled, stamp


def spend(usd: str) -> Spend:
    """A receipt with dollars."""
    return Spend(
        provider="local", pod="m-1", usd=Decimal(usd), seconds=60.0, usd_h=Decimal("0.5"), basis="exact"
    )


def test_a_ledger_that_does_not_exist_is_empty_and_stays_so(tmp_path: Path) -> None:
    """Opening and reading create nothing, writable or not."""
    for writable in (True, False):
        store = opened(tmp_path / "data", writable=writable)
        assert list(store.read()) == []
        assert list(store.read(kinds=["spend"], run="x")) == []
        assert store.verify().whole
        assert store.damaged is None
        store.close()
    assert not (tmp_path / "data").exists()


def test_receipts_come_back_as_they_were_stored(tmp_path: Path) -> None:
    """Dollars return as Decimal, times as UTC with microseconds, ids are unique, the first prev is zeros."""
    store = opened(tmp_path)
    first = store.append(spend("1.25"), run=RUN, refs={"name": "job"})
    bill = SpendBilled(
        provider="local", pod="m-1", usd=Decimal(2), detail={"gpu": Decimal("1.5")}, basis="bill"
    )
    second = store.append(bill, run=RUN)
    store.close()
    again = list(ledger.read(folder=tmp_path))
    assert again == [first, second]
    assert first.prev == GENESIS and first["usd"] == Decimal("1.250000")
    assert again[1]["detail"]["gpu"] == Decimal("1.500000")
    assert first["job"] == first["run"] == RUN and first.refs == {"name": "job"}
    assert first.ts.tzinfo is UTC and len({r.id for r in again}) == 2


def test_filters_narrow_and_ends_are_half_open(tmp_path: Path) -> None:
    """since is inclusive, until exclusive, and kinds, run and after_seq each narrow."""
    store = opened(tmp_path)
    notes = [store.append(note(str(i)), run=f"run{i % 2}") for i in range(6)]
    store.append(spend("1"), run=None)
    moment = notes[3].ts
    assert [r.seq for r in store.read(since=moment)] == [4, 5, 6, 7]
    assert [r.seq for r in store.read(until=moment)] == [1, 2, 3]
    assert [r.seq for r in store.read(since=moment, until=notes[5].ts, kinds=["custody.note"])] == [4, 5]
    assert [r.seq for r in store.read(run="run1")] == [2, 4, 6]
    assert [r.seq for r in store.read(run="run1", since=moment, after_seq=4)] == [6]
    assert [r.seq for r in store.read(kinds=["spend"])] == [7]
    assert list(store.read(kinds=[])) == list(store.read(run="\udcff")) == []
    zone = moment.astimezone(tz=None)
    assert [r.seq for r in store.read(since=zone)] == [4, 5, 6, 7]
    store.close()


def test_a_filtered_read_uses_an_index(tmp_path: Path) -> None:
    """The queries for kinds with a time and for a run are answered from an index alone."""
    from gipper.ledger import reading

    filled(tmp_path, 3)
    conn = sqlite3.connect(tmp_path / "ledger.sqlite")
    plans = [
        str(conn.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall())
        for sql, values in [(reading._BY_KIND, ("k", "", "~", 0)), (reading._BY_RUN, ("r", 0))]
    ]
    conn.close()
    assert all("COVERING INDEX" in plan and "SCAN" not in plan for plan in plans), plans


def test_a_read_shows_what_is_appended_while_it_runs_or_not_but_never_breaks(tmp_path: Path) -> None:
    """A generator that is consumed slowly survives appends in between."""
    store = opened(tmp_path)
    for i in range(3):
        store.append(note(str(i)), run=RUN)
    reading = store.read()
    first = next(reading)
    store.append(note("later"), run=RUN)
    assert [first.seq, *(r.seq for r in reading)][:3] == [1, 2, 3]
    store.close()


def test_a_transaction_that_raises_stores_nothing(tmp_path: Path) -> None:
    """Everything appended in it is gone, the error passes through unchanged, and the chain is whole."""
    store = opened(tmp_path)
    store.append(note("before"), run=RUN)
    with pytest.raises(FileNotFoundError), store.transaction() as tx:
        tx.append(note("inside"), run=RUN)
        assert len(list(tx.read())) == 2
        raise FileNotFoundError("user code")
    store.append(note("after"), run=RUN)
    assert store.verify().whole
    store.close()
    assert texts(tmp_path) == ["before", "after"]


def test_appends_in_a_transaction_are_told_to_observers_after_it(tmp_path: Path) -> None:
    """An observer runs outside the lock: it may append itself, and its failure is a note."""
    heard: list[str] = []
    notes: list[str] = []

    def observe(receipt: object) -> None:
        heard.append(receipt["text"])  # type: ignore[index]
        if heard[-1] == "one":
            store.append(note("from the observer"), run=None)
        if heard[-1] == "two":
            raise RuntimeError("broken plugin")

    store = opened(tmp_path, observers=observe, notes=notes)
    with store.transaction() as tx:
        tx.append(note("one"), run=RUN)
        tx.append(note("two"), run=RUN)
        assert heard == []
    assert heard == ["one", "from the observer", "two"]
    assert len(notes) == 1 and "broken plugin" in notes[0]
    with pytest.raises(LedgerError):
        tx.append(note("too late"), run=RUN)
    store.close()


def test_a_store_opened_for_reading_refuses_to_write(tmp_path: Path) -> None:
    """Nothing is created and the error is gipper's own."""
    store = opened(tmp_path / "x", writable=False)
    with pytest.raises(LedgerError):
        store.append(note("n"), run=RUN)
    with pytest.raises(LedgerError), store.transaction():
        raise AssertionError("not reached")
    assert not (tmp_path / "x").exists()


def test_folder_and_files_are_private_from_the_start(tmp_path: Path) -> None:
    """0700 and 0600 whatever the umask, including what SQLite itself creates."""
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[2]); os.umask(0)\n"
        "from pathlib import Path; from ledger_world import *\n"
        "store = opened(Path(sys.argv[1])); store.append(note('n'), run=RUN)\n"
        "import stat\n"
        "print([oct(stat.S_IMODE(p.stat().st_mode)) for p in Path(sys.argv[1]).iterdir()])"
    )
    folder = tmp_path / "data"
    out = subprocess.run(
        [sys.executable, "-c", code, str(folder), str(Path(__file__).parent)],
        check=True,
        capture_output=True,
        text=True,
    )
    assert set(json.loads(out.stdout.replace("'", '"'))) == {"0o600"}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_triggers_keep_rows_as_they_are(tmp_path: Path) -> None:
    """UPDATE, DELETE, a seq out of order, INSERT OR REPLACE by seq and by id are all refused."""
    receipts = filled(tmp_path, 3)
    conn = sqlite3.connect(tmp_path / "ledger.sqlite", isolation_level=None)
    row = conn.execute("SELECT * FROM receipts WHERE seq = 3").fetchone()
    marks = "(?,?,?,?,?,?,?,?)"
    refused = [
        ("UPDATE receipts SET payload = '{}' WHERE seq = 2", ()),
        ("DELETE FROM receipts WHERE seq = 3", ()),
        (f"INSERT INTO receipts VALUES {marks}", (5, "new", *row[2:])),
        (f"INSERT INTO receipts VALUES {marks}", (None, "new", *row[2:])),
        (f"INSERT OR REPLACE INTO receipts VALUES {marks}", (3, "new", *row[2:])),
        (f"INSERT OR REPLACE INTO receipts VALUES {marks}", (4, receipts[0].id, *row[2:])),
        (f"INSERT OR IGNORE INTO receipts VALUES {marks}", (2, "new", *row[2:])),
    ]
    for sql, values in refused:
        with pytest.raises(sqlite3.IntegrityError):
            conn.execute(sql, values)
    conn.close()
    assert list(ledger.read(folder=tmp_path)) == receipts


def test_not_a_folder_is_a_clear_error(tmp_path: Path) -> None:
    """A file where the data folder should be ends with exit code 2 and a hint."""
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(LedgerError) as caught:
            opened(folder)
        assert caught.value.exit_code == 2 and caught.value.hint


def test_an_unwritable_folder_is_a_clear_error_and_still_readable(tmp_path: Path) -> None:
    """Another user's ledger: writing ends in LedgerError; it can be read without write access."""
    need_root("to become another user")
    filled(tmp_path / "data", 2)
    settle(tmp_path / "data")
    for path in [tmp_path / "data", *(tmp_path / "data").iterdir()]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[2])\n"
        "from pathlib import Path; from ledger_world import *; from gipper.errors import LedgerError\n"
        "folder = Path(sys.argv[1]); data = folder / 'data'; closed = folder / 'closed'\n"
        "import gipper.ledger.store\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "for place, write in ((data, True), (closed, False), (folder / 'new', True)):\n"
        "    try: opened(place, writable=write); print('opened')\n"
        "    except LedgerError as e: print(type(e).__name__, bool(e.hint))\n"
        "print(texts(data))"
    )
    filled(tmp_path / "closed", 1)
    for place in [tmp_path, *list(tmp_path.parents)[:-2]]:
        place.chmod(place.stat().st_mode | 0o055)
    tmp_path.chmod(0o755)
    out = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), str(Path(__file__).parent)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert out.stdout.splitlines() == [*["LedgerError True"] * 3, "['n1', 'n2']"], out.stderr


def test_a_later_schema_is_refused_with_its_number(tmp_path: Path) -> None:
    """A ledger of a newer gipper is neither read nor written, and the number is named."""
    filled(tmp_path, 1)
    conn = sqlite3.connect(tmp_path / "ledger.sqlite")
    conn.execute("PRAGMA user_version = 7")
    conn.close()
    for writable in (True, False):
        with pytest.raises(LedgerError, match="schema 7"):
            opened(tmp_path, writable=writable)


def test_export_is_one_json_line_each_over_which_the_hash_is_made(tmp_path: Path) -> None:
    """Each line's SHA-256 is the next line's prev; dollars are strings with six decimals."""
    import hashlib

    store = opened(tmp_path)
    store.append(spend("1.5"), run=RUN)
    store.append(note("naïve ☃ \udcff"), run=RUN)
    store.append(note("x"), run=None)
    out = io.StringIO()
    assert ledger.export(store, out) == 3
    lines = out.getvalue().splitlines()
    data = [json.loads(line) for line in lines]
    assert [hashlib.sha256(line.encode()).hexdigest() for line in lines[:-1]] == [d["prev"] for d in data[1:]]
    assert data[0]["payload"]["usd"] == "1.500000"
    assert lines[0] == json.dumps(data[0], ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    store.close()


def test_a_run_keeps_its_own_copy_of_receipts(tmp_path: Path) -> None:
    """They are appended to the run's folder if it exists, privately; without a folder nothing is made."""
    runs = tmp_path / "runs"
    (runs / "a").mkdir(parents=True)
    store = opened(tmp_path / "data", run_folder=lambda run: runs / run)
    receipt = store.append(note("kept"), run="a")
    store.append(note("elsewhere"), run="b")
    store.close()
    copy = runs / "a" / "receipts.jsonl"
    assert [json.loads(line)["id"] for line in copy.read_text().splitlines()] == [receipt.id]
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert not (runs / "b").exists()


def test_module_read_uses_the_environments_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ledger.read` finds GIPPER_DATA and answers by job, kinds and time."""
    monkeypatch.setenv("GIPPER_DATA", str(tmp_path))
    receipts = filled(tmp_path, 3)
    assert list(ledger.read(job=RUN)) == receipts
    soon = datetime.now(UTC) + timedelta(days=1)
    assert list(ledger.read(since=soon)) == list(ledger.read(kinds=["spend"])) == []
    assert list(ledger.read(until=receipts[1].ts)) == receipts[:1]


def test_importing_the_ledger_loads_nothing_heavy(tmp_path: Path) -> None:
    """Neither HTTP nor SSH nor tables nor structuring libraries come with it."""
    code = (
        "import sys; from gipper import ledger; import gipper.ledger.store\n"
        "print(sorted({'requests','paramiko','rich','cattrs','cryptography','pluggy'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout.strip() == "[]"


def test_stamps_sort_like_times(tmp_path: Path) -> None:
    """The stored time of every receipt is UTC with six digits and a Z."""
    (receipt,) = filled(tmp_path, 1)
    conn = sqlite3.connect(tmp_path / "ledger.sqlite")
    (text,) = conn.execute("SELECT ts FROM receipts").fetchone()
    conn.close()
    assert text == stamp(receipt.ts) and len(text) == 27 and text.endswith("Z")


def test_a_transaction_that_could_not_begin_leaves_none_open(tmp_path: Path) -> None:
    """When the head file can't be brought up, the next append works as soon as it can."""
    from gipper.ledger import head

    store = opened(tmp_path)
    receipts = [store.append(note(str(i)), run="run-\udcff") for i in range(3)]
    head.write(tmp_path, head.Head(2, receipts[2].prev))
    right = (tmp_path / head.NAME).read_bytes()
    (tmp_path / head.NAME).unlink()
    (tmp_path / head.NAME).mkdir()
    for _ in range(2):
        with pytest.raises(LedgerError):
            store.append(note("n"), run=RUN)
    (tmp_path / head.NAME).rmdir()
    (tmp_path / head.NAME).write_bytes(right)
    assert store.append(note("n"), run=RUN).seq == 4
    assert store.verify().whole
    store.close()


def test_a_read_by_kinds_ends_where_it_began(tmp_path: Path) -> None:
    """What is stored while a read asks kind by kind is in none of its answers, or in all up to there."""
    store = SqliteLedger.open(tmp_path, RealRuntime())
    other = SqliteLedger.open(tmp_path, RealRuntime())
    store.append(CustodyNote(provider="acme", text="1", by="me"), run=None)
    fetch = reading.matching

    def late(ask: Any, want: Any, floor: int, top: int, tally: Any) -> Any:
        # Between the moment that `top` was read and the queries, one of each kind arrives.
        other.append(CustodyNote(provider="acme", text="2", by="me"), run=None)
        other.append(Shell(provider="acme", pod="p", by="me"), run=None)
        return fetch(ask, want, floor, top, tally)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "matching", late)
        seen = [r.seq for r in store.read(kinds={"shell", "custody.note"})]
    assert seen == [1]
    assert [r.seq for r in store.read(kinds={"shell", "custody.note"})] == [1, 2, 3]
