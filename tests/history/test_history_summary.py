"""The stored summary: grown bit by bit it is what one pass would give, and it is never trusted blindly."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest
from history_world import EPOCH, MB, Rental, Trail, folded, payloads, rows, told
from hypothesis import given, settings
from hypothesis import strategies as st

from gipper.history_file import BLOCK_ROWS, NAME, opened, save
from gipper.history_fold import fold
from gipper.history_learning import learn
from gipper.history_summary import Summary
from gipper.ledger.store import SqliteLedger
from gipper.runtime import RealRuntime

RENTALS = st.builds(
    Rental,
    provider=st.sampled_from(["acme", "emca"]),
    pod=st.sampled_from(["p1", "p2", "p3"]),
    run=st.sampled_from(["r1", "r2", "r3"]),
    host=st.sampled_from(["h1", "h2", None]),
    gpu=st.sampled_from(["L4", "RTX_4090", None]),
    started=st.booleans(),
    blame=st.sampled_from(["host", "unsuitable", None]),
    sent=st.sampled_from([0, 5 * MB]),
    brought=st.sampled_from([(), ((3 * MB, 1.5),)]),
    usd=st.sampled_from(["0.5", None]),
    bills=st.sampled_from([(), (("0.7", {"bandwidth": "0.1"}),), (("0.7", {}), ("0.6", {}))]),
    told=st.sampled_from([None, told(compute=50.0, ready=10.0)]),
    outcome=st.sampled_from(["succeeded", "failed", None]),
    actual=st.sampled_from(
        [None, {"compute": 70.0, "upload": 2.0, "ready": 9.0, "wall_s": 90.0, "usd": 0.4}]
    ),
)


def _learnt(trail: Trail) -> list[dict[str, str]]:
    return rows(learn(trail.ledger, trail.folder, EPOCH))


def _afresh(trail: Trail) -> list[dict[str, str]]:
    return rows(folded(trail.ledger.read()))


class _Spy:
    """A reader that remembers from where it was read."""

    def __init__(self, ledger: SqliteLedger) -> None:
        self.ledger, self.asked = ledger, list[tuple[bool, int]]()

    def read(self, **filters: Any) -> Any:
        self.asked.append((filters.get("kinds") is not None, filters.get("after_seq", 0)))
        return self.ledger.read(**filters)

    @property
    def scanned(self) -> bool:
        """True where all receipts of some kinds were looked for."""
        return any(kinds for kinds, _ in self.asked)


def _read_by(trail: Trail) -> _Spy:
    spy = _Spy(trail.ledger)
    learn(spy, trail.folder, EPOCH)
    return spy


@settings(max_examples=60, deadline=None)
@given(st.lists(RENTALS, min_size=1, max_size=6), st.data())
def test_any_split_gives_the_same(rentals: list[Rental], data: st.DataObject) -> None:
    """Whatever the order of receipts and wherever summaries were stored between, the result is one pass's."""
    mixed = data.draw(st.permutations([(x.run, p) for x in rentals for p in payloads(x)]))
    cuts = data.draw(st.sets(st.integers(1, len(mixed)), max_size=5))
    with tempfile.TemporaryDirectory() as name:
        trail = Trail(Path(name))
        for number, (run, payload) in enumerate(mixed, 1):
            trail.add(run, payload)
            if number in cuts:
                assert _learnt(trail) == _afresh(trail)
        assert _learnt(trail) == _afresh(trail)
        trail.ledger.close()


def test_only_new_receipts_are_read(trail: Trail) -> None:
    """Once stored, nothing before the last summarised receipt is looked at again."""
    trail.rent()
    assert _read_by(trail).scanned
    last = max(r.seq for r in trail.ledger.read())
    trail.rent()
    assert _read_by(trail).asked == [(False, last - 1)]


def test_the_summary_is_private(trail: Trail) -> None:
    """Nobody else can read it, and no half-written file is left beside it."""
    trail.rent()
    _learnt(trail)
    assert stat.S_IMODE((trail.folder / NAME).stat().st_mode) == 0o600
    assert [p.name for p in trail.folder.iterdir() if p.name.startswith(NAME)] == [NAME]


def _newer_schema(data: bytes) -> bytes:
    head, _, body = data.partition(b"\n")
    return json.dumps({**json.loads(head), "schema": 99}).encode() + b"\n" + body


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"",
        lambda data: b"nonsense",
        lambda data: b"[1, 2]\n",
        lambda data: b"[" * 100_000,
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1],
        lambda data: data[:-40] + b"x" * 40,
        lambda data: data.replace(b"acme", b"emca"),
        _newer_schema,
    ],
    ids=["empty", "text", "list", "deep", "half", "short", "end", "changed", "newer"],
)
def test_a_spoilt_summary_is_made_again(trail: Trail, spoil: Any) -> None:
    """Whatever the file holds, the answer is the ledger's, and the file is good again."""
    trail.rent(host="h9")
    _learnt(trail)
    place = trail.folder / NAME
    place.write_bytes(spoil(place.read_bytes()))
    for _ in range(2):
        trail.rent()
        assert _learnt(trail) == _afresh(trail)
    assert not _read_by(trail).scanned


def test_every_flipped_byte_is_noticed(trail: Trail) -> None:
    """No single damaged byte changes what is learnt, with or without new receipts."""
    trail.rent(blame="host", why="GPU busy")
    _learnt(trail)
    whole, place = (trail.folder / NAME).read_bytes(), trail.folder / NAME
    for rented in (0, 1):
        for _ in range(rented):
            trail.rent()
        expected = _afresh(trail)
        for at in range(0, len(whole), 5):
            place.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            assert _learnt(trail) == expected, at


def test_a_deleted_summary_is_made_again(trail: Trail) -> None:
    """The file may go at any time."""
    trail.rent()
    _learnt(trail)
    (trail.folder / NAME).unlink()
    assert _learnt(trail) == _afresh(trail)
    assert (trail.folder / NAME).exists()


@pytest.mark.parametrize("count", [1, 3])
def test_another_ledger_s_summary_is_not_believed(trail: Trail, tmp_path: Path, count: int) -> None:
    """A summary copied from another folder, of a longer or a shorter ledger, is made anew."""
    other = Trail(tmp_path / "other")
    for _ in range(count):
        other.rent(host="foreign")
    learn(other.ledger, other.folder, EPOCH)
    for _ in range(2):
        trail.rent()
    (trail.folder / NAME).write_bytes((other.folder / NAME).read_bytes())
    assert _learnt(trail) == _afresh(trail)
    assert list(trail.history().hosts("acme")) == ["h1"]
    assert not _read_by(trail).scanned


def test_two_who_summarise_at_once(trail: Trail) -> None:
    """One reads the stored summary, another replaces it with a newer one: both know all, and the last wins."""
    trail.rent()
    _learnt(trail)
    with opened(trail.folder) as stored:
        trail.rent()
        newer = _learnt(trail)
        assert stored is not None
        older = stored.whole()
    for receipt in trail.ledger.read(after_seq=older.seq):
        fold(older, receipt)
    assert rows(older) == newer == _afresh(trail)
    save(trail.folder, folded([]))
    assert _learnt(trail) == newer


def test_threads_that_summarise_while_one_writes(trail: Trail) -> None:
    """Two summarise over and over while rentals are written: nobody fails, nobody is stale."""
    runtime = RealRuntime()

    def summarise() -> None:
        for _ in range(30):
            reader = SqliteLedger.open(trail.folder, runtime, writable=False)
            seen = sum(1 for r in reader.read(kinds={"pod.create"}))
            assert len(rows(learn(reader, trail.folder, EPOCH))) >= seen
            reader.close()

    trail.rent()
    tasks = [runtime.spawn(f"s{n}", summarise) for n in range(2)]
    for _ in range(60):
        trail.rent()
    for task in tasks:
        assert runtime.wait_any([task.done], runtime.monotonic() + 60) is not None
        task.result()
    assert _learnt(trail) == _afresh(trail)


def test_summarising_waits_for_no_writer(trail: Trail) -> None:
    """While somebody holds the ledger's lock, what was written before is summarised at once."""
    trail.rent()
    reader = SqliteLedger.open(trail.folder, RealRuntime(), writable=False)
    with trail.ledger.transaction():
        assert len(rows(learn(reader, trail.folder, EPOCH))) == 1
    reader.close()


def test_a_folder_that_cannot_be_written_is_no_error(trail: Trail, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without room for the file the lessons are the same."""
    trail.rent()
    refused = os.open

    def refuse(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if NAME in str(path) and flags & os.O_CREAT:
            raise OSError(28, "No space left on device")
        return refused(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", refuse)
    assert _learnt(trail) == _afresh(trail)
    assert not (trail.folder / NAME).exists()


def test_only_the_blocks_of_the_window_are_read(trail: Trail) -> None:
    """Of a long past the old blocks stay on disk; in a longer window they are there."""
    summary = Summary(seq=1, hash="x")
    for day in range(3 * BLOCK_ROWS):
        row = summary.rentals.add()
        summary.rentals.numbers["at"][row] = float(day)
        summary.rentals.ids["provider"][row] = summary.names.number("acme")
    trail.ledger.append(payloads(Rental())[0], run="r")
    save(trail.folder, summary)
    with opened(trail.folder) as stored:
        assert stored is not None
        assert len(stored.since(2.5 * BLOCK_ROWS).rentals) == BLOCK_ROWS
        assert len(stored.since(0).rentals) == len(stored.whole().rentals) == 3 * BLOCK_ROWS
