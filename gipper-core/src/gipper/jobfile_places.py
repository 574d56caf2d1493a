"""Paths of a job: where inputs may land, what outputs may name, and what an exclude pattern may say."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from gipper.strict_mistakes import Mistake, quoted, wrong
from gipper.values.jobs import Input, Job, Output

# Never to be the target of an upload: _EXACT as they are, _BELOW with everything in them.
_TOP: Final = ("root", "home", "usr", "usr/local", "opt", "var", "tmp", "mnt", "media", "srv", "dev/shm")
_EXACT: Final = frozenset(["/", "~", *(f"/{name}" for name in _TOP)])
_BELOW: Final = (
    *("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/boot", "/etc", "/proc", "/sys", "/run", "/var/run"),
    *(
        "/usr/bin",
        "/usr/sbin",
        "/usr/lib",
        "/usr/lib64",
        "/usr/include",
        "/var/lib",
        "/var/spool",
        "~/gipper",
    ),
)
_HOME_FILES: Final = (
    *(".ssh", ".gnupg", ".config/systemd", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout"),
    *(".profile", ".zshrc", ".zshenv", ".zprofile", ".pam_environment"),
)
_HOME: Final = re.compile(r"/root|/home/[^/]+")
_NOT_FETCHED: Final = ("/proc", "/sys", "/dev")
_WORK: Final = "a place in the work folder (relative), below the home folder or on a volume of its own"
_ESCAPABLE: Final = frozenset(" #!*?[]{}\\()|")


def input_place(dst: str | None) -> Iterator[Mistake]:
    """Rule for `inputs[].dst`."""
    if dst is None:
        return
    if not dst or not dst.isprintable():
        yield wrong(dst, _WORK)
    elif _leaves(dst):
        yield Mistake(text=f"{quoted(dst)} leaves the work folder; allowed: {_WORK}")
    elif _protected(_home_as_tilde(posixpath.normpath(dst))):
        yield Mistake(text=f"{quoted(dst)} is a place of the system or of gipper; allowed: {_WORK}")


def output_place(src: str) -> Iterator[Mistake]:
    """Rule for `outputs[].src` and `run.checkpoint.src`."""
    if not src or not src.isprintable():
        yield wrong(src, "a path on the machine")
    elif _leaves(src):
        yield Mistake(text=f"{quoted(src)} leaves the work folder; allowed: a path in it, or an absolute one")
    elif posixpath.normpath(src) in ("/", "//") or _is_below(posixpath.normpath(src), _NOT_FETCHED):
        yield Mistake(text=f"{quoted(src)} can't be brought home; allowed: the folder with the results")


def local_path(path: str | None) -> Iterator[Mistake]:
    """Rule for paths on this machine."""
    if path is not None and (not path or "\0" in path):
        yield wrong(path, "a path on this machine")
    elif path is not None and path.startswith("~") and not path.startswith("~/") and path != "~":
        yield Mistake(text=f"{quoted(path)} names another user's home; allowed: an absolute path")


def landing(item: Input) -> str:
    """Where an input lands, in one spelling: its `dst`, else the last name of its `src`."""
    if item.dst is not None:
        return posixpath.normpath(item.dst)
    return posixpath.basename(posixpath.normpath(item.src)) or "."


def same_landing(inputs: Sequence[Input]) -> Iterator[Mistake]:
    """Rule for `inputs`: no two may land in one place."""
    seen: dict[str, int] = {}
    for position, item in enumerate(inputs):
        first = seen.setdefault(landing(item), position)
        if first != position:
            text = f"lands in {quoted(landing(item))} like inputs[{first}]; give one of them another dst"
            yield Mistake(path=(position, "dst"), text=text)


def checkpoint_inside(job: Job) -> Iterator[Mistake]:
    """Rule for a whole job: what is synced while it runs belongs to an output."""
    checkpoint = job.run.checkpoint
    if checkpoint is not None and not any(_inside(checkpoint.src, o) for o in job.outputs):
        outputs = ", ".join(quoted(o.src) for o in job.outputs) or "none"
        text = f"found {quoted(checkpoint.src)}; allowed: a folder inside an output (outputs: {outputs})"
        yield Mistake(path=("run", "checkpoint", "src"), text=text)


def absolute(path: str, folder: Path) -> str:
    """A local path of the job file as an absolute one; `~` is the home of who runs gipper."""
    return os.path.normpath(folder / Path(path).expanduser())


def pattern(text: str) -> Iterator[Mistake]:
    """Rule for one exclude pattern: gitignore's language, and nothing that git would silently ignore."""
    problem = _pattern_problem(text)
    if problem is not None:
        yield Mistake(text=f"{quoted(text)}: {problem}")


def _pattern_problem(text: str) -> str | None:
    body = text[1:] if text.startswith("!") else text
    if not body.strip() or body.strip("/") == "":
        return "matches nothing; allowed: a gitignore pattern"
    if any(ord(c) < 32 for c in text):
        return "a pattern is one line"
    if text.startswith("#"):
        return "is a comment to gitignore; write \\# for a name that begins with #"
    return _path_problem(body) or _syntax_problem(body) or _compile_problem(text)


def _path_problem(body: str) -> str | None:
    if body.startswith("~"):
        return "patterns are relative to src, ~ is not expanded; write \\~ for a name that begins with ~"
    if any(part in (".", "..") for part in body.split("/")):
        return "gitignore has no . and ..; write /name for a name at the top of src"
    return "has an empty part between two /" if "//" in body.lstrip("/") or body.startswith("//") else None


def _syntax_problem(body: str) -> str | None:
    for escape in re.findall(r"\\(.?)", body):
        if escape not in _ESCAPABLE | {"~"} or not escape:
            return "\\ only makes a special character plain; folders are separated by /"
    plain = re.sub(r"\\.", "", body)
    if re.search(r"\{[^}]*,[^}]*\}", plain):
        return "gitignore has no {a,b}; write one pattern for each"
    if re.search(r"[@?*+!]\([^)]*\|[^)]*\)", plain):
        return "gitignore has no (a|b); write one pattern for each"
    if "[[:" in plain:
        return "classes such as [[:alpha:]] are not supported; write ranges such as [a-z]"
    return None


def _compile_problem(text: str) -> str | None:
    from pathspec import GitIgnoreSpec

    try:
        compiled = list(GitIgnoreSpec.from_lines([text]).patterns)
    except (ValueError, re.error):
        return "is no gitignore pattern"
    if not compiled or compiled[0].include is None:
        return "is no gitignore pattern (an open [ or a lone separator)"
    return None


def _leaves(path: str) -> bool:
    """A relative path, or one below ~, that climbs out by `..`; and another user's home."""
    if path.startswith("~"):
        if path != "~" and not path.startswith("~/"):
            return True
        path = path[2:]
    clean = posixpath.normpath(path or ".")
    return clean == ".." or clean.startswith("../")


def _home_as_tilde(path: str) -> str:
    """Root's and users' homes are the home of whoever logs in, as far as anyone here can know."""
    path = "/" + path.lstrip("/") if path.startswith("/") else path
    match = _HOME.match(path)
    if match and path[match.end() : match.end() + 1] in ("", "/"):
        return "~" + path[match.end() :]
    return path


def _protected(path: str) -> bool:
    home = tuple(f"~/{name}" for name in _HOME_FILES)
    shared = _is_below(path, ("/dev/shm",))  # noqa: S108 - memory that a job may use
    return path in _EXACT or _is_below(path, (*_BELOW, *home)) or (not shared and _is_below(path, ("/dev",)))


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def _inside(path: str, output: Output) -> bool:
    whole = posixpath.normpath(output.src)
    path = posixpath.normpath(path)
    if whole == ".":
        return not path.startswith(("/", "~"))
    return _is_below(path, (whole,))
