"""Which leases this data folder ever took and doesn't know to be over: one file each.

Written before a box is asked for anything. A file is locked as long as anybody, ssh itself included, may
still be asking for that lease: a box without the lease proves nothing then.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from gipper.api import ProviderError


class Marks:
    """The files. Machine ids are "BOX.NAME", both without dots."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "leases"

    def boxes(self) -> frozenset[str]:
        """Boxes that may hold a lease of ours. Raises ProviderError."""
        return frozenset(machine_id.partition(".")[0] for machine_id in self._ids())

    @contextmanager
    def asking(self, machine_id: str) -> Iterator[int]:
        """Note the lease; the descriptor is for whoever asks for it to hold. Raises OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        early = self._folder / f".{machine_id}"
        fd = os.open(early, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            # Locked before anybody can see it, and on disk before anybody is asked.
            fcntl.flock(fd, fcntl.LOCK_EX)
            early.rename(self._folder / machine_id)
            _sync(self._folder)
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def judging(self, box: str) -> Iterator[frozenset[str]]:
        """This box's leases that nobody is asking for now; may be forgotten where the box, asked within,
        doesn't have them. Raises ProviderError."""
        with ExitStack() as stack:
            ids = [machine_id for machine_id in self._ids() if machine_id.partition(".")[0] == box]
            yield frozenset(machine_id for machine_id in ids if self._quiet(machine_id, stack))

    def forget(self, machine_id: str) -> None:
        """The lease is over, or was never taken."""
        with suppress(OSError):
            (self._folder / machine_id).unlink()

    def _ids(self) -> list[str]:
        try:
            return sorted(e.name for e in self._folder.iterdir() if not e.name.startswith("."))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ProviderError(f"ssh: {self._folder} can't be read: {error.strerror}") from error

    def _quiet(self, machine_id: str, stack: ExitStack) -> bool:
        try:
            fd = os.open(self._folder / machine_id, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        stack.callback(os.close, fd)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
