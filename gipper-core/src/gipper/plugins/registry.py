"""The plugins that one gipper knows: what is installed, what was loaded, what was left out and why."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Collection, Mapping, Sequence
from types import ModuleType

from gipper.errors import ConfigError, PluginError
from gipper.plugins.check import check_provider
from gipper.plugins.discover import GROUPS, PLUGINS, PROVIDERS, Discovered, discover
from gipper.plugins.hooks import nearest
from gipper.plugins.loading import LeftOut, import_entry, load_module, load_provider_class
from gipper.plugins.parts import (
    Found,
    LoadedModule,
    LoadedProvider,
    Origin,
    PluginProblem,
    normalized,
    problem,
    unique,
)


class Registry:
    """Thread-safe; imports a plugin when it is first asked for, and at most once.

    `prefer` maps a provider's name to the distribution that wins where several claim it.
    """

    def __init__(
        self, discovered: Discovered | None = None, *, prefer: Mapping[str, str] | None = None
    ) -> None:
        discovered = discovered or Discovered()
        # One lock for all: importing two plugins at once gains nothing, and a plugin may import another.
        self._lock = threading.RLock()
        self._problems = list(discovered.problems)
        self._disabled = discovered.disabled
        self._entries = {g: tuple(f for f in discovered.found if f.group == g) for g in GROUPS}
        self._chosen: dict[str, Found] = {}
        self._contested: dict[str, PluginProblem] = {}
        self._providers: dict[str, LoadedProvider | PluginError] = {}
        self._team: tuple[LoadedModule, ...] | None = None
        self._added: list[LoadedModule] = []
        self._choose(prefer or {})

    @classmethod
    def discover(
        cls, *, prefer: Mapping[str, str], disabled: Collection[str], groups: Sequence[str] | None = None
    ) -> Registry:
        """What is installed, without importing any of it. `groups` narrows which entry points are read."""
        return cls(discover(disabled=disabled, groups=GROUPS if groups is None else groups), prefer=prefer)

    @property
    def problems(self) -> tuple[PluginProblem, ...]:
        """Everything left out so far, in the order in which it was found; it only grows."""
        with self._lock:
            return tuple(self._problems)

    @property
    def disabled(self) -> tuple[Found, ...]:
        """Entries that GIPPER_DISABLED_PLUGINS switched off."""
        return self._disabled

    @property
    def entries(self) -> tuple[Found, ...]:
        """Every entry of both groups that isn't switched off, those that can't be used included."""
        return tuple(found for group in GROUPS for found in self._entries[group])

    def provider_names(self) -> tuple[str, ...]:
        """Providers that may be asked for, sorted; known from metadata, so one may still fail to load."""
        with self._lock:
            return tuple(sorted({*self._chosen, *self._providers}))

    def load_provider(self, name: str) -> LoadedProvider:
        """The checked class of provider `name`; imports that one plugin.

        Raises PluginError where it can't be used, ConfigError where nothing installed has that name.
        """
        with self._lock:
            known = self._providers.get(name)
            if known is None:
                known = self._providers[name] = self._load(self._find(name))
            if isinstance(known, PluginError):
                raise known.with_traceback(None)
            return known

    def load_team_plugins(self) -> tuple[LoadedModule, ...]:
        """Every usable module of the group `gipper.plugins`, by entry name, then those added by hand."""
        with self._lock:
            if self._team is None:
                loaded = (self._load_team(found) for found in self._entries[PLUGINS])
                self._team = tuple(m for m in loaded if m is not None)
            return unique([*self._team, *self._added])

    def add_provider(self, cls: type, *, distribution: str = "", version: str = "") -> LoadedProvider:
        """Take in a class that no entry point names. Raises PluginError, and then keeps nothing of it."""
        name = _own_name(cls)
        loaded = load_provider_class(cls, Origin(entry=name, distribution=distribution, version=version))
        with self._lock:
            if name in self._providers or name in self._chosen or name in self._contested:
                raise PluginError(f"{loaded.origin.blame}: a provider called {name!r} is already there")
            self._providers[name] = loaded
        return loaded

    def add_plugin(self, module: ModuleType, *, distribution: str = "", version: str = "") -> LoadedModule:
        """Take in a module of hooks that no entry point names, as a team's. Raises PluginError."""
        origin = Origin(entry=module.__name__, distribution=distribution, version=version)
        loaded = load_module(module, origin, "team")
        with self._lock:
            self._added.append(loaded)
        return loaded

    def _choose(self, prefer: Mapping[str, str]) -> None:
        claims: dict[str, list[Found]] = {}
        for found in self._entries[PROVIDERS]:
            claims.setdefault(found.name, []).append(found)
        for name, claimants in claims.items():
            wanted = [f for f in claimants if normalized(f.distribution) == normalized(prefer.get(name, ""))]
            usable = wanted if len(claimants) > 1 else claimants
            if len(usable) == 1:
                self._chosen[name] = usable[0]
            else:
                self._contested[name] = _conflict(name, claimants)
                self._problems.append(self._contested[name])

    def _find(self, name: str) -> Found:
        if name in self._contested:
            contested = self._contested[name]
            first = contested.distribution.partition(", ")[0]
            raise PluginError(
                contested.cause, hint=f'in config.toml: [plugins] prefer = {{ {name} = "{first}" }}'
            )
        if name not in self._chosen:
            raise self._unknown(name)
        return self._chosen[name]

    def _unknown(self, name: str) -> ConfigError:
        if any(f.group == PROVIDERS and f.name == name for f in self._disabled):
            return ConfigError(
                f"provider {name!r} is switched off by GIPPER_DISABLED_PLUGINS", hint="unset it, or edit it"
            )
        names = self.provider_names()
        near = nearest(name, names)
        meant = f"did you mean {near}? Else: " if near else ""
        known = ", ".join(names) or "none"
        return ConfigError(
            f"no provider {name!r} is installed (installed: {known})",
            hint=f"{meant}is its plugin installed? See `gipper plugins`",
        )

    def _load(self, found: Found) -> LoadedProvider | PluginError:
        try:
            return load_provider_class(import_entry(found), found.origin)
        except LeftOut as error:
            self._problems.extend(error.problems)
            return error

    def _load_team(self, found: Found) -> LoadedModule | None:
        if any(f.value == found.value for f in self._entries[PROVIDERS]):
            # Listed in both groups: as a provider's class it is loaded from the other one.
            return None
        try:
            return load_module(import_entry(found), found.origin, "team")
        except LeftOut as error:
            self._problems.extend(error.problems)
            return None


def _conflict(name: str, claimants: Sequence[Found]) -> PluginProblem:
    whose = " and ".join(f"{f.distribution} {f.version}" for f in claimants)
    origin = Origin(
        entry=name,
        distribution=", ".join(f.distribution for f in claimants),
        version=", ".join(f.version for f in claimants),
    )
    return problem(
        origin, f"provider {name!r} is claimed by {whose}; neither is used until plugins.prefer picks one"
    )


def _own_name(cls: type) -> str:
    # Only a class whose info can be read says its name; any other is called by its own and then refused.
    if not inspect.isclass(cls):
        return repr(cls)
    info = check_provider(cls, Origin(entry="")).info
    return info.name if info is not None else cls.__name__
