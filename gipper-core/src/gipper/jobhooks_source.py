"""A hooks file before any of it runs: read once from a place that only its owner can change, then parsed."""

from __future__ import annotations

import ast
import hashlib
import os
import shlex
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import attrs

from gipper.errors import ConfigError
from gipper.plugins.hooks import COMMANDS, PREFIX, VERBS, WRAPPABLE, did_you_mean, hook_arguments
from gipper.values.plugins import API_VERSION

API_NAME: Final = "GIPPER_API"
ALLOWED_HOOKS: Final = frozenset(hook_arguments()) - VERBS - {COMMANDS}
_MOST_BYTES: Final = 1 << 20
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.expr)


class HooksFault(ConfigError):
    """A hooks file that can't be used; the message names the file and what to do."""


@attrs.frozen(kw_only=True)
class Source:
    """The bytes of a hooks file. `path` is absolute, without symlinks: the one that is allowed."""

    path: Path
    text: bytes = attrs.field(repr=False)

    @property
    def sha256(self) -> str:
        """What is compared with what was allowed."""
        return hashlib.sha256(self.text).hexdigest()


@attrs.frozen(kw_only=True)
class Outline:
    """A parsed hooks file. `hooks` are the names that it seems to implement, sorted."""

    tree: ast.Module = attrs.field(repr=False)
    hooks: tuple[str, ...]


def read_source(path: Path, *, top: Path | None = None) -> Source:
    """The file at `path`, which must lie in `top` where that is given, symlinks followed.

    Raises HooksFault where it isn't a readable file of at most 1 MiB, leaves `top`, or where the file or
    a folder of it (its own, and those up to `top`) can be written by others or belongs to another user.
    """
    try:
        real, base = path.resolve(strict=True), None if top is None else top.resolve(strict=True)
        if base is not None and not real.is_relative_to(base):
            raise HooksFault(
                f"{path} leads to {real}, out of the job file's folder: put the file beside the job file"
            )
        for folder in _folders(real, base):
            _require_own(folder, folder.stat())
        return Source(path=real, text=_bytes(real))
    except FileNotFoundError:
        raise HooksFault(f"{path} is not there") from None
    except (OSError, RuntimeError, ValueError) as error:
        raise HooksFault(f"{path} can't be read: {getattr(error, 'strerror', None) or error}") from error


def outline(source: Source) -> Outline:
    """Parse `source` and check what its text alone tells. Raises HooksFault; nothing of it is executed."""
    try:
        tree = ast.parse(source.text, filename=str(source.path))
        names = sorted(set(_hook_names(tree)))
    except SyntaxError as error:
        line = f", line {error.lineno}" if error.lineno else ""
        raise HooksFault(f"{source.path}{line}: {type(error).__name__}: {error.msg}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise HooksFault(f"{source.path}: it can't be parsed: {error or type(error).__name__}") from error
    causes = [*_api_faults(tree), *(f"{n}: {why}" for n in names if (why := _name_fault(n)))]
    if not names:
        causes.append(
            "it implements no hook, so naming it has no effect: remove it, or see docs/job-hooks.md"
        )
    refuse(source.path, causes)
    return Outline(tree=tree, hooks=tuple(names))


def refuse(path: Path, causes: Iterable[str]) -> None:
    """Raise HooksFault with all of `causes`, if there are any."""
    if told := "; ".join(causes):
        raise HooksFault(f"{path}: {told}")


def command(*words: object) -> str:
    """What the user is to type."""
    return shlex.join(str(w) for w in words)


def _folders(real: Path, base: Path | None) -> list[Path]:
    """The file's own folder, and those above it up to `base`."""
    below = [] if base is None else [f for f in real.parents if f.is_relative_to(base)]
    return below or [real.parent]


def _require_own(path: Path, found: os.stat_result) -> None:
    if found.st_uid not in (0, os.geteuid()):
        raise HooksFault(
            f"{path} belongs to another user (uid {found.st_uid}), who could change what runs here: type "
            f"`{command('chown', os.geteuid(), path)}` as root, or work on a copy of your own"
        )
    if found.st_mode & _OTHERS_WRITE:
        raise HooksFault(
            f"others can write {path} and so change what runs here: type `{command('chmod', 'go-w', path)}`"
        )


def _bytes(real: Path) -> bytes:
    # Without O_NONBLOCK a named pipe would hold us up for good.
    fd = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise HooksFault(f"{real} is not a file")
        _require_own(real, found)
        text = file.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        raise HooksFault(f"{real} is over 1 MiB: that is no hooks file")
    return text


def _api_faults(tree: ast.Module) -> Iterator[str]:
    values = [value for node in tree.body for value in _api_values(node)]
    here = f"this gipper has hook API {API_VERSION}"
    if not values:
        yield f"it doesn't say which hook API it was written for, and {here}: set {API_NAME} = {API_VERSION}"
    elif len(values) > 1 or type(values[0]) is not int:
        yield f"{API_NAME} must be set once, to a plain number; {here}"
    elif values[0] != API_VERSION:
        yield f"it was written for hook API {values[0]}, and {here}: adapt it, or use the gipper that fits"


def _api_values(node: ast.stmt) -> list[object]:
    """What `node` sets GIPPER_API to; None where that isn't a plain value."""
    if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        return []
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    value = node.value if not isinstance(node, ast.AugAssign) else None
    named = [t for t in targets if isinstance(t, ast.Name) and t.id == API_NAME]
    return [value.value if isinstance(value, ast.Constant) else None for _ in named]


def _name_fault(name: str) -> str | None:
    if name in ALLOWED_HOOKS:
        return None
    if name in WRAPPABLE:
        return (
            "it is a verb: only a provider's class implements it, and only an installed plugin "
            "(entry-point group gipper.plugins) may wrap it"
        )
    if name in VERBS:
        return "it is a verb: only a provider's class implements it"
    if name == COMMANDS:
        return "commands come only from the entry-point group gipper.plugins"
    return f"there is no hook of that name{did_you_mean(name, ALLOWED_HOOKS)}"


def _hook_names(tree: ast.Module) -> Iterator[str]:
    """`gipper_*` names that the module's own level binds, in whatever branch."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield from (name for name in _bound(node) if name.startswith(PREFIX))
        if not isinstance(node, _SCOPES):
            waiting += ast.iter_child_nodes(node)


def _bound(node: ast.AST) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.ImportFrom):
        yield from (alias.asname or alias.name for alias in node.names)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
