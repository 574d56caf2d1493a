"""Imports one entry point and checks what it names; whatever fails is told with the plugin's name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from importlib import import_module
from types import ModuleType

from gipper import __version__
from gipper.errors import PluginError
from gipper.plugins.check import check_module, check_provider
from gipper.plugins.hooks import Kind
from gipper.plugins.parts import (
    Found,
    LoadedModule,
    LoadedProvider,
    Origin,
    PluginProblem,
    PluginSet,
    problem,
)

_SEE = "see `gipper plugins`; update or uninstall {}, or name it in GIPPER_DISABLED_PLUGINS"


class LeftOut(PluginError):
    """A plugin that can't be used; `problems` has every reason."""

    def __init__(self, origin: Origin, problems: Sequence[PluginProblem]) -> None:
        causes = "\n".join(f"  {f'{p.hook}: ' if p.hook else ''}{p.cause}" for p in problems)
        text = f"{problems[0]}" if len(problems) == 1 else f"{origin.blame}:\n{causes}"
        super().__init__(text, hint=_SEE.format(origin.distribution or origin.entry))
        self.problems = tuple(problems)


def import_entry(found: Found) -> object:
    """The object that an entry point names. Raises LeftOut for whatever goes wrong while importing it."""
    try:
        return _resolve(found.value)
    except (Exception, SystemExit) as error:
        cause = f"importing {found.value} raised {type(error).__name__}: {error}"
        raise LeftOut(found.origin, [problem(found.origin, cause)]) from error


def _resolve(value: str) -> object:
    module, _, path = value.partition("[")[0].strip().partition(":")
    names = path.strip().split(".") if path.strip() else []
    return reduce(getattr, names, import_module(module.strip()))


def load_provider_class(cls: object, origin: Origin) -> LoadedProvider:
    """A checked provider's class. Raises LeftOut with every problem."""
    checked = check_provider(cls, origin)
    if checked.problems or checked.info is None or not isinstance(cls, type):
        raise LeftOut(origin, checked.problems)
    return LoadedProvider(
        info=checked.info,
        cls=cls,
        distribution=origin.distribution,
        version=origin.version,
        hooks=checked.hooks,
    )


def load_module(module: object, origin: Origin, kind: Kind) -> LoadedModule:
    """A checked module of hooks. Raises LeftOut with every problem."""
    checked = check_module(module, origin, kind)
    if checked.problems or not isinstance(module, ModuleType):
        raise LeftOut(origin, checked.problems)
    return LoadedModule(
        name=origin.entry,
        kind=kind,
        module=module,
        distribution=origin.distribution,
        version=origin.version,
        hooks=checked.hooks,
    )


def plugin_set(
    *,
    builtin: Sequence[ModuleType] = (),
    team: Sequence[LoadedModule] = (),
    job: Sequence[ModuleType] = (),
) -> PluginSet:
    """The modules of one run: gipper's own, the team's (already loaded), the job's. Raises LeftOut.

    A built-in is called by its module's last name, a job's module by its file.
    """
    return PluginSet(
        builtin=tuple(load_module(m, _builtin_origin(m), "builtin") for m in builtin),
        team=tuple(team),
        job=tuple(
            load_module(m, Origin(entry=getattr(m, "__file__", None) or m.__name__), "job") for m in job
        ),
    )


def _builtin_origin(module: ModuleType) -> Origin:
    name = module.__name__.rpartition(".")[2]
    return Origin(entry=name, distribution="gipper-core", version=__version__)
