"""Properties of the chain and of reading, over receipts of any content."""

from __future__ import annotations

import hashlib
import json
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_world import opened, tamper

from gipper.ledger.chain import (
    canonical,
    digest,
    draft,
    draft_line,
    encode,
    from_receipt,
    parse_draft,
    to_receipt,
)
from gipper.ledger.head import GENESIS, START, Head, compare
from gipper.runtime import RealRuntime
from gipper.values.receipts import CustodyNote, Preflight, to_json

TEXT = st.text(st.characters(), max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
FACTS = st.dictionaries(TEXT, JSON, max_size=4)
NOW = RealRuntime().now()


def check(facts: dict[str, Any]) -> Preflight:
    """A receipt with a free part."""
    return Preflight(provider="local", pod="m", check="c", verdict="good", seconds=0.5, facts=facts)


@given(facts=FACTS, refs=st.dictionaries(TEXT, TEXT, max_size=3))
def test_any_payload_round_trips_through_its_row(facts: dict[str, Any], refs: dict[str, str]) -> None:
    """Row → receipt → row is the same text, and the payload is as JSON has it."""
    row = draft(check(facts), "run", refs, NOW).at(7, "f" * 64)
    receipt = to_receipt(row)
    assert receipt.refs == refs and receipt["facts"] == facts and receipt.ts == NOW
    assert from_receipt(receipt) == row


@given(facts=FACTS, refs=st.dictionaries(TEXT, TEXT, max_size=3))
def test_the_hash_is_of_canonical_json(facts: dict[str, Any], refs: dict[str, str]) -> None:
    """The hashed text is what a plain JSON encoder makes of the eight keys, sorted and without spaces."""
    row = draft(check(facts), "run", refs, NOW).at(7, "f" * 64)
    keys = {"id": row.id, "kind": row.kind, "prev": row.prev, "run": row.run, "seq": row.seq, "ts": row.ts}
    whole = {**keys, "payload": to_json(check(facts)), "refs": refs}
    text = json.dumps(whole, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    assert canonical(row).encode() == text.encode("utf-8", "backslashreplace")
    assert digest(row) == hashlib.sha256(canonical(row).encode()).hexdigest()


@given(facts=FACTS)
def test_a_spilled_line_round_trips(facts: dict[str, Any]) -> None:
    """A draft survives its line, whatever it holds, and the line is one line."""
    item = draft(check(facts), None, {"name": "j"}, NOW)
    assert "\n" not in draft_line(item)
    assert parse_draft(draft_line(item)) == item


@given(value=st.floats() | st.lists(st.floats(), max_size=3) | st.dictionaries(TEXT, st.floats(), max_size=3))
def test_what_json_cannot_say_is_still_recorded(value: Any) -> None:
    """Infinity and not-a-number become text; the result is JSON in UTF-8."""
    text = encode({"v": value})
    json.loads(text.encode().decode(), parse_constant=lambda name: 1 / 0)


@given(seqs=st.lists(st.integers(0, 30), min_size=2, max_size=2), same=st.booleans(), first=st.integers(1, 5))
def test_the_head_is_judged_by_place_and_hash(seqs: list[int], same: bool, first: int) -> None:
    """Ahead is a cut, behind needs the right hash, and only equality is on the end."""
    head, last = Head(seqs[0], "a" * 64), Head(seqs[1], "b" * 64)
    place = compare(head, last, first, head.hash if same else "c" * 64)
    if head.seq > last.seq:
        assert place == "ahead"
    elif first > 1 and head.seq < first:
        assert place == "behind"
    else:
        assert place == ("behind" if same else "astray")
    assert compare(last, last, first, None) == "on"
    assert Head(0, GENESIS) == START


@settings(max_examples=15, deadline=None)
@given(
    plan=st.lists(st.tuples(st.sampled_from(["a", "b", None]), TEXT, st.booleans()), min_size=1, max_size=8),
    data=st.data(),
)
def test_every_filter_equals_filtering_by_hand(
    plan: list[tuple[str | None, str, bool]], data: st.DataObject
) -> None:
    """What an index finds is what a walk over everything would keep, in the same order."""
    with tempfile.TemporaryDirectory() as name:
        store = opened(Path(name))
        for run, text, as_note in plan:
            payload = CustodyNote(provider="p", text=text, by="b") if as_note else check({"t": text})
            store.append(payload, run=run)
        everything = list(store.read())
        run = data.draw(st.sampled_from(["a", "b", None]))
        kinds = data.draw(st.sampled_from([None, ["preflight"], ["custody.note", "preflight"], ["spend"]]))
        moments = [None, *(r.ts for r in everything), *(r.ts + timedelta(microseconds=1) for r in everything)]
        since, until = data.draw(st.sampled_from(moments)), data.draw(st.sampled_from(moments))
        after = data.draw(st.integers(0, len(plan)))
        expected = [
            r
            for r in everything
            if (run is None or r.run == run)
            and (kinds is None or r.kind in kinds)
            and (since is None or r.ts >= since)
            and (until is None or r.ts < until)
            and r.seq > after
        ]
        assert list(store.read(run=run, kinds=kinds, since=since, until=until, after_seq=after)) == expected
        store.close()


@settings(max_examples=25, deadline=None)
@given(count=st.integers(2, 12), data=st.data())
def test_any_single_edit_is_found(count: int, data: st.DataObject) -> None:
    """One changed, deleted or swapped receipt anywhere makes the ledger not whole."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = opened(folder)
        for i in range(count):
            store.append(check({"i": i}), run="r")
        store.close()
        at, other = data.draw(st.lists(st.integers(1, count), min_size=2, max_size=2, unique=True))
        edits = {
            "alter": [f"UPDATE receipts SET payload = replace(payload, '0.5', '0.6') WHERE seq = {at}"],
            "refs": [f'UPDATE receipts SET refs = \'{{"x":"y"}}\' WHERE seq = {at}'],
            "kind": [f"UPDATE receipts SET kind = 'spend' WHERE seq = {at}"],
            "delete": [f"DELETE FROM receipts WHERE seq = {at}"],
            "swap": [
                f"UPDATE receipts SET seq = -1 WHERE seq = {at}",
                f"UPDATE receipts SET seq = {at} WHERE seq = {other}",
                f"UPDATE receipts SET seq = {other} WHERE seq = -1",
            ],
        }
        tamper(folder, *edits[data.draw(st.sampled_from(sorted(edits)))])
        reader = opened(folder, writable=False)
        assert not reader.verify().whole
        reader.close()
