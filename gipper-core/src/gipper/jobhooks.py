"""A job's own hooks: the files that its `hooks` names, allowed, checked and loaded, for one run or estimate.

Nothing of any file is executed before all of them were read, are allowed, and say the right API version;
the bytes that were hashed are the bytes that run.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

import attrs

from gipper.jobhooks_source import HooksFault, Outline, Source, command, outline, read_source, refuse
from gipper.jobhooks_trust import Trust
from gipper.plugins.blame import line_in, words
from gipper.plugins.loading import LeftOut, load_module
from gipper.plugins.parts import LoadedModule, Origin
from gipper.strict import report
from gipper.strict_mistakes import Mistake, quoted
from gipper.values.jobs import Job

Redact = Callable[[str], str]

_HINT: Final = "hooks run on this computer, beside your keys: read them first; more in docs/job-hooks.md"


@attrs.frozen(kw_only=True)
class JobHooks:
    """The loaded hooks files of one job, in the order of the job file; `hashes` by their paths."""

    loaded: tuple[LoadedModule, ...] = ()
    hashes: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def modules(self) -> tuple[ModuleType, ...]:
        """What is registered with the providers."""
        return tuple(one.module for one in self.loaded)

    def for_receipt(self) -> dict[str, str]:
        """By path: `sha256:HASH` and the names of the hooks."""
        return {m.name: " ".join([f"sha256:{self.hashes[m.name]}", *sorted(m.hooks)]) for m in self.loaded}


@attrs.frozen(kw_only=True)
class _Read:
    position: int
    source: Source
    outline: Outline


def load_hooks(job: Job, data: Path, *, allow: bool = False, redact: Redact = str) -> JobHooks:
    """The hooks of `job`, loaded. `allow` allows them for this call.

    Raises ProblemsError with every mistake, ConfigError where the list of allowed files is broken.
    """
    found, mistakes = examine(job, data, allow=allow, redact=redact)
    report(f"hooks of job {job.name}", mistakes, hint=_HINT)
    return found


def examine(
    job: Job, data: Path, *, allow: bool = False, redact: Redact = str
) -> tuple[JobHooks, tuple[Mistake, ...]]:
    """As `load_hooks`, with the mistakes beside what could be loaded, their paths as in the job file."""
    if not job.hooks:
        return JobHooks(), ()
    mistakes: list[Mistake] = []
    read = [one for n, name in enumerate(job.hooks) if (one := _read(job.folder, n, name, mistakes))]
    mistakes += _twice(read)
    if not allow:
        mistakes += _not_allowed(read, Trust(data))
    if mistakes:
        return JobHooks(), tuple(sorted(mistakes, key=lambda m: m.path[1:2]))
    return _loaded(read, redact)


def _read(folder: Path, position: int, name: str, mistakes: list[Mistake]) -> _Read | None:
    try:
        source = read_source(_place(folder, name), top=folder)
        return _Read(position=position, source=source, outline=outline(source))
    except HooksFault as fault:
        mistakes.append(_mistake(position, fault.message))
        return None


def _place(folder: Path, name: str) -> Path:
    if not name or Path(name).is_absolute() or "\0" in name:
        raise HooksFault(
            f"found {quoted(name)}; allowed: a file beside the job file, such as gipper_hooks.py"
        )
    return folder / name


def _twice(read: Sequence[_Read]) -> Iterator[Mistake]:
    seen: dict[Path, int] = {}
    for one in read:
        first = seen.setdefault(one.source.path, one.position)
        if first != one.position:
            yield _mistake(one.position, f"{one.source.path} is there twice, like hooks[{first}]")


def _not_allowed(read: Sequence[_Read], trust: Trust) -> Iterator[Mistake]:
    entries = trust.entries()
    for one in read:
        path = one.source.path
        if not any(e.fits(one.source) for e in entries):
            changed = any(e.path == path for e in entries)
            why = "has changed since it was allowed" if changed else "was not allowed yet"
            cure = command("gipper", "hooks", "allow", path)
            yield _mistake(one.position, f"{path} {why}: look at it, then type `{cure}`")


def _loaded(read: Sequence[_Read], redact: Redact) -> tuple[JobHooks, tuple[Mistake, ...]]:
    loaded: list[LoadedModule] = []
    mistakes: list[Mistake] = []
    for one in read:
        try:
            loaded.append(_load(one.source, one.outline))
        except HooksFault as fault:
            mistakes.append(_mistake(one.position, redact(fault.message)))
    hashes = {str(one.source.path): one.source.sha256 for one in read}
    return JobHooks(loaded=tuple(loaded), hashes=hashes), tuple(mistakes)


def _load(source: Source, found: Outline) -> LoadedModule:
    """Execute one file and check its hooks. Raises HooksFault, and then leaves nothing in sys.modules."""
    module = ModuleType(f"_gipper_job_hooks_{secrets.token_hex(16)}")
    module.__file__ = str(source.path)
    # Dataclasses and pickle look a class's module up by its name, so it needs one; nobody can guess it.
    sys.modules[module.__name__] = module
    try:
        _execute(source, found, module)
        return load_module(module, Origin(entry=str(source.path)), "job")
    except HooksFault:
        del sys.modules[module.__name__]
        raise
    except LeftOut as error:
        del sys.modules[module.__name__]
        refuse(source.path, [f"{p.hook}: {p.cause}" if p.hook else p.cause for p in error.problems])
        raise


def _execute(source: Source, found: Outline, module: ModuleType) -> None:
    try:
        exec(compile(found.tree, str(source.path), "exec", dont_inherit=True), vars(module))  # noqa: S102 - allowed by the user
    except (Exception, SystemExit) as error:
        number = line_in(str(source.path), error)
        line = f", line {number}" if number else ""
        raise HooksFault(f"{source.path}{line}: {type(error).__name__}: {words(error)}") from error


def _mistake(position: int, text: str) -> Mistake:
    return Mistake(path=("hooks", position), text=text)
