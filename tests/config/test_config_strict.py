"""The strict converter: nothing is coerced, and every mistake is told with the key's full path."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum
from typing import Any, Literal

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gipper.errors import GipperError, PluginError, ProblemsError
from gipper.strict import structure
from gipper.strict_mistakes import Mistake
from gipper.values.jobs import Job
from gipper.values.settings import Settings


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@attrs.frozen(kw_only=True)
class Inner:
    size: float = 1.0
    tags: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Table:
    """As a plugin's author might write one."""

    text: str = ""
    whole: int = 0
    part: float = 0.0
    flag: bool = False
    price: Decimal = Decimal(0)
    colour: Colour = Colour.RED
    mode: Literal["fast", "slow"] = "fast"
    maybe: str | None = None
    either: int | str = 0
    pair: tuple[float, float] | None = None
    inner: Inner = Inner()
    items: list[Inner] = attrs.field(factory=list)
    by_name: Mapping[str, float] = attrs.field(factory=dict)
    small: int = attrs.field(default=0, validator=attrs.validators.le(10))
    even: int = attrs.field(default=0)
    anything: Any = None

    @even.validator
    def _check_even(self, _attribute: object, value: int) -> None:
        if value % 2:
            raise ValueError("must be even")


def problems(cls: type, data: object) -> tuple[str, ...]:
    with pytest.raises(ProblemsError) as caught:
        structure(cls, data, where="a.toml")
    return caught.value.problems


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("text", 3),
        ("text", True),
        ("text", ["a"]),
        ("whole", True),
        ("whole", 1.0),
        ("whole", "1"),
        ("part", True),
        ("part", "1.5"),
        ("part", float("inf")),
        ("part", float("nan")),
        ("part", 10**400),
        ("flag", 1),
        ("flag", "true"),
        ("price", "1.5"),
        ("price", True),
        ("price", float("nan")),
        ("colour", "RED"),
        ("colour", 1),
        ("mode", "Fast"),
        ("maybe", 1),
        ("either", 1.5),
        ("pair", [1.0]),
        ("pair", "ab"),
        ("inner", "x"),
        ("items", {"size": 1}),
        ("by_name", [1]),
    ],
)
def test_a_value_of_another_type_is_a_mistake(key: str, value: object) -> None:
    """No value is turned into another type: the line begins with the key and says what is allowed."""
    (line,) = problems(Table, {key: value})
    assert line.startswith(f"{key}: found ")
    assert "allowed: " in line


def test_a_text_never_becomes_a_list_of_letters() -> None:
    """A text where a list of texts is wanted is refused, not taken apart."""
    assert problems(Inner, {"tags": "abc"}) == ('tags: found "abc"; allowed: a list of text',)


def test_whole_numbers_may_stand_for_numbers() -> None:
    """An int is accepted for float and Decimal, a float for Decimal by what the user typed."""
    table = structure(Table, {"part": 3, "price": 0.1}, where="x")
    assert (type(table.part), table.part) == (float, 3.0)
    assert table.price == Decimal("0.1")
    assert structure(Table, {"price": 2}, where="x").price == Decimal(2)


def test_right_values_come_out_in_the_declared_types() -> None:
    """Enums, literals, unions, fixed tuples, nested classes and free values are built."""
    data = {
        "colour": "blue",
        "mode": "slow",
        "maybe": "m",
        "either": "e",
        "pair": [1, 2],
        "inner": {"size": 2, "tags": ["a"]},
        "items": [{"size": 3}],
        "by_name": {"a b": 1},
        "anything": {"deep": [1, "x", 2.5]},
    }
    table = structure(Table, data, where="x")
    assert table.colour is Colour.BLUE
    assert (table.mode, table.maybe, table.either, table.pair) == ("slow", "m", "e", (1.0, 2.0))
    assert table.inner == Inner(size=2.0, tags=("a",))
    assert table.items == [Inner(size=3.0)]
    assert table.by_name == {"a b": 1.0}
    assert table.anything == {"deep": [1, "x", 2.5]}


def test_all_mistakes_are_in_one_report_with_their_paths() -> None:
    """Mistakes of several tables are collected, list positions and quoted keys included."""
    data = {
        "text": 1,
        "items": [{"size": 1}, {"size": "x", "tags": ["a", 5]}],
        "by_name": {"RTX 4090": "fast"},
        "anything": [float("inf")],
    }
    lines = problems(Table, data)
    assert [line.partition(": ")[0] for line in lines] == [
        "text",
        "items[1].size",
        "items[1].tags[1]",
        'by_name."RTX 4090"',
        "anything[0]",
    ]


def test_d_090_unknown_key_names_the_nearest() -> None:
    """A misspelt key is an error that names the key as it should be."""
    assert problems(Table, {"txet": ""}) == ("txet: unknown key; did you mean text?",)
    assert problems(Table, {"inner": {"sise": 1}}) == ("inner.sise: unknown key; did you mean size?",)


def test_an_unknown_key_that_is_right_elsewhere_is_sent_there() -> None:
    """A key that belongs in another table is answered with that table."""
    assert (
        "did you mean budget.max_usd?"
        in problems(Job, {"name": "x", "run": {"command": "true"}, "folder": "/", "max_usd": 1})[0]
    )


def test_validators_of_foreign_classes_name_their_field() -> None:
    """Every field whose own validator refuses is told, not only the first."""
    lines = problems(Table, {"small": 11, "even": 3, "text": 1})
    assert {line.partition(": ")[0] for line in lines} == {"small", "even", "text"}
    assert "even: must be even" in lines


def test_a_validator_over_two_fields_is_told_once() -> None:
    """A rule that needs the whole instance is told, under its field, without a traceback."""

    @attrs.frozen(kw_only=True)
    class Range:
        low: int = 0
        high: int = attrs.field(default=1)

        @high.validator
        def _check(self, _attribute: object, value: int) -> None:
            if value < self.low:
                raise ValueError("high is under low")

    assert problems(Range, {"low": 5, "high": 2}) == ("high: high is under low",)
    assert "high" not in str(problems(Range, {"low": "x", "high": 2}))


def test_a_table_whose_types_cannot_be_found_is_the_plugins_fault() -> None:
    """A class with an annotation that names nothing is a PluginError that names the class."""

    @attrs.frozen
    class Broken:
        field: "Nowhere"  # type: ignore[name-defined]  # noqa: F821, UP037 - the very fault

    with pytest.raises(PluginError, match="Broken"):
        structure(Broken, {}, where="x")


def test_missing_keys_say_what_is_needed() -> None:
    """A required key that is missing is told with what may stand there."""
    assert "run.command: missing; needed: text" in problems(Job, {"name": "x", "run": {}, "folder": "/"})


def test_found_text_is_short_escaped_and_without_tokens() -> None:
    """What was found is cut, on one line, and never shows what looks like a token."""
    (line,) = problems(Table, {"whole": "hf_abcdefghijklmnop\n" + "x" * 500})
    assert "hf_abc" not in line
    assert "\n" not in line
    assert len(line) < 150


def test_extra_checks_run_beside_type_mistakes() -> None:
    """A caller's rule for a right field is told together with a wrong type of another."""

    def rule(value: int) -> list[Mistake]:
        return [Mistake(text="is odd")] if value % 2 else []

    with pytest.raises(ProblemsError) as caught:
        structure(Table, {"whole": 3, "text": 1}, where="x", checks={(Table, "whole"): rule})
    assert caught.value.problems == ("text: found 1; allowed: text", "whole: is odd")


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.datetimes()
    | st.just(5000).map(lambda n: 10**n),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
KEYS = [f.name for cls in (Table, Settings, Job) for f in attrs.fields(cls)]


@given(st.sampled_from([Table, Settings, Job]), JUNK | st.dictionaries(st.sampled_from(KEYS), JUNK))
def test_junk_never_ends_in_a_traceback(cls: type, junk: object) -> None:
    """Whatever stands in a file ends in a value or in a GipperError."""
    try:
        value: Any = structure(cls, junk, where="junk")
    except GipperError:
        return
    assert isinstance(value, cls)
