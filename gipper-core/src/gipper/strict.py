"""TOML and JSON into attrs classes without a single guess: every mistake is told, none is mended.

Stock cattrs turns 3 into "3", true into 1.0 and a text into a list of letters. Here a value has the
declared type or is a mistake; only a whole number may stand where a number is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import attrs

from gipper.errors import ProblemsError
from gipper.strict_mistakes import Mistake, Mistakes
from gipper.strict_types import new_converter

T = TypeVar("T")

Check = Callable[[Any], Iterable[Mistake]]
Checks = Mapping[tuple[type, str], Check]

__all__ = ["Check", "Checks", "Collected", "Mistake", "collect", "report", "structure"]


@attrs.frozen(kw_only=True)
class Collected:
    """The structured value (None where there are mistakes) and all mistakes, table by table."""

    value: Any
    mistakes: tuple[Mistake, ...]


def structure(
    cls: type[T],
    data: object,
    *,
    where: str,
    given: Mapping[str, Any] | None = None,
    checks: Checks | None = None,
) -> T:
    """`data` as a `cls`. `where` names the file; `given` are fields that the caller sets, not the file.

    `checks` are further rules by (class, field), run on each field that has the right type; they yield
    mistakes with paths relative to the field. Raises ProblemsError with all mistakes; PluginError where
    `cls` itself can't be read.
    """
    found = collect(cls, data, given=given, checks=checks)
    report(where, found.mistakes)
    return found.value  # type: ignore[no-any-return]  # a value of `cls` where there is no mistake


def collect(
    cls: type,
    data: object,
    *,
    prefix: tuple[str | int, ...] = (),
    given: Mapping[str, Any] | None = None,
    checks: Checks | None = None,
) -> Collected:
    """As `structure`, but the mistakes come back, their paths under `prefix`."""
    converter = new_converter(cls, given or {}, checks or {})
    try:
        value: Any = converter.structure(data, cls)
    except Mistakes as mistakes:
        return Collected(value=None, mistakes=mistakes.under(*prefix))
    return Collected(value=value, mistakes=())


def report(where: str, mistakes: Iterable[Mistake], *, hint: str | None = None) -> None:
    """Raise ProblemsError where there is any mistake."""
    lines = tuple(dict.fromkeys(m.line for m in mistakes))
    if lines:
        count = "1 mistake" if len(lines) == 1 else f"{len(lines)} mistakes"
        raise ProblemsError(
            f"{where}: {count}", lines, hint=hint or "mend the file; `gipper job schema` lists the keys"
        )
