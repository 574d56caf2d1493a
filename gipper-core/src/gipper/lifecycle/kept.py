"""What a run fetched, kept in its folder: a later sync, collection or client fetches only what changed.

``fetched.json`` holds every file that came, by its path on the machine; ``checkpoint.json`` the last
whole set of the checkpoint: where it is, when it was brought, path, size and hash of each file.
"""

from __future__ import annotations

import json
import os
import posixpath
import threading
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import attrs

from gipper.remote import Known

SCHEMA: Final = 1


@attrs.frozen(kw_only=True)
class WholeSet:
    """The checkpoint as it was home, whole, at `at`. `files` are (path, size, sha256)."""

    source: str
    place: Path
    at: datetime
    files: tuple[tuple[str, int, str], ...]


class Kept:
    """The files of one run. Any task may call; writing raises OSError (the disk here)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._files = _loaded(folder / "fetched.json")

    def below(self, source: str) -> dict[str, Known]:
        """What came of `source`, by path below it ("" = the file that it is); a copy."""
        with self._lock:
            keys = ((key, _relative(source, key)) for key in self._files)
            return {path: self._files[key] for key, path in keys if path is not None}

    def replace(self, source: str, known: Mapping[str, Known]) -> None:
        """Take `known` for all of `source` and write it down."""
        with self._lock:
            others = {k: v for k, v in self._files.items() if _relative(source, k) is None}
            self._files = others | {_key(source, path): one for path, one in known.items()}
            lines = {
                key: (one.size, one.mtime_ns, one.inode, one.sha256, one.here_ns)
                for key, one in self._files.items()
            }
            _write(self._folder / "fetched.json", {"files": lines})

    def save_whole(self, whole: WholeSet) -> None:
        """Record the last whole set of the checkpoint."""
        _write(self._folder / "checkpoint.json", {
            "source": whole.source, "place": str(whole.place), "at": whole.at.isoformat(),
            "files": whole.files,
        })  # fmt: skip

    def whole(self) -> WholeSet | None:
        """The last whole set that was recorded, by this client or an earlier one."""
        try:
            found = _read(self._folder / "checkpoint.json")
            return WholeSet(
                source=found["source"], place=Path(found["place"]),
                at=datetime.fromisoformat(found["at"]),
                files=tuple((path, size, sha256) for path, size, sha256 in found["files"]),
            )  # fmt: skip
        except (OSError, ValueError, KeyError, TypeError):
            return None


def _key(source: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(source, path))


def _relative(source: str, key: str) -> str | None:
    top = posixpath.normpath(source)
    if key == top:
        return ""
    if top == ".":
        return None if key.startswith(("/", "~")) else key
    return key[len(top) + 1 :] if key.startswith(top + "/") else None


def _loaded(file: Path) -> dict[str, Known]:
    # What can't be read is only fetched again.
    try:
        files = _read(file)["files"]
        return {
            key: Known(size=one[0], mtime_ns=one[1], inode=one[2], sha256=one[3], here_ns=one[4])
            for key, one in files.items()
        }
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
        return {}


def _read(file: Path) -> Any:
    found = json.loads(file.read_text(encoding="ascii"))
    if found["schema"] != SCHEMA:
        raise ValueError(f"{file} is of schema {found['schema']}")
    return found


def _write(file: Path, content: Mapping[str, Any]) -> None:
    temporary = file.with_suffix(".tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    # ASCII alone: names of any bytes survive as escapes.
    with os.fdopen(fd, "w", encoding="ascii") as out:
        json.dump({"schema": SCHEMA, **content}, out)
        out.flush()
        os.fsync(out.fileno())
    temporary.replace(file)
