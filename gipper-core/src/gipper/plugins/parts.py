"""What discovery and checking find: entries, origins, problems and loaded plugins."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import ModuleType

import attrs

from gipper.plugins.hooks import Kind
from gipper.values.plugins import ProviderInfo


def normalized(name: str) -> str:
    """A distribution's name in the one spelling that compares (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


@attrs.frozen(kw_only=True)
class Found:
    """One entry point, as metadata has it; nothing was imported."""

    group: str
    name: str
    value: str
    distribution: str
    version: str

    @property
    def origin(self) -> Origin:
        """Who is to be named when this entry fails."""
        return Origin(entry=self.name, distribution=self.distribution, version=self.version)


@attrs.frozen(kw_only=True)
class Origin:
    """Where a plugin comes from. `distribution` and `version` are empty for a job's own hooks file."""

    entry: str
    distribution: str = ""
    version: str = ""

    @property
    def blame(self) -> str:
        """The words with which every message about this plugin begins."""
        version = f" {self.version}" if self.version else ""
        distribution = f" (distribution {self.distribution})" if self.distribution else ""
        return f"plugin {self.entry}{version}{distribution}"


@attrs.frozen(kw_only=True)
class PluginProblem:
    """Why a plugin was left out. `hook` is None where no single hook is at fault."""

    distribution: str
    version: str
    entry: str
    hook: str | None
    cause: str

    def __str__(self) -> str:
        origin = Origin(entry=self.entry, distribution=self.distribution, version=self.version)
        return f"{origin.blame}: {f'{self.hook}: ' if self.hook else ''}{self.cause}"


def problem(origin: Origin, cause: str, *, hook: str | None = None) -> PluginProblem:
    """A problem of the plugin that comes from `origin`."""
    return PluginProblem(
        distribution=origin.distribution, version=origin.version, entry=origin.entry, hook=hook, cause=cause
    )


@attrs.frozen(kw_only=True)
class LoadedProvider:
    """A provider's class that passed every check; `hooks` are the names that it implements."""

    info: ProviderInfo
    cls: type
    distribution: str
    version: str
    hooks: frozenset[str]

    @property
    def origin(self) -> Origin:
        """Who is to be named when this provider fails."""
        return Origin(entry=self.info.name, distribution=self.distribution, version=self.version)


@attrs.frozen(kw_only=True)
class LoadedModule:
    """A module of hooks that passed every check; `name` is how messages and receipts call it."""

    name: str
    kind: Kind
    module: ModuleType
    distribution: str
    version: str
    hooks: frozenset[str]

    @property
    def origin(self) -> Origin:
        """Who is to be named when this module fails."""
        return Origin(entry=self.name, distribution=self.distribution, version=self.version)


@attrs.frozen(kw_only=True)
class PluginSet:
    """The modules that take part in a run, in the order in which they are asked."""

    builtin: tuple[LoadedModule, ...] = ()
    team: tuple[LoadedModule, ...] = ()
    job: tuple[LoadedModule, ...] = ()

    @property
    def all(self) -> tuple[LoadedModule, ...]:
        """Every module once: built-ins, team, job."""
        return unique([*self.builtin, *self.team, *self.job])


def unique(modules: Sequence[LoadedModule]) -> tuple[LoadedModule, ...]:
    """`modules` without those whose module object came before: pluggy refuses a second one."""
    seen: Mapping[int, LoadedModule] = {id(m.module): m for m in reversed(modules)}
    return tuple(m for m in modules if seen[id(m.module)] is m)
