"""The check of a plugin before any of it is used: of a provider's class unbuilt, of a module of hooks."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import attrs

from gipper.plugins.check_hooks import Implemented, implementations
from gipper.plugins.hooks import COMMANDS, INFO, OWN_MARKET, REQUIRED, VERBS, WRAPPABLE, Kind, hook_arguments
from gipper.plugins.parts import Origin, PluginProblem, problem
from gipper.values.plugins import API_VERSION, ProviderInfo


@attrs.frozen(kw_only=True)
class Checked:
    """What a check found. `info` is None for modules and wherever the class can't say it."""

    hooks: frozenset[str] = frozenset()
    problems: tuple[PluginProblem, ...] = ()
    info: ProviderInfo | None = None


def check_provider(cls: object, origin: Origin) -> Checked:
    """Check a provider's class without building it.

    A class that asks for another API version gets that one problem: its other differences follow
    from it.
    """
    if not inspect.isclass(cls):
        return Checked(problems=(problem(origin, f"it is a {type(cls).__name__}, not a class"),))
    good, bad = implementations(cls, hook_arguments())
    info = read_info(cls, good, origin)
    if isinstance(info, PluginProblem) and info.cause.startswith("needs gipper API"):
        return Checked(problems=(info,))
    problems = [problem(origin, cause, hook=hook) for hook, cause in bad.items()]
    problems += _class_problems(cls, good, bad, origin)
    if isinstance(info, PluginProblem):
        return Checked(problems=(*problems, info) if INFO not in bad else tuple(problems))
    problems += _info_problems(info, origin)
    return Checked(hooks=frozenset(i.hook for i in good), problems=tuple(problems), info=info)


def read_info(cls: type, good: tuple[Implemented, ...], origin: Origin) -> ProviderInfo | PluginProblem:
    """The class's own description, or why it can't be had."""
    marked = INFO in {i.hook for i in good}
    if not isinstance(inspect.getattr_static(cls, INFO, None), staticmethod) or not marked:
        return problem(origin, "it must be a static method marked with @hookimpl", hook=INFO)
    try:
        info: object = getattr(cls, INFO)()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin's own failure becomes its problem
        return problem(origin, f"raised {type(error).__name__}: {error}", hook=INFO)
    if not isinstance(info, ProviderInfo):
        return problem(origin, f"returned {type(info).__name__}, not ProviderInfo", hook=INFO)
    if info.api != API_VERSION:
        return problem(origin, f"needs gipper API {info.api}, this is {API_VERSION}", hook=INFO)
    return info


def check_module(module: object, origin: Origin, kind: Kind) -> Checked:
    """Check a module of hooks: from the group `gipper.plugins`, built in, or beside a job file."""
    if not isinstance(module, ModuleType):
        cause = (
            f"it is a {type(module).__name__}, not a module; a provider's class belongs in gipper.providers"
        )
        return Checked(problems=(problem(origin, cause),))
    api = getattr(module, "GIPPER_API", API_VERSION)
    if api != API_VERSION:
        return Checked(problems=(problem(origin, f"needs gipper API {api}, this is {API_VERSION}"),))
    good, bad = implementations(module, hook_arguments())
    problems = [problem(origin, cause, hook=hook) for hook, cause in bad.items()]
    for found in good:
        cause_or_none = _module_fault(found, kind)
        if cause_or_none is not None:
            problems.append(problem(origin, cause_or_none, hook=found.hook))
    return Checked(hooks=frozenset(i.hook for i in good), problems=tuple(problems))


def _module_fault(found: Implemented, kind: Kind) -> str | None:
    if found.hook in VERBS:
        return _verb_fault(found, kind)
    if found.wrapper:
        return "only gipper_list_offers and gipper_rent may be wrapped"
    if found.hook == COMMANDS and kind != "team":
        return "commands come only from the entry-point group gipper.plugins"
    return None


def _verb_fault(found: Implemented, kind: Kind) -> str | None:
    if not found.wrapper:
        return "it is a verb: only a provider's class implements it"
    if found.hook not in WRAPPABLE:
        return "it runs without wrappers; only gipper_list_offers and gipper_rent may be wrapped"
    if kind == "job":
        return "a job's own hooks file may not wrap verbs; an installed plugin (gipper.plugins) may"
    return None


def _class_problems(
    cls: type, good: tuple[Implemented, ...], bad: dict[str, str], origin: Origin
) -> list[PluginProblem]:
    problems = [
        problem(origin, "a provider that lacks it can't be used", hook=hook)
        for hook in REQUIRED
        if hook not in bad and hook != INFO and hook not in {i.hook for i in good}
    ]
    for found in good:
        cause = _class_hook_fault(found)
        if cause is not None:
            problems.append(problem(origin, cause, hook=found.hook))
    if any(getattr(cls, name) is not getattr(object, name) for name in ("__eq__", "__hash__")):
        problems.append(problem(origin, "its instances must compare by identity: attrs.define(eq=False)"))
    return problems


def _class_hook_fault(found: Implemented) -> str | None:
    if found.wrapper:
        return "a provider's class implements hooks, it doesn't wrap them"
    if found.hook not in VERBS | OWN_MARKET:
        return "not on a provider's class: it belongs to a module in the entry-point group gipper.plugins"
    return None


def _info_problems(info: ProviderInfo, origin: Origin) -> list[PluginProblem]:
    causes = []
    if info.name != origin.entry:
        causes.append(f"the entry is called {origin.entry!r}, but its info says {info.name!r}")
    if not _strings(info.key_names):
        causes.append("key_names must be a tuple of names")
    for field in ("settings_table", "job_table"):
        table: Any = getattr(info, field)
        if table is not None and not (inspect.isclass(table) and attrs.has(table)):
            causes.append(f"{field} must be an attrs class or None")
    return [problem(origin, cause, hook=INFO) for cause in causes]


def _strings(values: object) -> bool:
    return isinstance(values, tuple) and all(isinstance(v, str) and v for v in values)
