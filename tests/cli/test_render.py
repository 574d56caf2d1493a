"""Tables, lines, and text that means harm."""

from __future__ import annotations

import io
import json
import os
import pty
import sys
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gipper.cli import render

MARKUP = "[/bold] [red] [//] [link=x] :smile:"


def _table(capsys: pytest.CaptureFixture[str], *args: object, **options: object) -> str:
    render.print_table(*args, **options)
    return capsys.readouterr().out


def _on_a_terminal(monkeypatch: pytest.MonkeyPatch, columns: list[str], rows: list[list[object]]) -> str:
    """What a table looks like to a terminal of 100 columns."""
    main, side = pty.openpty()
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    with open(side, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        render.print_table(columns, rows, title=MARKUP)
        stream.flush()
        shown = os.read(main, 65536).decode()
    os.close(main)
    return shown


def test_plain_columns_are_stable(capsys: pytest.CaptureFixture[str]) -> None:
    """Piped, a table is a header and one line per row; numbers stand right, nothing is '-', none is cut."""
    out = _table(capsys, ["name", "usd"], [["a" * 200, Decimal("1.5")], ["b", None]])
    lines = out.splitlines()
    assert [line.split() for line in lines] == [["name", "usd"], ["a" * 200, "1.5"], ["b", "-"]]
    assert lines[1].endswith("  1.5")


def test_json_has_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON is a list of objects by column; dollars are numbers, times UTC, unknown is null."""
    when = datetime(2026, 11, 1, 12, tzinfo=UTC)
    rows = [[Decimal("0.000001"), Decimal("2.000000"), when, None]]
    out = _table(capsys, ["usd", "two", "at", "none"], rows, as_json=True)
    assert json.loads(out) == [{"usd": 0.000001, "two": 2, "at": "2026-11-01T12:00:00Z", "none": None}]


def test_json_rows_stand_in(capsys: pytest.CaptureFixture[str]) -> None:
    """Where a command has more to say in JSON than fits a table, that is printed."""
    out = _table(capsys, ["a"], [["x"]], json_rows=[{"a": "x", "more": [1]}], as_json=True)
    assert json.loads(out) == [{"a": "x", "more": [1]}]


def test_no_rows(capsys: pytest.CaptureFixture[str]) -> None:
    """An empty table is its header; an empty JSON table is an empty list."""
    assert _table(capsys, ["a", "b"], []) == "a  b\n"
    assert json.loads(_table(capsys, ["a"], [], as_json=True)) == []


def test_d_058_square_brackets_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Markup in title, column and cell is shown as it is and breaks nothing."""
    shown = _on_a_terminal(monkeypatch, [MARKUP], [[MARKUP], ["[/usr/bin/x]"]])
    assert shown.count(MARKUP) == 3
    assert "[/usr/bin/x]" in shown


def test_d_058_square_brackets_in_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Markup in lines and warnings is shown as it is."""
    render.say(MARKUP)
    render.warn(MARKUP)
    assert capsys.readouterr() == (f"{MARKUP}\n", f"{MARKUP}\n")


def test_control_sequences_do_not_reach_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell can neither move the cursor nor start a new line."""
    shown = _on_a_terminal(monkeypatch, ["name"], [["evil\x1b[2J\r\nname"]])
    assert "evil\\x1b[2J\\x0d\\x0aname" in shown


def test_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    """With NO_COLOR a terminal gets no colours."""
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in _on_a_terminal(monkeypatch, ["name"], [["x"]])


@given(st.text())
def test_neutral_text_is_harmless(text: str) -> None:
    """Nothing that is neutralised holds a control character, and harmless text stays as it is."""
    neutral = render.neutralise(text, keep="")
    assert not any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in neutral)
    assert render.neutralise(neutral, keep="") == neutral


def test_neutral_text_cannot_be_reordered() -> None:
    """Marks that make text read backwards are shown."""
    assert render.neutralise("a\u202eb") == "a\\u202eb"


def test_a_run_goes_on_without_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """`tell` survives a reader that left, `say` doesn't."""

    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Gone())
    with pytest.raises(BrokenPipeError):
        render.say("x")
    render.tell("x")
    render.tell("y")


def test_unknown_money_is_no_zero() -> None:
    """Unknown dollars are '-'."""
    assert render.money(None) == "-"
    assert render.money(Decimal("0.00125")) == "0.0012"
