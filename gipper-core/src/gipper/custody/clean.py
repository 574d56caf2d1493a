"""Values without secrets: known ones, and what looks like a token, out of every text of a tree of values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import attrs

from gipper.redact import Redactor, token_shapes

T = TypeVar("T")
# No form of a value and no token holds it, so that texts joined by it are seen as they are.
_JOINT = "\n\x00\n"


def without_secrets(text: str, redactor: Redactor) -> str:
    """`text` without known values, then without what looks like a token."""
    return token_shapes(redactor.text(text))


def cleaned(value: T, redactor: Redactor) -> T:
    """`value` with every text in it cleaned: attrs objects, mappings (keys too), tuples, lists.

    A tree with nothing to hide costs one pass over all its texts together, however many there are.
    """
    joined = _JOINT.join(_texts(value))
    if without_secrets(joined, redactor) == joined:
        return value
    result: T = _clean(value, redactor)
    return result


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Path):
        yield str(value)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(key)
            yield from _texts(inner)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for inner in value:
            yield from _texts(inner)
    elif attrs.has(type(value)):
        kind: Any = type(value)
        for field in attrs.fields(kind):
            yield from _texts(getattr(value, field.name))


def _clean(value: Any, redactor: Redactor) -> Any:
    if isinstance(value, str):
        return without_secrets(value, redactor)
    if isinstance(value, Path):
        return Path(without_secrets(str(value), redactor))
    if isinstance(value, Mapping):
        return {_clean(k, redactor): _clean(v, redactor) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return type(value)(_clean(inner, redactor) for inner in value)
    if attrs.has(type(value)):
        fields = attrs.fields(type(value))
        return attrs.evolve(
            value, **{f.name: _clean(getattr(value, f.name), redactor) for f in fields if f.init}
        )
    return value
