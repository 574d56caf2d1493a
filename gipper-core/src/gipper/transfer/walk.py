"""One input as a list of things found: a scandir walk that follows no link and ends on every tree."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import attrs

from gipper.transfer.rules import IsExcluded, link_stays


@attrs.frozen(kw_only=True)
class Found:
    """One thing below `src`; `path` is relative to it ("" = the single file that `src` is)."""

    path: str
    source: Path
    type: Literal["file", "dir", "link"]
    stat: os.stat_result
    link: str | None = None


@attrs.define
class Walk:
    """Everything that one input holds. Things left out by a rule are counted, a whole folder once."""

    found: list[Found] = attrs.field(factory=list)
    excluded: int = 0
    notes: list[str] = attrs.field(factory=list)
    problems: list[str] = attrs.field(factory=list)


def walk(top: Path, excluded: IsExcluded) -> Walk:
    """All of `top` (a real folder or regular file), sorted by name, each folder before its content.

    Links stay links where they are relative, stay inside `top` and lead somewhere; other links,
    devices, sockets and fifos are skipped and told in `notes`.
    """
    out = Walk()
    seen = top.stat()
    if stat.S_ISDIR(seen.st_mode):
        real = os.path.realpath(top)
        stack = [""]
        while stack:
            stack += reversed(_folder(top, real, stack.pop(), excluded, out))
    elif excluded(top.name):
        out.excluded += 1
    elif stat.S_ISREG(seen.st_mode):
        out.found.append(Found(path="", source=top, type="file", stat=seen))
    else:
        out.problems.append(f"{shown(top)} is neither a file nor a folder")
    return out


def _folder(top: Path, real: str, path: str, excluded: IsExcluded, out: Walk) -> list[str]:
    folders: list[str] = []
    try:
        for entry in _sorted(top / path):
            name = f"{path}/{entry.name}" if path else entry.name
            is_dir = entry.is_dir(follow_symlinks=False)
            if excluded(name + "/" if is_dir else name):
                out.excluded += 1
            elif _add(Path(entry.path), name, entry.stat(follow_symlinks=False), real, out):
                folders.append(name)
    except OSError as error:
        out.problems.append(f"{shown(top / path)} can't be read: {error.strerror}")
    return folders


def _sorted(folder: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        yield from sorted(entries, key=lambda e: e.name)


def _add(source: Path, name: str, seen: os.stat_result, real: str, out: Walk) -> bool:
    if stat.S_ISREG(seen.st_mode):
        out.found.append(Found(path=name, source=source, type="file", stat=seen))
    elif stat.S_ISLNK(seen.st_mode):
        _add_link(source, name, seen, real, out)
    elif stat.S_ISDIR(seen.st_mode):
        out.found.append(Found(path=name, source=source, type="dir", stat=seen))
        return True
    else:
        out.notes.append(f"{shown(source)}: not sent, it is a device, socket or fifo")
    return False


def _add_link(source: Path, name: str, seen: os.stat_result, real: str, out: Walk) -> None:
    target = str(source.readlink())
    why = _link_problem(source, name, target, real)
    if why is None:
        out.found.append(Found(path=name, source=source, type="link", stat=seen, link=target))
    else:
        out.notes.append(f"{shown(source)}: not sent, a link {why}")


def _link_problem(source: Path, name: str, target: str, real: str) -> str | None:
    if target.startswith("/"):
        return "with an absolute target"
    try:
        end = os.path.realpath(source, strict=True)
    except OSError:
        return "that leads nowhere or in a circle"
    inside = end == real or end.startswith(real.rstrip("/") + "/")
    if not inside or not link_stays(name.rpartition("/")[0], target):
        return "that points outside of the input"
    return None


def shown(path: Path) -> str:
    """A path for a message: control characters and undecodable bytes as escapes."""
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
