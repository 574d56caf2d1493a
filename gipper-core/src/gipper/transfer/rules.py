"""Pure rules of inputs: which files an `exclude` leaves out, and where a `dst` puts them.

Excludes follow gitignore, as if the patterns stood in a `.gitignore` at the top of `src`: a pattern
with a slash before its end is anchored there, one without matches at any depth, a trailing slash
means folders only, the last pattern that matches decides, and what lies in an excluded folder can't
be brought back by ``!``. Nothing else is left out: `.gitignore` files and dot files mean nothing.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence

import attrs
import pathspec

IsExcluded = Callable[[str], bool]


@attrs.frozen(kw_only=True)
class Place:
    """Where an input lands: `path` relative to the remote folder `base` ("." = the job's work folder).

    An empty `path` means that a folder's content goes into `base` itself.
    """

    base: str
    path: str


def pattern_problem(pattern: str) -> str | None:
    """Why one exclude pattern would do nothing, or None where it is good."""
    if not pattern.strip():
        return "is empty"
    if pattern.startswith("#"):
        return "is a comment in gitignore syntax; write \\# for a name that starts with #"
    try:
        parsed = pathspec.GitIgnoreSpec.from_lines([pattern]).patterns
    except ValueError:
        return "is not a gitignore pattern"
    return None if parsed and parsed[0].include is not None else "is not a gitignore pattern"


def excluder(patterns: Sequence[str]) -> IsExcluded:
    """A test for paths relative to `src`, folders with a trailing slash. Patterns are already checked."""
    if not patterns:
        return lambda path: False
    return pathspec.GitIgnoreSpec.from_lines(patterns).match_file


def place(name: str, dst: str | None, *, folder: bool) -> Place:
    """Where an input whose source is called `name` lands.

    `dst` names the place itself: a folder's content goes into it, a file becomes it unless it ends
    with "/". The default is `name` in the work folder. Raises ValueError where `dst` leaves that.
    """
    raw = name if dst is None else dst
    if not raw or "\0" in raw:
        raise ValueError("is empty or holds a NUL")
    full = posixpath.join(raw, name) if raw.endswith("/") and not folder else raw
    if full.startswith(("/", "~")):
        return _outside(posixpath.normpath(full), folder)
    path = posixpath.normpath(full)
    if path == ".." or path.startswith("../"):
        raise ValueError("leaves the job's work folder")
    if path == "." and not folder:
        raise ValueError("names the work folder itself, which a file can't become; write ./ for inside it")
    return Place(base=".", path="" if path == "." else path)


def _outside(path: str, folder: bool) -> Place:
    clean = "/" + path.lstrip("/") if path.startswith("/") else path
    if folder:
        return Place(base=clean, path="")
    return Place(base=posixpath.dirname(clean), path=posixpath.basename(clean))


def parents(path: str) -> list[str]:
    """All folders above `path`, outermost first: ``a/b/c`` gives ``a``, ``a/b``."""
    parts = path.split("/")
    return ["/".join(parts[:n]) for n in range(1, len(parts))]


def link_stays(parent: str, target: str) -> bool:
    """True where a link in folder `parent` (relative to the tree's top, "" = the top) stays inside.

    Only leading ".." are accepted: one behind a name could climb out through another link.
    """
    if not target or target.startswith("/") or "\0" in target:
        return False
    parts = [p for p in target.split("/") if p not in ("", ".")]
    ups = next((n for n, p in enumerate(parts) if p != ".."), len(parts))
    depth = len([p for p in parent.split("/") if p])
    return ups <= depth and ".." not in parts[ups:]
