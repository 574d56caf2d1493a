"""The one pass over all inputs before anything is rented: what will be sent, hashed, scanned, sized."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import attrs

from gipper.errors import ConfigError, ProblemsError
from gipper.remote import Entry, Manifest, Progress
from gipper.runtime import Runtime
from gipper.transfer import filecheck
from gipper.transfer.filecheck import recheck
from gipper.transfer.rules import Place, excluder, parents, pattern_problem, place
from gipper.transfer.scanning import Classify, MakeScanner
from gipper.transfer.walk import Found, shown, walk
from gipper.values.jobs import Input

__all__ = ["Survey", "recheck", "survey"]
# From here on a file is worth a task of its own: reading and hashing let go of the interpreter.
_LARGE: Final = 16 << 20
_TASKS: Final = 4
# Of a manifest's entries.
ORDER: Final = {"dir": 0, "file": 1, "link": 2}


@attrs.frozen(kw_only=True)
class Survey:
    """What will be sent: one manifest per remote folder ("." = the work folder, else as `dst` names it).

    `excluded` counts what the patterns left out, a whole folder once; `notes` name what isn't sent.
    """

    manifests: Mapping[str, Manifest]
    bytes: int
    files: int
    excluded: int
    notes: tuple[str, ...]


@attrs.define
class _Pass:
    """The state of one pass."""

    scanner: MakeScanner | None
    classify: Classify | None
    progress: Progress | None
    bases: dict[str, dict[str, Entry]] = attrs.field(factory=dict)
    problems: list[str] = attrs.field(factory=list)
    dirty: list[str] = attrs.field(factory=list)
    notes: list[str] = attrs.field(factory=list)
    excluded: int = 0
    read: int = 0
    lock: threading.Lock = attrs.field(factory=threading.Lock)

    def step(self, count: int) -> None:
        with self.lock:
            self.read += count
            if self.progress is not None:
                self.progress(self.read)


def survey(
    inputs: Sequence[Input],
    folder: Path,
    *,
    scanner: MakeScanner | None,
    classify: Classify | None,
    progress: Progress | None,
    runtime: Runtime,
    label: str = "inputs",
) -> Survey:
    """Find, hash and scan everything that `inputs` name; relative sources start at `folder`.

    `label` is what messages call the list.

    `progress` is called with the bytes read so far. Raises ProblemsError (a ConfigError) naming every
    source that is missing or unreadable and every bad pattern or `dst`, or else every file that holds
    a provider key (by the key's name).
    """
    state = _Pass(scanner=scanner, classify=classify, progress=progress)
    for index, one in enumerate(inputs):
        _collect(one, f"{label}[{index}]", folder, state)
    _raise(state.problems, "These inputs can't be sent:", "correct the job file or the files")
    _read_files(state, runtime)
    _raise(state.problems, "These inputs can't be sent:", "make the files readable, or exclude them")
    _raise(
        state.dirty, "A provider key must not leave this machine:", "take the key out, or exclude the file"
    )
    return _result(state)


def _raise(problems: list[str], title: str, hint: str) -> None:
    if problems:
        raise ProblemsError(title, tuple(problems), hint=hint)


def _collect(one: Input, label: str, folder: Path, state: _Pass) -> None:
    problems = _pattern_problems(one, label)
    try:
        top = (folder / Path(one.src).expanduser()).resolve(strict=True)
        is_dir = stat.S_ISDIR(top.stat().st_mode)
        where = _place(one, label, folder, is_dir)
    except ConfigError as error:
        problems.append(error.message)
    except (OSError, RuntimeError, ValueError) as error:
        problems.append(f"{label}.src: {one.src}: {_why(error)}")
    state.problems += problems
    if not problems:
        _add_tree(top, where, one, label, state)


def _why(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "is not there"
    return getattr(error, "strerror", None) or str(error)


def _pattern_problems(one: Input, label: str) -> list[str]:
    checked = ((n, p, pattern_problem(p)) for n, p in enumerate(one.exclude))
    return [f"{label}.exclude[{n}]: {p!r} {why}" for n, p, why in checked if why]


def _place(one: Input, label: str, folder: Path, is_dir: bool) -> Place:
    # Not resolved: a link's own name is the one that the user wrote.
    name = Path(os.path.normpath(folder.absolute() / Path(one.src).expanduser())).name
    try:
        return place(name, one.dst, folder=is_dir)
    except ValueError as error:
        raise ConfigError(f"{label}.dst: {one.dst!r} {error}") from error


def _add_tree(top: Path, where: Place, one: Input, label: str, state: _Pass) -> None:
    tree = walk(top, excluder(one.exclude))
    state.problems += [f"{label}.src: {p}" for p in tree.problems]
    state.notes += tree.notes
    state.excluded += tree.excluded
    base = state.bases.setdefault(where.base, {})
    if tree.found or top.is_dir():
        _add_parents(base, where.path, top, state, is_dir=top.is_dir())
    for found in tree.found:
        _add(base, "/".join(p for p in (where.path, found.path) if p), found, state)


def _add_parents(base: dict[str, Entry], path: str, top: Path, state: _Pass, *, is_dir: bool) -> None:
    if not path:
        return
    for parent in [*parents(path), *([path] if is_dir else [])]:
        _put(base, Entry(path=parent, source=top, type="dir", mode=0o755), state)


def _add(base: dict[str, Entry], path: str, found: Found, state: _Pass) -> None:
    seen = found.stat
    entry = Entry(
        path=path,
        source=found.source,
        type=found.type,
        size=seen.st_size if found.type == "file" else 0,
        mode=seen.st_mode & 0o777,
        mtime_ns=seen.st_mtime_ns,
        inode=seen.st_ino,
        link=found.link,
    )
    _put(base, entry, state)


def _put(base: dict[str, Entry], entry: Entry, state: _Pass) -> None:
    other = base.get(entry.path)
    if other is not None and not (other.type == entry.type == "dir"):
        both = f"{shown(other.source)} and {shown(entry.source)}"
        state.problems.append(f"{both} would both become {entry.path}")
        return
    base[entry.path] = entry


def _read_files(state: _Pass, runtime: Runtime) -> None:
    slots = [(b, e) for b in state.bases.values() for e in b.values() if e.type == "file"]
    large = [s for s in slots if s[1].size >= _LARGE]
    shares = [large[n::_TASKS] for n in range(_TASKS) if large[n::_TASKS]]
    tasks = [runtime.spawn("read inputs", partial(_read_share, share, state)) for share in shares]
    try:
        _read_share([s for s in slots if s[1].size < _LARGE], state)
    finally:
        for task in tasks:
            task.result()


def _read_share(share: Sequence[tuple[dict[str, Entry], Entry]], state: _Pass) -> None:
    for base, entry in share:
        try:
            base[entry.path] = _read(entry, state)
        except OSError as error:
            state.problems.append(f"{shown(entry.source)}: {_why(error)}")


def _read(entry: Entry, state: _Pass) -> Entry:
    fd, seen = filecheck.open_file(entry.source)
    try:
        scanner = state.scanner() if state.scanner else None
        reading = filecheck.read_all(fd, scanner, state.step)
    finally:
        os.close(fd)
    if reading.found:
        state.dirty.append(f"{shown(entry.source)} holds the value of {', '.join(sorted(reading.found))}")
    flag = state.classify(entry.path, reading.head) if state.classify else None
    return attrs.evolve(
        entry,
        size=reading.size,
        mtime_ns=seen.st_mtime_ns,
        inode=seen.st_ino,
        sha256=reading.sha256,
        flag=flag,
    )


def _result(state: _Pass) -> Survey:
    manifests = {
        base: Manifest(entries=tuple(sorted(entries.values(), key=lambda e: (ORDER[e.type], e.path))))
        for base, entries in state.bases.items()
        if entries
    }
    return Survey(
        manifests=manifests,
        bytes=sum(m.bytes for m in manifests.values()),
        files=sum(m.files for m in manifests.values()),
        excluded=state.excluded,
        notes=tuple(state.notes),
    )
