"""One finding of `gipper doctor`, and the three ways to make one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal

import attrs

if TYPE_CHECKING:
    from gipper.core import Gipper

Level = Literal["ok", "warning", "trouble"]


@attrs.frozen(kw_only=True)
class Finding:
    """One thing that was looked at. `cure` is what to type or to do; None where all is well."""

    level: Level
    what: str
    text: str
    cure: str | None = None


Check = Callable[["Gipper"], Iterator[Finding]]


def well(what: str, text: str) -> Finding:
    """Nothing to do."""
    return Finding(level="ok", what=what, text=text)


def warning(what: str, text: str, cure: str) -> Finding:
    """Something that works for now."""
    return Finding(level="warning", what=what, text=text, cure=cure)


def trouble(what: str, text: str, cure: str) -> Finding:
    """Something that doesn't work, or costs money."""
    return Finding(level="trouble", what=what, text=text, cure=cure)
