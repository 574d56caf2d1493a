"""A run's folder here: everything that a later process needs to go on with it or to end it.

``job.json`` (the job with absolute paths, a schema number), ``known_hosts``, ``log``, ``lock`` (held by
the supervisor), and the run's own copy of its receipts.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import attrs

from gipper.errors import ConfigError
from gipper.folders import make_private
from gipper.naming import is_run_id, new_run_id

SCHEMA: Final = 1


@attrs.frozen
class RunFolder:
    """`path` is ``<data>/runs/<run>``, 0700."""

    path: Path

    @classmethod
    def create(cls, data: Path, now: datetime) -> RunFolder:
        """Draw a run id and make its folder; who makes the folder has the id. Raises ConfigError."""
        try:
            make_private(data / "runs")
            while True:
                path = data / "runs" / new_run_id(now)
                try:
                    path.mkdir(mode=0o700)
                except FileExistsError:
                    continue
                return cls(path)
        except OSError as error:
            raise ConfigError(
                f"no run folder can be made in {data}: {error.strerror}",
                hint="free some space or mend the permissions, or set GIPPER_DATA to another folder",
            ) from error

    @classmethod
    def of(cls, data: Path, run: str) -> RunFolder:
        """The folder of an existing run. Raises ConfigError where there is none."""
        path = data / "runs" / run
        if not is_run_id(run) or not path.is_dir():
            raise ConfigError(f"there is no run {run!r} here", hint="`gipper pod cost` lists the runs")
        return cls(path)

    @property
    def run(self) -> str:
        """The run's id."""
        return self.path.name

    @property
    def log(self) -> Path:
        """The job's log as kept here."""
        return self.path / "log"

    @property
    def known_hosts(self) -> Path:
        """Host keys of this run's machines."""
        return self.path / "known_hosts"

    def save_job(self, job: Mapping[str, Any]) -> None:
        """Keep the job as it was when the run began. Raises ConfigError (disk full)."""
        try:
            fd = os.open(self.path / "job.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                json.dump(job, file, indent=1)
        except OSError as error:
            raise ConfigError(
                f"the job can't be kept in {self.path}: {error.strerror}",
                hint="free some space or mend the permissions, or set GIPPER_DATA to another folder",
            ) from error

    def load_job(self) -> dict[str, Any]:
        """What `save_job` kept. Raises ConfigError."""
        return self._load("job.json")

    def save_state(self, state: Mapping[str, Any]) -> None:
        """Replace what a later process needs to go on with the machine at hand."""
        temporary = self.path / "state.tmp"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            json.dump({"schema": SCHEMA, **state}, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path / "state.json")

    def load_state(self) -> dict[str, Any]:
        """What `save_state` kept. Raises ConfigError: nothing kept, or by a newer gipper."""
        loaded = self._load("state.json")
        if loaded.get("schema") != SCHEMA:
            raise ConfigError(
                f"run {self.run} was begun by another version of gipper (schema {loaded.get('schema')}, "
                f"this one knows {SCHEMA})",
                hint="use that version for this run; `gipper pod reap` still ends its machine",
            )
        return loaded

    def lock(self) -> RunLock | None:
        """The supervisor's lock, or None where another process holds it. Raises ConfigError."""
        try:
            fd = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigError(f"run {self.run} can't be locked: {error.strerror} ({self.path})") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            return None
        return RunLock(fd)

    def _load(self, name: str) -> dict[str, Any]:
        try:
            loaded = json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"run {self.run} has no readable {name}: {error}") from error
        if not isinstance(loaded, dict):
            raise ConfigError(f"run {self.run} has no readable {name}: it holds no table")
        return loaded


class RunLock:
    """Held until released or until the process ends, however it ends."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        """Let go; idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
