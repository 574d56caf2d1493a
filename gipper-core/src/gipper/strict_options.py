"""`[provider.NAME]` tables of job file and settings, each checked by the class that its plugin declares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from gipper.strict import collect
from gipper.strict_mistakes import Mistake, did_you_mean


@attrs.frozen(kw_only=True)
class ProviderTables:
    """`options` by provider; `notes` about providers that aren't installed."""

    options: Mapping[str, object]
    notes: tuple[str, ...]
    mistakes: tuple[Mistake, ...]


def provider_tables(data: Mapping[str, Any], classes: Mapping[str, type | None], what: str) -> ProviderTables:
    """The tables below `provider` in `data`. A provider without a table has no entry in `options`, and
    its class is not asked for: `classes` may load plugins lazily.

    What isn't a table is passed over here: the surrounding class tells it.
    """
    tables = data.get("provider", {})
    named = {k: t for k, t in tables.items() if isinstance(t, Mapping)} if isinstance(tables, Mapping) else {}
    options, mistakes = dict[str, object](), list[Mistake]()
    for name in (n for n in named if n in classes):
        cls = classes[name]
        if cls is None:
            mistakes += _takes_none(name, named[name], what)
            continue
        found = collect(cls, named[name], prefix=("provider", name))
        options[name] = found.value
        mistakes += found.mistakes
    notes = tuple(_not_installed(named, classes, what))
    return ProviderTables(options=options, notes=notes, mistakes=tuple(mistakes))


def _takes_none(name: str, table: Mapping[str, Any], what: str) -> Iterator[Mistake]:
    for key in table:
        yield Mistake(path=("provider", name, str(key)), text=f"unknown key; {name} takes no {what}")


def _not_installed(named: Mapping[str, Any], classes: Mapping[str, type | None], what: str) -> Iterator[str]:
    for name in named:
        if name not in classes:
            near = did_you_mean(name, classes)
            meant = f"; did you mean {near}?" if near else ""
            yield f"[provider.{name}]: no such plugin is installed here, its {what} are ignored{meant}"
