"""Many writers at once, killed writers, a full disk, and teardown that never waits."""

from __future__ import annotations

import fcntl
import json
import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ledger_world import RUN, note, opened, python, texts

from gipper.errors import LedgerError

HERE = str(Path(__file__).parent)
START = "import sys; sys.path.insert(0, sys.argv[2]); from pathlib import Path; from ledger_world import *\n"
WRITE = START + (
    "store = opened(Path(sys.argv[1]))\n"
    "for i in range(int(sys.argv[3])):\n"
    "    r = store.append(note(f'{sys.argv[4]}-{i}'), run=RUN)\n"
    "    print(r.id, flush=True)\n"
)
SPEND = START + (
    "import time; store = opened(Path(sys.argv[1]))\n"
    "while not Path(sys.argv[3]).exists(): time.sleep(0.001)\n"
    "with store.transaction() as tx:\n"
    "    if len(list(tx.read(kinds=['custody.note']))) < 20:\n"
    "        tx.append(note('one more'), run=RUN)\n"
)


def finish(processes: list[subprocess.Popen[str]]) -> list[str]:
    """Wait for all; their standard output, line by line."""
    lines: list[str] = []
    for process in processes:
        out, err = process.communicate(timeout=100)
        assert process.returncode == 0, err
        lines += out.split()
    return lines


@contextmanager
def lock_held(folder: Path) -> Iterator[None]:
    """Another process's hold on the ledger, as the kernel sees it."""
    fd = os.open(folder / "ledger.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(fd)


def test_d_078_eight_processes_two_hundred_receipts_each(tmp_path: Path) -> None:
    """All 1,600 are there once, none torn, and the chain is whole."""
    told = finish([python(WRITE, str(tmp_path), HERE, "200", str(n)) for n in range(8)])
    store = opened(tmp_path, writable=False)
    found = list(store.read())
    assert [r.seq for r in found] == list(range(1, 1601))
    assert {r.id for r in found} == set(told) and len(told) == 1600
    assert store.verify().whole and store.skipped == 0
    store.close()


def test_threads_share_a_store(tmp_path: Path) -> None:
    """Appends and reads from several threads of one process keep one chain."""
    store = opened(tmp_path)
    failures: list[BaseException] = []

    def work(name: int) -> None:
        try:
            for i in range(25):
                with store.transaction() as tx:
                    before = len(list(tx.read()))
                    tx.append(note(f"{name}-{i}"), run=RUN)
                    assert len(list(tx.read())) == before + 1
                assert list(store.read(run=RUN))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    assert len(list(store.read())) == 150 and store.verify().whole
    store.close()


def test_fifty_processes_never_overshoot(tmp_path: Path) -> None:
    """Each checks a sum and appends in one transaction: exactly as many as fit get through."""
    gate = tmp_path / "gate"
    processes = [python(SPEND, str(tmp_path / "data"), HERE, str(gate)) for _ in range(50)]
    gate.touch()
    finish(processes)
    assert len(texts(tmp_path / "data")) == 20


def test_killed_writers_lose_nothing_acknowledged(tmp_path: Path) -> None:
    """Writers killed with -9 at random moments: what they acknowledged is there, the ledger whole."""
    chance = random.Random(7)
    acknowledged: list[str] = []
    for _ in range(5):
        writers = [python(WRITE, str(tmp_path), HERE, "100000", str(n)) for n in range(3)]
        for writer in writers:
            assert writer.stdout is not None
            acknowledged += [writer.stdout.readline().strip() for _ in range(chance.randrange(10, 60))]
            writer.send_signal(signal.SIGKILL)
        for writer in writers:
            out, _ = writer.communicate(timeout=60)
            # The last line may be cut, which is no acknowledgement.
            acknowledged += [line for line in out.split("\n")[:-1] if len(line) == 32]
    store = opened(tmp_path)
    assert store.damaged is None
    assert set(acknowledged) <= {r.id for r in store.read()} and len(acknowledged) > 100
    verdict = store.verify()
    assert verdict.whole, verdict.problems
    store.append(note("after"), run=RUN)
    assert store.verify().mended == ()
    store.close()


def test_teardown_waits_two_seconds_for_the_lock_and_spills(tmp_path: Path) -> None:
    """A held ledger keeps teardown at most briefly; the receipt goes to the run's folder and is told."""
    runs = tmp_path / "runs"
    (runs / RUN).mkdir(parents=True)
    notes: list[str] = []
    store = opened(tmp_path / "data", notes=notes, run_folder=lambda run: runs / run)
    store.append(note("first"), run=RUN)
    with lock_held(tmp_path / "data"):
        begun = time.monotonic()
        assert store.append_or_spill(note("late"), run=RUN, refs={"name": "j"}) is None
        took = time.monotonic() - begun
    assert took > 1.9
    spilled = runs / RUN / "spill.jsonl"
    line = spilled.read_text().strip()
    assert stat.S_IMODE(spilled.stat().st_mode) == 0o600
    assert len(notes) == 1 and line in notes[0]
    store.close()

    again = opened(tmp_path / "data", run_folder=lambda run: runs / run)
    found = list(again.read())
    assert [r["text"] for r in found] == ["first", "late"]
    told = json.loads(line)
    assert (found[1].id, found[1]["pod"]) == (told["id"], "m-1")
    assert found[1].refs["name"] == "j" and found[1].refs["stored"] > told["ts"]
    assert told["ts"] in found[1].ts.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    assert not spilled.exists() and again.verify().whole
    again.close()


def test_a_spill_is_stored_once(tmp_path: Path) -> None:
    """A spill that was stored but not removed (a crash between) adds nothing; torn lines are kept aside."""
    notes: list[str] = []
    store = opened(tmp_path, notes=notes)
    store.append(note("first"), run=RUN)
    with lock_held(tmp_path):
        assert store.append_or_spill(note("late"), run=RUN) is None
    store.close()
    spill = tmp_path / "spill.jsonl"
    content = spill.read_text()
    spill.write_text(content + content + '{"id":"torn')
    for expected in (["first", "late"], ["first", "late"]):
        opened(tmp_path, notes=notes).close()
        assert texts(tmp_path) == expected
        assert not spill.exists()
        spill.write_text(content)
    assert (tmp_path / "spill.unread.jsonl").read_text() == '{"id":"torn\n'


def test_a_reader_leaves_a_spill_alone(tmp_path: Path) -> None:
    """Only a process that may write stores what was spilled."""
    opened(tmp_path).append(note("first"), run=RUN)
    (tmp_path / "spill.jsonl").write_text("{}\n")
    opened(tmp_path, writable=False).close()
    assert (tmp_path / "spill.jsonl").exists()


def test_another_program_that_locks_the_file_is_waited_for_briefly(tmp_path: Path) -> None:
    """A SQLite shell with an open write transaction makes teardown spill, not hang."""
    store = opened(tmp_path)
    store.append(note("first"), run=RUN)
    conn = sqlite3.connect(tmp_path / "ledger.sqlite", isolation_level=None)
    conn.execute("BEGIN IMMEDIATE")
    assert store.append_or_spill(note("late"), run=RUN) is None
    conn.execute("ROLLBACK")
    conn.close()
    assert store.append(note("after"), run=RUN).seq == 2
    store.close()
    opened(tmp_path).close()
    assert texts(tmp_path) == ["first", "after", "late"]


def fill_up(place: Path) -> Path:
    """Take all space that is left."""
    filler = place / "filler"
    with filler.open("ab", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return filler


def test_a_full_disk_refuses_an_append_clearly_and_loses_nothing(small_disk: Path) -> None:
    """Ordinary appends end in LedgerError without a trace; with space again the chain goes on whole."""
    store = opened(small_disk / "data")
    store.append(note("before"), run=RUN)
    filler = fill_up(small_disk)
    with pytest.raises(LedgerError, match="space") as caught:
        for i in range(200):
            store.append(note("x" * 2000 + str(i)), run=RUN)
    assert caught.value.exit_code == 2 and caught.value.hint
    stored = len(list(store.read()))
    assert store.damaged is None
    filler.unlink()
    assert store.append(note("after"), run=RUN).seq == stored + 1
    verdict = store.verify()
    assert verdict.whole, verdict.problems
    store.close()


def test_the_reserve_lets_teardown_write_on_a_full_disk(small_disk: Path) -> None:
    """With no space left, a last receipt is stored from the reserve; later ones spill or are told whole."""
    notes: list[str] = []
    store = opened(small_disk / "data", notes=notes)
    store.append(note("before"), run=RUN)
    assert (small_disk / "data" / "ledger.reserve").stat().st_size == 65536
    filler = fill_up(small_disk)
    with pytest.raises(LedgerError):
        for _ in range(200):
            store.append(note("x" * 2000), run=RUN)
    receipt = store.append_or_spill(note("teardown"), run=RUN)
    assert receipt is not None and receipt["text"] == "teardown"
    fill_up(small_disk)
    results = [store.append_or_spill(note(f"{i}" + "y" * 3000), run=RUN) for i in range(40)]
    assert results[-1] is None
    assert len(notes) == sum(r is None for r in results)
    assert all("y" * 3000 in n for n in notes)
    store.close()
    spilled = small_disk / "data" / "spill.jsonl"
    kept = spilled.read_text().splitlines() if spilled.exists() else []
    assert all(json.loads(line)["kind"] == "custody.note" for line in kept)
    filler.unlink()
    again = opened(small_disk / "data")
    assert again.verify().whole
    assert "teardown" in [r["text"] for r in again.read()]
    assert len(list(again.read())) == receipt.seq + sum(r is not None for r in results) + len(kept)
    again.close()


def test_a_disk_that_is_full_from_the_start_is_a_clear_error(small_disk: Path) -> None:
    """A new ledger on a full disk can't be begun, says so, and can be begun later."""
    filler = fill_up(small_disk)
    store = opened(small_disk / "data")
    with pytest.raises(LedgerError) as caught:
        store.append(note("n"), run=RUN)
    assert caught.value.exit_code == 2
    assert store.append_or_spill(note("n"), run=RUN) is None
    filler.unlink()
    assert store.append(note("n"), run=RUN).seq == 1
    assert store.verify().whole
    store.close()


def test_a_teardown_without_any_ledger_folder_is_told(tmp_path: Path) -> None:
    """Even a data folder that turned into a file raises nothing: the receipt is told as text."""
    notes: list[str] = []
    store = opened(tmp_path / "data", notes=notes)
    (tmp_path / "data").write_text("not a folder")
    assert store.append_or_spill(note("last words"), run=RUN) is None
    assert len(notes) == 1 and "last words" in notes[0]


def test_notes_go_to_standard_error_by_default(tmp_path: Path) -> None:
    """Without a listener a spilled receipt still reaches the user."""
    code = START + (
        "from gipper.ledger.store import SqliteLedger; from gipper.runtime import RealRuntime\n"
        "store = SqliteLedger.open(Path(sys.argv[1]), RealRuntime())\n"
        "Path(sys.argv[1]).write_text('in the way')\n"
        "assert store.append_or_spill(note('last words'), run=None) is None"
    )
    out = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "x"), HERE], check=True, capture_output=True, text=True
    )
    assert "last words" in out.stderr and "Traceback" not in out.stderr


def test_a_later_process_on_a_full_disk_still_stores_a_teardown(small_disk: Path) -> None:
    """SQLite needs room for its own files too: a process that starts on the full disk gets the reserve."""
    store = opened(small_disk / "data")
    for i in range(40):
        store.append(note(str(i)), run=RUN)
    store.close()
    fill_up(small_disk)
    notes: list[str] = []
    later = opened(small_disk / "data", notes=notes)
    with pytest.raises(LedgerError):
        later.append(note("n" * 2000), run=RUN)
    receipt = later.append_or_spill(note("teardown"), run=RUN)
    assert receipt is not None and receipt.seq == 41, notes
    assert later.damaged is None and later.verify().whole
    later.close()


def test_a_crashed_ledger_is_readable_on_a_full_disk(small_disk: Path) -> None:
    """A log left by a killed writer must be read too, not passed over, also without room for it."""
    folder = small_disk / "data"
    writer = python(WRITE, str(folder), HERE, "100000", "w")
    assert writer.stdout is not None
    told = [writer.stdout.readline().strip() for _ in range(20)]
    writer.kill()
    writer.communicate(timeout=60)
    (folder / "ledger.sqlite-shm").unlink()
    assert (folder / "ledger.sqlite-wal").stat().st_size > 0
    fill_up(small_disk)
    later = opened(folder)
    assert later.damaged is None
    assert set(told) <= {r.id for r in later.read()}
    later.close()


def test_beginning_a_ledger_together_is_no_damage(tmp_path: Path) -> None:
    """Processes that open and write a ledger at the moment when it is begun see no damage in it."""
    code = START + (
        "import time; gate = Path(sys.argv[3])\n"
        "while not gate.exists(): pass\n"
        "store = opened(Path(sys.argv[1])); assert store.damaged is None, store.damaged\n"
        "store.append(note('n'), run=RUN); reader = opened(Path(sys.argv[1]), writable=False)\n"
        "assert reader.damaged is None, reader.damaged\n"
    )
    for i in range(6):
        gate = tmp_path / f"gate{i}"
        processes = [python(code, str(tmp_path / str(i)), HERE, str(gate)) for _ in range(4)]
        gate.touch()
        finish(processes)
        assert texts(tmp_path / str(i)) == ["n"] * 4
        assert not (tmp_path / str(i) / "ledger-2.sqlite").exists()
