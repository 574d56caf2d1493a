"""One mistake in a file: where it stands as the user would write it, what was found, what is allowed."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final

import attrs

from gipper.redact_shapes import token_shapes

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_SHOWN: Final = 60
_NEAR: Final = 0.6


@attrs.frozen(kw_only=True)
class Mistake:
    """`path` holds keys and list positions; `text` is the rest of the line."""

    path: tuple[str | int, ...] = ()
    text: str

    @property
    def line(self) -> str:
        """The mistake as one line of a report."""
        return f"{show_path(self.path)}: {self.text}" if self.path else self.text

    def under(self, *prefix: str | int) -> Mistake:
        """The same mistake seen from further out."""
        return attrs.evolve(self, path=prefix + self.path)


class Mistakes(ValueError):
    """Carries mistakes out of nested structure hooks."""

    def __init__(self, items: Iterable[Mistake]) -> None:
        self.items = tuple(items)
        super().__init__("; ".join(m.line for m in self.items))

    def under(self, *prefix: str | int) -> tuple[Mistake, ...]:
        """All mistakes seen from further out."""
        return tuple(m.under(*prefix) for m in self.items)


def wrong(value: object, allowed: str, *path: str | int) -> Mistake:
    """The usual mistake: `value` was found where only `allowed` may stand."""
    return Mistake(path=path, text=f"found {show_value(value)}; allowed: {allowed}")


def show_path(path: tuple[str | int, ...]) -> str:
    """`inputs[2].exclude`; keys that TOML wants quoted are quoted."""
    out = ""
    for part in path:
        if isinstance(part, int):
            out += f"[{part}]"
        else:
            out += ("." if out else "") + (part if _BARE.fullmatch(part) else quoted(part))
    return out


def show_value(value: object) -> str:
    """`value` as a report may show it: short, on one line, without what looks like a token."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quoted(token_shapes(value))
    if isinstance(value, (int, float, Decimal)):
        return _cut(_digits(value))
    return _kind(value)


def quoted(text: str) -> str:
    """`text` in double quotes, shortened, control characters escaped."""
    return '"' + _escaped(_cut(text)) + '"'


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` is nearest to, None where none is near."""
    names = {k.lower(): k for k in known}
    near = difflib.get_close_matches(word.lower(), names, n=1, cutoff=_NEAR)
    return names[near[0]] if near else None


def _escaped(text: str) -> str:
    plain = json.dumps(text, ensure_ascii=False)[1:-1]
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in plain)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _digits(value: int | float | Decimal) -> str:
    try:
        return str(value)
    except ValueError:  # Python refuses to print whole numbers of over 4300 digits
        return "a number of thousands of digits"


def _kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, (datetime, date, time)):
        return f"the time {value.isoformat()}"
    return "nothing" if value is None else type(value).__name__
