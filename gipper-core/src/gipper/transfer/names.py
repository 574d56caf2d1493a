"""Pure checks of names that a stranger's archive brings: what is inside, what is refused and why."""

from __future__ import annotations

import os
import re
from typing import Final

from gipper.transfer.rules import link_stays

_ODD: Final = re.compile(rb"[\x00-\x1f\x7f-\xff]")
_CONTROL: Final = re.compile(rb"[\x00-\x1f\x7f]")
_CONTROL_C1: Final = re.compile("[\x80-\x9f]")
# Linux takes no longer path in one call; a tree that deep comes from nobody's job.
MAX_NAME: Final = 4096


class Refuse(Exception):
    """One member is not brought home; the text says why."""


def printable(name: bytes) -> str:
    """A refused name, safe for a terminal and of bounded length."""
    text = name[:200].decode("utf-8", "backslashreplace")
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shown + ("..." if len(name) > 200 else "")


def _has_control(name: bytes) -> bool:
    if not _ODD.search(name):
        return False
    return bool(_CONTROL.search(name) or _CONTROL_C1.search(name.decode("utf-8", "replace")))


def split_name(name: bytes) -> tuple[bytes, ...]:
    """A member's name as path components below the destination; () is the destination itself.

    Raises Refuse for absolute names, "..", control characters and names over 4,096 bytes.
    """
    if len(name) > MAX_NAME:
        raise Refuse("its name is too long")
    if name[:1] == b"/":
        raise Refuse("its name is absolute")
    if _has_control(name):
        raise Refuse("its name holds control characters")
    parts = tuple([p for p in name.split(b"/") if p and p != b"."])
    if b".." in parts:
        raise Refuse("its name leaves the destination")
    return parts


def check_link(parts: tuple[bytes, ...], target: bytes) -> None:
    """Raises Refuse unless a symbolic link at `parts` to `target` stays inside the destination."""
    if len(target) > MAX_NAME or _has_control(target):
        raise Refuse("its target is too long or holds control characters")
    if not link_stays(os.fsdecode(b"/".join(parts[:-1])), os.fsdecode(target)):
        raise Refuse("a link that points outside")
