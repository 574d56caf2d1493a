"""A table of a file into an attrs class: unknown keys, missing keys, and the class's own validators."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, Union, get_args, get_origin

import attrs
from cattrs import Converter

from gipper.errors import PluginError
from gipper.redact_shapes import token_shapes
from gipper.strict_mistakes import Mistake, Mistakes, did_you_mean, show_path, wrong

Field: TypeAlias = "attrs.Attribute[Any]"
Values = dict[str, Any]


@attrs.frozen(kw_only=True)
class TableHook:
    """Builds the structure hook of each attrs class below `root`. `word` says what a type allows."""

    root: type
    given: Mapping[str, Any]
    checks: Mapping[tuple[type, str], Any]
    word: Callable[[Any], str]

    def build(self, cls: Any, converter: Converter) -> Callable[[Any, Any], Any]:
        """The hook for `cls`. Raises PluginError where its annotations can't be resolved."""
        fields = fields_of(cls)

        def hook(value: Any, _kind: Any) -> Any:
            if not isinstance(value, Mapping):
                raise Mistakes([wrong(value, "a table")])
            values, mistakes = self._fields(cls, fields, value, converter)
            if mistakes:
                raise Mistakes(mistakes)
            return _construct(cls, values)

        return hook

    def _fields(
        self, cls: type, fields: Mapping[str, Field], table: Mapping[str, Any], converter: Converter
    ) -> tuple[Values, list[Mistake]]:
        given = self.given if cls is self.root else {}
        values = Values(given)
        mistakes = list(self._unknown(fields.keys() - given.keys(), table, cls))
        for key, field in fields.items():
            if key in given:
                continue
            if key not in table:
                mistakes += _missing(key, field, self.word)
                continue
            try:
                values[key] = converter.get_structure_hook(field.type)(table[key], field.type)
            except Mistakes as found:
                mistakes += found.under(key)
                continue
            mistakes += [m.under(key) for m in self.checks.get((cls, field.name), _nothing)(values[key])]
        return values, mistakes + _validated(fields, values)

    def _unknown(self, known: Any, table: Mapping[str, Any], cls: type) -> Iterator[Mistake]:
        for key in table:
            if key in known:
                continue
            text, near = "unknown key", did_you_mean(str(key), known)
            near = near or (_elsewhere(self.root, str(key)) if cls is self.root else None)
            text += (
                f"; did you mean {near}?" if near else f"; known here: {', '.join(sorted(known)) or 'none'}"
            )
            yield Mistake(path=(str(key),), text=text)


def fields_of(cls: Any) -> dict[str, Field]:
    """The fields that a file may set, by the name that its author sees, with resolved types."""
    try:
        attrs.resolve_types(cls)
    except (NameError, AttributeError, TypeError) as error:
        raise PluginError(
            f"the option table {cls.__module__}.{cls.__qualname__} can't be read: {error}",
            hint="its annotations must name types that can be imported when the program runs",
        ) from error
    return {str(f.alias): _typed(f) for f in attrs.fields(cls) if f.init}


def _typed(field: Field) -> Field:
    return field.evolve(type=Any) if field.type is None else field


def _nothing(_value: Any) -> tuple[Mistake, ...]:
    return ()


def _missing(key: str, field: Field, word: Callable[[Any], str]) -> list[Mistake]:
    if field.default is not attrs.NOTHING:
        return []
    return [Mistake(path=(key,), text=f"missing; needed: {word(field.type)}")]


def _construct(cls: Any, values: Values) -> Any:
    try:
        return cls(**values)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise Mistakes([Mistake(text=_reason(error))]) from error


def _validated(fields: Mapping[str, Field], values: Values) -> list[Mistake]:
    """Each field's own validator by itself: attrs would stop at the first and not name the field."""
    # A stand-in for the instance: others of its fields may be wrong, so it can't be built yet.
    probe = types.SimpleNamespace(**{fields[k].name: v for k, v in values.items() if k in fields})
    mistakes = []
    for key, value in values.items():
        field = fields[key]
        if field.validator is None or field.converter is not None:
            continue
        try:
            field.validator(probe, field, value)
        except (ValueError, TypeError, ArithmeticError) as error:
            mistakes.append(Mistake(path=(key,), text=_reason(error)))
        except AttributeError:
            # It looks at a field that isn't there yet; the class itself runs it again at the end.
            continue
    return mistakes


def _reason(error: Exception) -> str:
    text = str(error.args[0]) if error.args else type(error).__name__
    return token_shapes(" ".join(text.split()))[:300]


def _elsewhere(root: type, key: str) -> str | None:
    """Where below `root` a key of exactly this name would be right."""
    for path in _paths(root, ()):
        if path[-1] == key:
            return show_path(path)
    return None


def _paths(cls: Any, prefix: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if len(prefix) > 4:  # a class may hold itself
        return
    for key, field in fields_of(cls).items():
        yield (*prefix, key)
        for inner in _members(field.type):
            if attrs.has(inner):
                yield from _paths(inner, (*prefix, key))


def _members(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
