"""The one place that imports paramiko.

paramiko's configuration reader imports ``invoke`` (about 50 ms) for a feature that gipper never
uses, since it reads nobody's ssh configuration; paramiko works without it. It is hidden from this
thread's import alone, and only while paramiko is imported: other threads see what they always see.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _Hide(MetaPathFinder):
    """Makes one module look absent to one thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread = threading.get_ident()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == self._name and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"{fullname} is hidden here", name=fullname)
        return None


@contextmanager
def hidden(name: str) -> Iterator[None]:
    """Imports of `name` by this thread fail inside the block, unless it was imported before."""
    finder = _Hide(name)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


with hidden("invoke"):
    import paramiko

__all__ = ["hidden", "paramiko"]
