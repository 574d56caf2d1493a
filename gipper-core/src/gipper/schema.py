"""The JSON schema of job files, made from the classes, so that editors complete and check them."""

from __future__ import annotations

import types
from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, Final, Literal, Union, get_args, get_origin

import attrs

from gipper.schema_texts import CONSTRAINTS, TEXTS
from gipper.strict_tables import fields_of
from gipper.values.jobs import Job

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_HIDDEN: Final = frozenset({"folder"})
_SCALARS: Final[Mapping[Any, Mapping[str, Any]]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    Decimal: {"type": "number"},
    Path: {"type": "string"},
}

Schema = dict[str, Any]


def job_schema(option_tables: Mapping[str, type | None]) -> Schema:
    """The schema (draft 2020-12) of a job file.

    `option_tables` maps installed providers to the class of their `[provider.NAME]` table (None: no
    options); tables of other providers pass unchecked, as in `jobfile.load`.
    """
    schema = _table(Job, ())
    schema["properties"]["provider"] = {
        "type": "object",
        "description": TEXTS[("provider",)],
        "properties": {name: _options(cls) for name, cls in sorted(option_tables.items())},
        "additionalProperties": {"type": "object"},
    }
    return {"$schema": DIALECT, "title": "gipper job file", **schema}


def _options(cls: type | None) -> Schema:
    if cls is None:
        return {"type": "object", "properties": {}, "additionalProperties": False}
    return _table(cls, None)


def _table(cls: type, path: tuple[str, ...] | None) -> Schema:
    """`path` is None inside a plugin's class: there are no texts of ours for its keys."""
    fields = {key: f for key, f in fields_of(cls).items() if path is None or key not in _HIDDEN}
    schema: Schema = {
        "type": "object",
        "properties": {k: _field(f, None if path is None else (*path, k)) for k, f in fields.items()},
        "additionalProperties": False,
    }
    required = [k for k, f in fields.items() if f.default is attrs.NOTHING]
    return {**schema, "required": required} if required else schema


def _field(field: attrs.Attribute[Any], path: tuple[str, ...] | None) -> Schema:
    schema = _kind(field.type, path)
    if path is not None:
        schema = {**schema, **CONSTRAINTS.get(path, {}), "description": TEXTS[path]}
    default = _default(field.default)
    return schema if default is None else {**schema, "default": default}


def _default(value: Any) -> Any:
    """Only what a file could say: factories and nested classes speak for themselves."""
    if value is attrs.NOTHING:
        return None
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return list(value)
    return value if isinstance(value, (str, int, float, bool)) else None


def _kind(kind: Any, path: tuple[str, ...] | None) -> Schema:
    origin, args = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, types.UnionType):
        return _union([a for a in args if a is not types.NoneType], path)
    if origin is Literal:
        return {"enum": list(args)}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [member.value for member in kind]}
    if kind in _SCALARS:
        return dict(_SCALARS[kind])
    if attrs.has(origin):
        return _table(origin, path)
    return _container(origin, args, path)


def _union(members: list[Any], path: tuple[str, ...] | None) -> Schema:
    return _kind(members[0], path) if len(members) == 1 else {"anyOf": [_kind(m, path) for m in members]}


def _container(origin: Any, args: tuple[Any, ...], path: tuple[str, ...] | None) -> Schema:
    if not isinstance(origin, type):
        return {}
    if issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _kind(args[1], path) if args else True}
    if issubclass(origin, tuple) and args and args[-1] is not Ellipsis:
        size = len(args)
        items = [_kind(a, path) for a in args]
        return {"type": "array", "prefixItems": items, "minItems": size, "maxItems": size}
    if issubclass(origin, (tuple, list, set, frozenset)) or hasattr(origin, "__getitem__"):
        return {"type": "array", "items": _kind(args[0], path) if args else {}}
    return {}
