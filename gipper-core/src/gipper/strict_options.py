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
    """The tables below `provider` in `data`; a provider without a table gets its class's defaults.

    What isn't a table is passed over here: the surrounding class tells it. A class that has required
    fields and no table stays out of `options`.
    """
    tables = data.get("provider", {})
    named = {k: t for k, t in tables.items() if isinstance(t, Mapping)} if isinstance(tables, Mapping) else {}
    options, mistakes = dict[str, object](), list[Mistake]()
    for name, cls in classes.items():
        table = named.get(name, {})
        if cls is None:
            mistakes += _takes_none(name, table, what)
            continue
        found = collect(cls, table, prefix=("provider", name))
        if not found.mistakes:
            options[name] = found.value
        elif name in named:
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
