"""Builds pluggy managers: one for each provider, one for what isn't any provider's."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pluggy

from gipper import hookspecs
from gipper.context import ProviderContext
from gipper.errors import GipperError, PluginError
from gipper.markers import PROJECT
from gipper.plugins.blame import Implementation, Redact, raised
from gipper.plugins.handle_rent import RentWatch
from gipper.plugins.hooks import hook_arguments
from gipper.plugins.parts import LoadedProvider, Origin, PluginSet

Plugged = tuple[Origin, object]


@attrs.frozen(kw_only=True)
class Parts:
    """A finished manager and what is called apart from it.

    `own` are the provider's implementations by hook; `ordered` every non-wrapper by hook in the fixed
    order built-in, provider, team, job; `wrappers` those around verbs.
    """

    manager: pluggy.PluginManager
    own: Mapping[str, Implementation]
    ordered: Mapping[str, tuple[Implementation, ...]]
    wrappers: Mapping[str, tuple[Implementation, ...]]
    watch: RentWatch


def common_manager(plugins: PluginSet) -> Parts:
    """The manager of the hooks that belong to no market."""
    return _built([(m.origin, m.module) for m in plugins.all], None, RentWatch())


def provider_manager(
    loaded: LoadedProvider, context: ProviderContext, plugins: PluginSet, redact: Redact
) -> Parts:
    """The manager of one provider: its instance, and no other provider's.

    Raises PluginError where the class can't be built; a GipperError of its own comes through.
    """
    instance = build(loaded, context, redact)
    watch = RentWatch()
    plugged: list[Plugged] = [(m.origin, m.module) for m in plugins.all if m.kind == "builtin"]
    plugged.append((loaded.origin, instance))
    plugged += [(m.origin, m.module) for m in plugins.all if m.kind != "builtin"]
    return _built(plugged, instance, watch)


def build(loaded: LoadedProvider, context: ProviderContext, redact: Redact) -> object:
    """The provider's instance. Raises PluginError with blame."""
    try:
        return loaded.cls(context)
    except GipperError:
        raise
    except Exception as error:
        raise PluginError(raised(loaded.origin, "building it", error, redact)) from error


def _built(plugged: list[Plugged], instance: object, watch: RentWatch) -> Parts:
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    names = [_register(manager, number, one, watch) for number, one in enumerate(plugged)]
    origins = dict(zip(names, (origin for origin, _ in plugged), strict=True))
    ordered: dict[str, tuple[Implementation, ...]] = {}
    wrappers: dict[str, tuple[Implementation, ...]] = {}
    own: dict[str, Implementation] = {}
    for hook in hook_arguments():
        plain = {i.plugin_name: i for i in getattr(manager.hook, hook).get_hookimpls()}
        found = [(n, _implementation(hook, origins[n], plain[n])) for n in names if n in plain]
        ordered[hook] = tuple(i for n, i in found if not plain[n].wrapper)
        wrappers[hook] = tuple(i for n, i in found if plain[n].wrapper)
        mine = [i for n, i in found if instance is not None and plain[n].plugin is instance]
        if mine:
            own[hook] = mine[0]
    # Last and trylast: nothing stands between this and the provider's own answer.
    manager.register(watch.observer(), "rent observer")
    return Parts(manager=manager, own=own, ordered=ordered, wrappers=wrappers, watch=watch)


def _register(manager: pluggy.PluginManager, number: int, plugged: Plugged, watch: RentWatch) -> str:
    """Register one plugin, with a fence just outside its wrapper of rent where it has one."""
    origin, plugin = plugged
    name = f"{number}:{origin.entry}"
    fence = watch.fence(plugin)
    if fence is not None and fence.inside_first:
        manager.register(fence, f"{name}:fence")
    try:
        manager.register(plugin, name)
    except (pluggy.PluginValidationError, ValueError) as error:
        raise PluginError(f"{origin.blame}: it can't be registered: {error}") from error
    if fence is not None and not fence.inside_first:
        manager.register(fence, f"{name}:fence")
    return name


def _implementation(hook: str, origin: Origin, found: pluggy.HookImpl) -> Implementation:
    return Implementation(hook=hook, origin=origin, function=found.function, arguments=tuple(found.argnames))
