"""The cattrs converter behind `strict`: one hook per kind of type, each raising `Mistakes`."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterable, Mapping, MutableMapping, MutableSequence, Sequence, Set
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, Final, Literal, Union, get_args, get_origin

import attrs
from cattrs import Converter

from gipper.strict_mistakes import Mistake, Mistakes, did_you_mean, quoted, show_value, wrong
from gipper.strict_tables import TableHook

Hook = Callable[[Any, Any], Any]

_LISTS: Final = (tuple, list, Sequence, MutableSequence, Iterable, Set, set, frozenset)
_TABLES: Final = (dict, Mapping, MutableMapping)
_SCALARS: Final = (str, int, float, bool, Decimal, Path, datetime, date, time)
_WORDS: Final[Mapping[Any, str]] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    Decimal: "a number",
    Path: "text (a path)",
    datetime: "a date with time",
    date: "a date",
    time: "a time",
}


def new_converter(root: type, given: Mapping[str, Any], checks: Mapping[tuple[type, str], Any]) -> Converter:
    """A converter whose mistakes name keys of `root`; `given` and `checks` as in `strict.structure`."""
    converter = Converter()
    for scalar in _SCALARS:
        converter.register_structure_hook(scalar, _scalar)
    converter.register_structure_hook(Enum, _enum)
    tables = TableHook(root=root, given=given, checks=checks, word=allowed)
    for predicate, build in (
        (_is_any, lambda _t, _c: _any),
        (_is_list, _list_hook),
        (_is_table, _mapping_hook),
        (_is_literal, lambda _t, _c: _literal),
        (_is_union, _union_hook),
        (attrs.has, tables.build),
    ):
        converter.register_structure_hook_factory(predicate, build)
    return converter


def allowed(kind: Any) -> str:
    """What may stand where `kind` is declared, in words of a TOML file."""
    if kind in _SCALARS:
        return _WORDS[kind]
    if _is_literal(kind):
        return "one of " + ", ".join(show_value(v) for v in get_args(kind))
    if _is_union(kind):
        return " or ".join(allowed(t) for t in get_args(kind) if t is not types.NoneType)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "one of " + ", ".join(show_value(m.value) for m in kind)
    if _is_list(kind):
        return _list_word(kind)
    return "anything" if _is_any(kind) else "a table"


def _list_word(kind: Any) -> str:
    args = get_args(kind)
    if get_origin(kind) is tuple and args and args[-1] is not Ellipsis:
        return f"a list of {len(args)}: " + ", ".join(allowed(a) for a in args)
    return f"a list of {allowed(args[0])}" if args else "a list"


def _is_any(kind: Any) -> bool:
    return kind is Any or kind is object


def _is_list(kind: Any) -> bool:
    return (get_origin(kind) or kind) in _LISTS


def _is_table(kind: Any) -> bool:
    return (get_origin(kind) or kind) in _TABLES


def _is_literal(kind: Any) -> bool:
    return get_origin(kind) is Literal


def _is_union(kind: Any) -> bool:
    return get_origin(kind) in (Union, types.UnionType)


def _scalar(value: Any, kind: Any) -> Any:
    if issubclass(kind, Enum):
        return _enum(value, kind)
    if kind in (float, Decimal):
        return _number(value, kind)
    wanted = str if kind is Path else kind
    # bool is an int and datetime a date to Python, but not to whoever writes a file.
    if type(value) is not wanted:
        raise Mistakes([wrong(value, allowed(kind))])
    return kind(value) if kind is Path else value


def _number(value: Any, kind: type) -> Any:
    if type(value) not in (int, float, Decimal):
        raise Mistakes([wrong(value, allowed(kind))])
    try:
        number = kind(repr(value) if kind is Decimal and type(value) is float else value)
        finite = math.isfinite(number)
    except (OverflowError, ValueError):
        finite = False
    if not finite:
        raise Mistakes([wrong(value, "a finite number")])
    return number


def _enum(value: Any, kind: Any) -> Any:
    for member in kind:
        if _same(member.value, value):
            return member
    raise Mistakes([_choice(value, kind, [m.value for m in kind])])


def _literal(value: Any, kind: Any) -> Any:
    if any(_same(value, choice) for choice in get_args(kind)):
        return value
    raise Mistakes([_choice(value, kind, get_args(kind))])


def _choice(value: Any, kind: Any, choices: Iterable[Any]) -> Mistake:
    mistake = wrong(value, allowed(kind))
    near = did_you_mean(value, [c for c in choices if isinstance(c, str)]) if isinstance(value, str) else None
    return attrs.evolve(mistake, text=f"{mistake.text}; did you mean {quoted(near)}?") if near else mistake


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _any(value: Any, _kind: Any) -> Any:
    """Free-form options: whatever TOML can say, but no infinities (JSON can't hold them)."""
    if isinstance(value, float) and not math.isfinite(value):
        raise Mistakes([wrong(value, "a finite number")])
    if isinstance(value, Mapping):
        return _each_value(value, lambda v, _k: _any(v, Any), Any)
    if isinstance(value, (list, tuple)):
        return _each_item(value, [(_any, Any)] * len(value))
    return value


def _list_hook(kind: Any, converter: Converter) -> Hook:
    origin, args = get_origin(kind) or kind, get_args(kind)
    fixed = origin is tuple and bool(args) and args[-1] is not Ellipsis
    make = origin if origin in (list, set, frozenset) else tuple

    def hook(value: Any, _kind: Any) -> Any:
        if not isinstance(value, (list, tuple)) or (fixed and len(value) != len(args)):
            raise Mistakes([wrong(value, allowed(kind))])
        kinds = list(args) if fixed else [args[0] if args else Any] * len(value)
        return make(_each_item(value, [(converter.get_structure_hook(k), k) for k in kinds]))

    return hook


def _each_item(values: Sequence[Any], hooks: Sequence[tuple[Hook, Any]]) -> list[Any]:
    out, mistakes = [], list[Mistake]()
    for position, (value, (hook, kind)) in enumerate(zip(values, hooks, strict=True)):
        try:
            out.append(hook(value, kind))
        except Mistakes as found:
            mistakes += found.under(position)
    if mistakes:
        raise Mistakes(mistakes)
    return out


def _mapping_hook(kind: Any, converter: Converter) -> Hook:
    args = get_args(kind) or (str, Any)

    def hook(value: Any, _kind: Any) -> Any:
        if not isinstance(value, Mapping):
            raise Mistakes([wrong(value, "a table")])
        return _each_value(value, converter.get_structure_hook(args[1]), args[1])

    return hook


def _each_value(table: Mapping[Any, Any], hook: Hook, kind: Any) -> dict[str, Any]:
    out, mistakes = dict[str, Any](), list[Mistake]()
    for key, value in table.items():
        try:
            out[key] = hook(value, kind)
        except Mistakes as found:
            mistakes += found.under(key)
        if not isinstance(key, str):
            mistakes.append(wrong(key, "text as a key"))
    if mistakes:
        raise Mistakes(mistakes)
    return out


def _union_hook(kind: Any, converter: Converter) -> Hook:
    """The first member that takes the value as it is; an exact scalar before a number for a whole one."""
    members = get_args(kind)
    real = [t for t in members if t is not types.NoneType]

    def hook(value: Any, _kind: Any) -> Any:
        if value is None and len(real) < len(members):
            return None
        for member in sorted(real, key=lambda t: type(value) is not t):
            try:
                return converter.get_structure_hook(member)(value, member)
            except Mistakes as found:
                mistakes = found
        if len(real) == 1:
            raise mistakes
        raise Mistakes([wrong(value, allowed(kind))])

    return hook
