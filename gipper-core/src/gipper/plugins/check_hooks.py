"""Whether one `gipper_*` attribute is a hook implementation that can be called as its spec says."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

import attrs

from gipper.markers import PROJECT
from gipper.plugins.hooks import PREFIX, did_you_mean

_MARK: Final = f"{PROJECT}_impl"
Arguments = Mapping[str, tuple[str, ...]]


@attrs.frozen(kw_only=True)
class Implemented:
    """One marked attribute. `skip` is how many leading arguments (self, cls) aren't the hook's."""

    hook: str
    function: FunctionType
    options: Mapping[str, Any]
    skip: int

    @property
    def wrapper(self) -> bool:
        """True for a wrapper of either style."""
        return bool(self.options.get("wrapper") or self.options.get("hookwrapper"))


def implementations(
    plugin: type | ModuleType, arguments: Arguments
) -> tuple[tuple[Implemented, ...], dict[str, str]]:
    """All marked attributes of a class or module, and by attribute what is wrong with the others.

    Nothing is evaluated: properties and other descriptors are looked at, not called.
    """
    good: list[Implemented] = []
    bad: dict[str, str] = {}
    for name in sorted(dir(plugin)):
        raw = inspect.getattr_static(plugin, name, None)
        options = _options(raw)
        if options is None and (not name.startswith(PREFIX) or isinstance(raw, ModuleType)):
            continue
        found = _implemented(plugin, name, raw, options)
        cause = found if isinstance(found, str) else hook_fault(found, arguments)
        if cause is not None:
            bad[name] = cause if options is not None else _unmarked(name, arguments)
        elif not isinstance(found, str):
            good.append(found)
    return tuple(good), bad


def hook_fault(found: Implemented, arguments: Arguments) -> str | None:
    """What keeps `found` from being called as its spec says, or None."""
    if found.hook not in arguments:
        return f"there is no hook {found.hook}{did_you_mean(found.hook, arguments)}"
    if found.options.get("specname") is not None:
        return "specname isn't allowed: the attribute's own name says which hook it is"
    if found.options.get("hookwrapper"):
        return "old-style hookwrapper=True isn't allowed: use wrapper=True"
    return _signature_fault(found, arguments[found.hook]) or _body_fault(found)


def _options(raw: object) -> Mapping[str, Any] | None:
    for holder in (raw, getattr(raw, "__func__", None)):
        options = getattr(holder, "__dict__", {}).get(_MARK)
        if isinstance(options, Mapping):
            return options
    return None


def _implemented(
    plugin: type | ModuleType, name: str, raw: object, options: Mapping[str, Any] | None
) -> Implemented | str:
    function = raw.__func__ if isinstance(raw, (staticmethod, classmethod)) else raw
    if options is None or not isinstance(function, FunctionType):
        return "not a plain function or method"
    skip = 0 if isinstance(plugin, ModuleType) or isinstance(raw, staticmethod) else 1
    return Implemented(hook=name, function=function, options=options, skip=skip)


def _unmarked(name: str, arguments: Arguments) -> str:
    missing = "it is not marked with @hookimpl, so it would never be called"
    if name in arguments:
        return missing
    return f"{missing}, and there is no hook of that name{did_you_mean(name, arguments)}"


def _signature_fault(found: Implemented, known: tuple[str, ...]) -> str | None:
    # What pluggy will call by is the innermost function's code, whatever __signature__ claims.
    function: Any = inspect.unwrap(found.function)
    code: CodeType = function.__code__
    names = code.co_varnames[: code.co_argcount]
    if code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        return "it takes *args or **kwargs; name the arguments that it uses"
    if code.co_kwonlyargcount:
        return "it has keyword-only arguments; hooks are called with plain positional names"
    if function.__defaults__:
        return f"argument {names[-1]!r} has a default; hooks take plain arguments"
    if len(names) < found.skip:
        return "it lacks self"
    return _unknown_arguments(names[found.skip :], known)


def _unknown_arguments(names: tuple[str, ...], known: tuple[str, ...]) -> str | None:
    for name in names:
        if name not in known:
            allowed = ", ".join(known) or "none"
            return f"there is no argument {name!r}{did_you_mean(name, known)} (it may take: {allowed})"
    return None


def _body_fault(found: Implemented) -> str | None:
    functions: tuple[Callable[..., Any], ...] = (found.function, inspect.unwrap(found.function))
    if any(inspect.iscoroutinefunction(f) or inspect.isasyncgenfunction(f) for f in functions):
        return "async functions aren't hooks: it must return its answer"
    generator = any(inspect.isgeneratorfunction(f) for f in functions)
    if found.wrapper and not generator:
        return "a wrapper must yield once"
    if generator and not found.wrapper:
        return "it is a generator; it must return its answer"
    return None
