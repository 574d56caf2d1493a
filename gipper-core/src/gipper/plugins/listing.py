"""Loads everything that is installed and says what became of it; what `gipper plugins` shows."""

from __future__ import annotations

from typing import Any

import attrs

from gipper.errors import PluginError
from gipper.plugins.discover import PROVIDERS
from gipper.plugins.parts import Found, LoadedModule, LoadedProvider
from gipper.plugins.registry import Registry


@attrs.frozen(kw_only=True)
class PluginRow:
    """One plugin. `state` is ok, failed, conflict, not preferred or disabled."""

    name: str
    kind: str
    distribution: str
    version: str
    hooks: tuple[str, ...] = ()
    state: str = "ok"

    def wire(self) -> dict[str, Any]:
        """As ``--json`` has it."""
        return {**attrs.asdict(self), "hooks": list(self.hooks)}


def plugin_rows(registry: Registry) -> tuple[PluginRow, ...]:
    """Every plugin, loaded or not. `registry.problems` is complete after this call."""
    team = registry.load_team_plugins()
    providers = {name: _provider(registry, name) for name in registry.provider_names()}
    rows = [_loaded_row(p) for p in providers.values() if p is not None]
    rows += [_loaded_row(m) for m in team]
    shown = {(r.kind, r.name, r.distribution) for r in rows}
    contested = {p.entry for p in registry.problems if ", " in p.distribution}
    for found in registry.entries:
        if (_kind(found), found.name, found.distribution) not in shown:
            rows.append(_row(found, _state(found, providers, contested)))
    rows += [_row(found, "disabled") for found in registry.disabled]
    return tuple(sorted(rows, key=lambda r: (r.kind != "provider", r.name, r.distribution)))


def _provider(registry: Registry, name: str) -> LoadedProvider | None:
    try:
        return registry.load_provider(name)
    except PluginError:
        return None


def _state(found: Found, providers: dict[str, LoadedProvider | None], contested: set[str]) -> str:
    if found.group == PROVIDERS and found.name in contested:
        return "conflict"
    if found.group == PROVIDERS and providers.get(found.name) is not None:
        return "not preferred"
    return "failed"


def _loaded_row(loaded: LoadedProvider | LoadedModule) -> PluginRow:
    kind = "provider" if isinstance(loaded, LoadedProvider) else "plugin"
    origin = loaded.origin
    return PluginRow(
        name=origin.entry,
        kind=kind,
        distribution=origin.distribution,
        version=origin.version,
        hooks=tuple(sorted(loaded.hooks)),
    )


def _row(found: Found, state: str) -> PluginRow:
    return PluginRow(
        name=found.name,
        kind=_kind(found),
        distribution=found.distribution,
        version=found.version,
        state=state,
    )


def _kind(found: Found) -> str:
    return "provider" if found.group == PROVIDERS else "plugin"
