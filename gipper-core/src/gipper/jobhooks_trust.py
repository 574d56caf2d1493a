"""Which hooks files may run here: each path and content that the user has allowed, in GIPPER_DATA.

A job's command runs on a rented machine, its hooks run on this one, beside the keys.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import attrs

from gipper.errors import ConfigError
from gipper.folders import make_private
from gipper.jobhooks_source import Source, command

SCHEMA: Final = 1
_FILE: Final = "hooks-allowed.json"
_LOCK: Final = "hooks-allowed.lock"
_KEYS: Final = frozenset({"path", "sha256", "allowed"})
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_OTHERS_WRITE: Final = 0o022


@attrs.frozen(kw_only=True)
class Allowed:
    """One content of one file. `allowed` is when, aware UTC."""

    path: Path
    sha256: str
    allowed: datetime

    def fits(self, source: Source) -> bool:
        """Whether this is what was allowed."""
        return self.path == source.path and self.sha256 == source.sha256


@attrs.frozen
class Trust:
    """The list of allowed hooks files in the data folder `data`; every call reads it anew.

    All methods raise ConfigError where the list can't be read, isn't what gipper wrote, or can be written
    by others.
    """

    data: Path

    @property
    def file(self) -> Path:
        """Where the list is kept."""
        return self.data / _FILE

    def entries(self) -> tuple[Allowed, ...]:
        """Everything allowed, in the order in which it was."""
        try:
            fd = os.open(self.file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise self._broken(f"can't be read: {error.strerror}") from error
        with open(fd, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
            self._require_own(os.fstat(fd))
            return self._parsed(file.read())

    def allow(self, sources: Iterable[Source], now: datetime) -> None:
        """Add these contents at these paths, at once; other contents of the same path stay allowed."""
        fresh = tuple(Allowed(path=s.path, sha256=s.sha256, allowed=now) for s in sources)
        pairs = {(one.path, one.sha256) for one in fresh}
        self._change(lambda old: (*(e for e in old if (e.path, e.sha256) not in pairs), *fresh))

    def revoke(self, paths: Iterable[Path]) -> int:
        """Take every content of these absolute paths off the list; how many that were."""
        gone = frozenset(paths)
        before, after = self._change(lambda old: tuple(e for e in old if e.path not in gone))
        return before - after

    def _change(self, change: Callable[[tuple[Allowed, ...]], tuple[Allowed, ...]]) -> tuple[int, int]:
        try:
            make_private(self.data)
            with _locked(self.data / _LOCK):
                old = self.entries()
                new = change(old)
                if new != old:
                    _replace(self.file, _text(new))
        except OSError as error:
            raise self._broken(f"can't be written: {error.strerror or error}") from error
        return len(old), len(new)

    def _require_own(self, found: os.stat_result) -> None:
        if found.st_uid not in (0, os.geteuid()):
            raise self._broken(f"belongs to another user (uid {found.st_uid})")
        if found.st_mode & _OTHERS_WRITE:
            cure = command("chmod", "600", self.file)
            raise ConfigError(f"others can write {self.file}: whoever can may run code here", hint=cure)

    def _parsed(self, text: bytes) -> tuple[Allowed, ...]:
        try:
            data = json.loads(text)
            if isinstance(data, dict) and isinstance(data.get("schema"), int) and data["schema"] > SCHEMA:
                raise ConfigError(
                    f"{self.file} has schema {data['schema']}, this gipper reads {SCHEMA}",
                    hint="use the newer gipper that wrote it",
                )
            if not isinstance(data, dict) or set(data) != {"schema", "allowed"} or data["schema"] != SCHEMA:
                raise ValueError("unknown shape")
            return tuple(_entry(one) for one in data["allowed"])
        except (ValueError, TypeError, RecursionError) as error:
            raise self._broken(f"is damaged ({error})") from error

    def _broken(self, why: str) -> ConfigError:
        return ConfigError(
            f"the list of allowed hooks files, {self.file}, {why}",
            hint=f"mend it, or remove it ({command('rm', self.file)}) and allow your hooks files again",
        )


def _entry(one: Any) -> Allowed:
    if not isinstance(one, dict) or set(one) != _KEYS or not all(isinstance(v, str) for v in one.values()):
        raise ValueError("an entry of unknown shape")
    path, when = Path(one["path"]), datetime.fromisoformat(one["allowed"])
    if not path.is_absolute() or not _SHA256.fullmatch(one["sha256"]) or when.tzinfo is None:
        raise ValueError("an entry without absolute path, SHA-256 or time")
    return Allowed(path=path, sha256=one["sha256"], allowed=when)


def _text(entries: Iterable[Allowed]) -> bytes:
    rows = [{"path": str(e.path), "sha256": e.sha256, "allowed": e.allowed.isoformat()} for e in entries]
    return json.dumps({"schema": SCHEMA, "allowed": rows}, indent=1).encode() + b"\n"


def _replace(path: Path, text: bytes) -> None:
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
        file.write(text)
        file.flush()
        os.fsync(fd)
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
