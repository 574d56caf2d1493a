"""Rules for values of the right type, shared by job file and settings: ranges, shapes, names.

Each rule is a `strict.Check`: it yields mistakes with paths relative to the value; None always passes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from gipper.strict_mistakes import Mistake, quoted, wrong

Rule = Callable[[Any], Iterable[Mistake]]

# Bounds against slips of the keyboard; beyond them dates and sums stop making sense.
YEAR_H: Final = 8784.0
YEAR_S: Final = YEAR_H * 3600
MAX_USD: Final = 1e9
MAX_SIZE: Final = 1e9

VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PROVIDER: Final = re.compile(r"[a-z][a-z0-9_-]*")
REGION: Final = re.compile(r"[A-Za-z]{2}")
CUDA: Final = re.compile(r"[0-9]{1,2}\.[0-9]{1,2}")


def number(low: float, high: float, *, above: bool = False) -> Rule:
    """Finite, from `low` (over it where `above`) to `high`."""
    word = f"a number {'over' if above else 'of at least'} {low:g}, at most {high:.10g}"

    def rule(value: Any) -> Iterator[Mistake]:
        if value is None:
            return
        fits = math.isfinite(value) and (low < value if above else low <= value) and value <= high
        if not fits:
            yield wrong(value, word)

    return rule


def positive(high: float) -> Rule:
    """Over 0, at most `high`."""
    return number(0, high, above=True)


def matches(pattern: re.Pattern[str], word: str) -> Rule:
    """Text of the shape `pattern`."""

    def rule(value: Any) -> Iterator[Mistake]:
        if value is not None and not pattern.fullmatch(value):
            yield wrong(value, word)

    return rule


def label(value: str | None) -> Iterator[Mistake]:
    """Text to show: not blank, no control characters."""
    if value is not None and (not value.strip() or not value.isprintable()):
        yield wrong(value, "text that isn't empty, without line ends and control characters")


def word(value: str | None) -> Iterator[Mistake]:
    """One word, such as the name of an image."""
    if value is not None and (not value or not value.isprintable() or any(c.isspace() for c in value)):
        yield wrong(value, "one word, without spaces")


def script(value: str | None) -> Iterator[Mistake]:
    """Shell text."""
    if value is not None and (not value.strip() or "\0" in value):
        yield wrong(value, "shell text that isn't empty, without NUL")


def each(rule: Rule) -> Rule:
    """`rule` for every item."""

    def whole(values: Sequence[Any] | None) -> Iterator[Mistake]:
        for position, value in enumerate(values or ()):
            yield from (m.under(position) for m in rule(value))

    return whole


def once(values: Sequence[Any] | None) -> Iterator[Mistake]:
    """No item twice."""
    for position, value in enumerate(values or ()):
        if value in (values or ())[:position]:
            yield Mistake(path=(position,), text=f"{quoted(str(value))} is there twice")


def every(*rules: Rule) -> Rule:
    """All of `rules`."""
    return lambda value: [mistake for rule in rules for mistake in rule(value)]


def country(code: str) -> Iterator[Mistake]:
    """An ISO 3166 code of two letters; for what isn't one, the nearest that are."""
    from gipper.countries import is_country, nearest_countries

    if not is_country(code):
        near = " or ".join(quoted(c) for c in nearest_countries(code))
        yield wrong(code, f'an ISO country code such as "US"{f"; did you mean {near}?" if near else ""}')


provider_names: Final = every(each(matches(PROVIDER, "the name of a provider, in small letters")), once)
region_codes: Final = each(country)
cuda_versions: Final = each(matches(CUDA, 'a CUDA version such as "12.8"'))


def upper(codes: Sequence[str] | None) -> tuple[str, ...] | None:
    """Country codes in capitals, each once."""
    return None if codes is None else tuple(dict.fromkeys(c.upper() for c in codes))


def fields(cls: type, rules: Mapping[str, Rule]) -> dict[tuple[type, str], Rule]:
    """`rules` by field name, as `strict.structure` wants its checks."""
    return {(cls, name): rule for name, rule in rules.items()}
