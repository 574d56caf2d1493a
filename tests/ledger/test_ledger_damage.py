"""What is found when a ledger was altered, cut, torn or lost, and that work goes on."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from ledger_world import RUN, filled, note, opened, settle, tamper, texts

from gipper.errors import LedgerError
from gipper.ledger import head
from gipper.ledger.chain import GENESIS
from gipper.ledger.head import Head
from gipper.ledger.store import SqliteLedger
from gipper.runtime import RealRuntime
from gipper.values.receipts import CustodyNote, LedgerOpened


def problems(folder: Path) -> str:
    """What a verification that writes nothing says."""
    store = opened(folder, writable=False)
    verdict = store.verify()
    store.close()
    return "\n".join(verdict.problems)


def overwrite(path: Path, offset: int, data: bytes) -> None:
    """Damage a file in place."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


SWAP = (
    "UPDATE receipts SET seq = -1 WHERE seq = 3",
    "UPDATE receipts SET seq = 3 WHERE seq = 4",
    "UPDATE receipts SET seq = 4 WHERE seq = -1",
)


@pytest.mark.parametrize(
    ("statements", "told"),
    [
        (
            ("UPDATE receipts SET payload = replace(payload, 'n4', 'nX') WHERE seq = 4",),
            "receipt 5 doesn't follow",
        ),
        (
            ("UPDATE receipts SET ts = '2020-01-01T00:00:00.000000Z' WHERE seq = 2",),
            "receipt 3 doesn't follow",
        ),
        (("UPDATE receipts SET run = NULL WHERE seq = 2",), "receipt 3 doesn't follow"),
        (("UPDATE receipts SET id = 'x' WHERE seq = 2",), "receipt 3 doesn't follow"),
        (("DELETE FROM receipts WHERE seq = 5",), "receipt 5 is missing"),
        (("DELETE FROM receipts WHERE seq <= 2",), "receipts 1 to 2 are missing"),
        (("DELETE FROM receipts WHERE seq = 10",), "receipts 10 to 10 were cut off"),
        (("DELETE FROM receipts",), "receipts 1 to 10 were cut off"),
        (SWAP, "doesn't follow"),
        (("UPDATE receipts SET payload = '{\"text\"' WHERE seq = 10",), "receipt 10 is not the one"),
        (("UPDATE receipts SET payload = 'torn' WHERE seq = 6",), "receipt 6 can't be parsed"),
        (("UPDATE receipts SET prev = 'x' WHERE seq = 1",), "receipt 1 doesn't follow"),
    ],
)
def test_every_edit_is_found(tmp_path: Path, statements: tuple[str, ...], told: str) -> None:
    """Altered, removed, swapped and cut-off receipts are each named by `verify`."""
    filled(tmp_path, 10)
    assert problems(tmp_path) == ""
    tamper(tmp_path, *statements)
    assert told in problems(tmp_path)


def test_a_lost_trigger_and_a_lying_index_are_found(tmp_path: Path) -> None:
    """Verification looks at the tables as well as at the receipts."""
    filled(tmp_path, 3)
    conn = sqlite3.connect(tmp_path / "ledger.sqlite", isolation_level=None)
    conn.execute("DROP TRIGGER no_delete")
    conn.close()
    assert "no_delete" in problems(tmp_path)
    store = opened(tmp_path)
    assert "no_delete" in (store.damaged or "")
    store.close()


def test_head_behind_on_the_chain_is_mended(tmp_path: Path) -> None:
    """A writer that died between commit and head leaves a whole ledger; the next one brings it up."""
    receipts = filled(tmp_path, 5)
    end = head.read(tmp_path)
    for behind in (Head(4, receipts[4].prev), Head(1, receipts[1].prev), Head(0, GENESIS)):
        head.write(tmp_path, behind)
        store = opened(tmp_path)
        assert store.damaged is None
        verdict = store.verify()
        assert verdict.whole and len(verdict.mended) == 1
        assert head.read(tmp_path) == end
        store.close()
    head.write(tmp_path, Head(4, receipts[4].prev))
    filled(tmp_path, 1)
    assert problems(tmp_path) == ""


@pytest.mark.parametrize("record", [Head(9, "a" * 64), Head(5, "a" * 64), Head(3, "a" * 64)])
def test_head_ahead_or_off_the_chain_is_damage(tmp_path: Path, record: Head) -> None:
    """Opening says so at once, writing goes to the next file, reading shows both."""
    filled(tmp_path, 5)
    head.write(tmp_path, record)
    store = opened(tmp_path)
    assert store.damaged
    receipt = store.append(note("after"), run=RUN)
    assert receipt.seq > max(record.seq, 5)
    assert [r["text"] for r in store.read(kinds=["custody.note"])] == ["n1", "n2", "n3", "n4", "n5", "after"]
    assert store.damaged
    store.close()


def test_a_missing_head_file_is_damage(tmp_path: Path) -> None:
    """Without it a cut can't be ruled out; a garbled one is the same."""
    filled(tmp_path / "a", 2)
    (tmp_path / "a" / head.NAME).unlink()
    filled(tmp_path / "b", 2)
    (tmp_path / "b" / head.NAME).write_text("garbage")
    for name in "ab":
        store = opened(tmp_path / name)
        assert "head" in (store.damaged or "")
        store.close()


def lose_header(path: Path) -> None:
    """Only SQLite's own header."""
    overwrite(path, 0, b"\0" * 100)


def lose_first_page(path: Path) -> None:
    """Header and list of tables."""
    overwrite(path, 0, os.urandom(4096))


@pytest.mark.parametrize("damage", [lose_header, lose_first_page])
def test_d_077_header_gone(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """Receipts behind a lost header are all read, and new ones go to the next file after the last good."""
    receipts = filled(tmp_path, 300)
    damage(settle(tmp_path))
    notes: list[str] = []
    store = opened(tmp_path, notes=notes)
    assert "ledger.sqlite" in (store.damaged or "")
    assert len(list(store.read())) == 300 and store.skipped == 0
    fresh = store.append(note("after"), run=RUN)
    assert fresh.seq == 302
    (first,) = store.read(kinds=[LedgerOpened.kind])
    assert (first.seq, first["after"], first["last_seq"]) == (301, "ledger.sqlite", 300)
    assert first["last_hash"] == first.prev and receipts[-1].seq == 300
    assert [r.seq for r in store.read(run=RUN, after_seq=298)] == [299, 300, 302]
    assert any("next file" in n for n in notes)
    store.close()
    assert sorted(p.name for p in tmp_path.glob("*.sqlite")) == ["ledger-2.sqlite", "ledger.sqlite"]
    assert not list(tmp_path.glob("*.salvage*"))


def test_d_077_torn_end(tmp_path: Path) -> None:
    """A file cut in the middle of a page: what can be read is read, the rest is counted, nothing glued."""
    filled(tmp_path, 400)
    path = settle(tmp_path)
    os.truncate(path, path.stat().st_size * 3 // 5 + 77)
    store = opened(tmp_path)
    assert store.damaged
    found = [r["text"] for r in store.read()]
    assert store.skipped == 400 - len(found) and 100 < len(found) < 400
    assert store.append(note("after"), run=RUN).seq == 402
    store.close()
    assert texts(tmp_path) == [*found, "after"]


def test_d_077_torn_write_ahead_log(tmp_path: Path) -> None:
    """A log cut short loses acknowledged receipts: the head file knows, and it is reported."""
    store = opened(tmp_path)
    for i in range(20):
        store.append(note(str(i)), run=RUN)
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("ledger.sqlite", "ledger.sqlite-wal", "ledger.head"):
        (copy / name).write_bytes((tmp_path / name).read_bytes())
    store.close()
    wal = copy / "ledger.sqlite-wal"
    os.truncate(wal, wal.stat().st_size - 5000)
    again = opened(copy)
    assert "cut off" in (again.damaged or "")
    again.close()


def test_d_078_page_unreadable(tmp_path: Path) -> None:
    """Pages in the middle turned to noise cost only their own receipts, which are counted."""
    filled(tmp_path, 2000)
    path = settle(tmp_path)
    for page in range(40, 44):
        overwrite(path, page * 4096, os.urandom(4096))
    store = opened(tmp_path)
    found = list(store.read())
    assert 0 < store.skipped < 200 and len(found) + store.skipped == 2000
    assert store.damaged
    by_run = list(store.read(run=RUN))
    assert {r.seq for r in by_run} <= {r.seq for r in found} and len(by_run) > 1500
    assert "missing or unreadable" in "\n".join(store.verify().problems)
    store.append(note("after"), run=RUN)
    store.close()
    assert texts(tmp_path)[-1] == "after"


def test_d_079_bad_row_future_kind_and_duplicate(tmp_path: Path) -> None:
    """A row that doesn't parse is skipped and counted, a later version's kind is kept, a double refused."""
    filled(tmp_path, 10)
    tamper(
        tmp_path,
        "UPDATE receipts SET payload = 'garbage' WHERE seq = 3",
        "UPDATE receipts SET kind = 'pod.teleported', payload = '{\"usd\":\"n/a\"}' WHERE seq = 7",
    )
    conn = sqlite3.connect(tmp_path / "ledger.sqlite", isolation_level=None)
    with pytest.raises(sqlite3.IntegrityError):
        conn.execute(
            "INSERT INTO receipts SELECT 11, id, ts, kind, run, refs, payload, prev"
            " FROM receipts WHERE seq = 8"
        )
    conn.close()
    store = opened(tmp_path, writable=False)
    found = list(store.read())
    assert [r.seq for r in found] == [1, 2, 4, 5, 6, 7, 8, 9, 10] and store.skipped == 1
    assert found[5].kind == "pod.teleported" and found[5]["usd"] == "n/a"
    store.close()


def test_an_unknown_kind_alone_is_no_damage(tmp_path: Path) -> None:
    """A ledger that a later version wrote to with the same schema is whole."""
    from gipper.ledger.chain import Draft, digest

    filled(tmp_path, 1)
    conn = sqlite3.connect(tmp_path / "ledger.sqlite", isolation_level=None)
    last = conn.execute("SELECT * FROM receipts").fetchone()
    from gipper.ledger.chain import Row

    before = digest(Row(*last))
    row = Draft(id="z", ts=last[2], kind="pod.teleported", run=None, refs="{}", payload='{"to":"mars"}').at(
        2, before
    )
    conn.execute("INSERT INTO receipts VALUES (?,?,?,?,?,?,?,?)", row)
    conn.close()
    head.write(tmp_path, Head(2, digest(row)))
    store = opened(tmp_path)
    assert store.damaged is None and store.verify().whole
    assert [r.kind for r in store.read()] == ["custody.note", "pod.teleported"]
    assert store.append(note("n"), run=None).seq == 3
    store.close()


def test_a_missing_file_is_noticed_and_not_begun_again(tmp_path: Path) -> None:
    """Deleting ledger.sqlite doesn't make a fresh ledger with the caps' memory gone."""
    filled(tmp_path, 4)
    settle(tmp_path).unlink()
    store = opened(tmp_path)
    assert "missing" in (store.damaged or "")
    assert store.append(note("after"), run=RUN).seq == 6
    assert not (tmp_path / "ledger.sqlite").exists()
    assert "missing" in (store.damaged or "")
    store.close()


def test_accepting_damage_lets_work_go_on(tmp_path: Path) -> None:
    """After `accept` nothing is damaged, in any process, until something new breaks."""
    filled(tmp_path, 50)
    tamper(tmp_path, "UPDATE receipts SET run = NULL WHERE seq = 2")
    store = opened(tmp_path)
    assert store.damaged is None, "an edit in the middle is found by verify alone"
    assert not store.verify().whole
    assert store.damaged
    other = opened(tmp_path)
    assert other.damaged, "what one process found holds for all"
    assert store.accept() == ("ledger.sqlite",)
    assert store.damaged is None and other.damaged is None
    assert other.append(note("after"), run=RUN).seq == 52
    assert not store.verify().whole, "acceptance makes nothing whole"
    store.close()
    other.close()
    tamper(tmp_path, "DELETE FROM receipts WHERE seq = 52", name="ledger-2.sqlite")
    again = opened(tmp_path)
    assert "ledger-2.sqlite" in (again.damaged or "")
    assert again.append(note("third"), run=RUN).seq == 54
    assert again.accept() == ("ledger-2.sqlite",)
    assert again.damaged is None
    again.close()


def test_losing_a_follower_is_damage_again(tmp_path: Path) -> None:
    """An accepted file whose follower vanished is not accepted any more."""
    filled(tmp_path, 3)
    head.write(tmp_path, Head(9, "b" * 64))
    store = opened(tmp_path)
    store.accept()
    store.append(note("in the second"), run=RUN)
    store.close()
    settle(tmp_path, "ledger-2.sqlite").unlink()
    again = opened(tmp_path)
    again.append(note("x"), run=RUN)
    assert again.damaged
    again.close()


def test_a_process_that_has_the_old_file_open_moves_on_too(tmp_path: Path) -> None:
    """Once one process closed a damaged file, no other appends to it."""
    first = opened(tmp_path)
    first.append(note("one"), run=RUN)
    head.write(tmp_path, Head(7, "c" * 64))
    second = opened(tmp_path)
    second.append(note("two"), run=RUN)
    receipt = first.append(note("three"), run=RUN)
    assert receipt.seq == 10
    conn = sqlite3.connect(tmp_path / "ledger.sqlite")
    assert conn.execute("SELECT max(seq) FROM receipts").fetchone() == (1,)
    conn.close()
    first.close()
    second.close()


def test_half_begun_files_are_finished(tmp_path: Path) -> None:
    """A crash while a ledger was being made leaves nothing that stops the next process."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "ledger.sqlite").touch()
    assert [r.seq for r in filled(tmp_path / "a", 2)] == [1, 2]
    conn = sqlite3.connect(tmp_path / "b.sqlite")
    conn.execute("PRAGMA journal_mode = WAL")
    conn.close()
    (tmp_path / "b").mkdir()
    (tmp_path / "b.sqlite").rename(tmp_path / "b" / "ledger.sqlite")
    head.write(tmp_path / "b", head.START)
    assert [r.seq for r in filled(tmp_path / "b", 2)] == [1, 2]
    assert problems(tmp_path / "b") == ""


def test_damage_is_never_a_traceback(tmp_path: Path) -> None:
    """Noise of every length in place of the file: opening, reading, verifying and writing still work."""
    for size in (1, 50, 100, 512, 4096, 9000):
        folder = tmp_path / str(size)
        filled(folder, 3)
        path = settle(folder)
        path.write_bytes(os.urandom(size))
        for writable in (False, True):
            store = opened(folder, writable=writable)
            assert store.damaged
            list(store.read())
            list(store.read(run=RUN))
            assert store.skipped <= 4
            assert not store.verify().whole
            if writable:
                assert store.append(note("after"), run=RUN).seq >= 5
            store.close()


def test_the_lock_file_as_a_folder_is_a_clear_error(tmp_path: Path) -> None:
    """What the file system refuses is told as LedgerError."""
    (tmp_path / "ledger.lock").mkdir(parents=True)
    store = opened(tmp_path)
    with pytest.raises(LedgerError):
        store.append(note("n"), run=RUN)
    store.close()


@pytest.mark.parametrize("writable", [False, True])
def test_verify_tells_a_lost_header(tmp_path: Path, writable: bool) -> None:
    """A file that only a mended copy makes readable is not whole, also for a reader."""
    store = SqliteLedger.open(tmp_path, RealRuntime())
    store.append(CustodyNote(provider="acme", text="x", by="me"), run=None)
    store.close()
    file = tmp_path / "ledger.sqlite"
    file.write_bytes(b"\0" * 64 + file.read_bytes()[64:])
    verdict = SqliteLedger.open(tmp_path, RealRuntime(), writable=writable).verify()
    assert not verdict.whole
    assert "ledger.sqlite" in verdict.problems[0]
