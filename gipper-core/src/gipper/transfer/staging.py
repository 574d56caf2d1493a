"""A hidden folder beside the final names where files become whole and durable before they are moved.

The folder is locked while it is in use; one that a killed process left is recognised by its free
lock and removed by the next. It holds one tree per batch, of the same shape as the destination, so
that a folder that is new there moves with a single rename.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import secrets
import shutil
from typing import Final

from gipper.transfer.dirs import Dirs, Parts
from gipper.transfer.names import Refuse

PREFIX: Final = ".gipper-part-"
# Up to here one fsync per file is cheaper than flushing the whole file system.
_FEW: Final = 16
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME_FAULTS: Final = (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ)


def sync_filesystem(fd: int) -> None:
    """Make everything on the file system of `fd` durable. OSError where the disk says no."""
    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:
        os.sync()
    elif syncfs(fd) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _lock(root: int, name: str) -> int | None:
    fd = os.open(name, _FOLDER, dir_fd=root)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


def _remove_stale(root: int, name: str) -> None:
    try:
        fd = _lock(root, name)
    except OSError:
        return
    if fd is not None:
        shutil.rmtree(name, ignore_errors=True, dir_fd=root)
        os.close(fd)


class Batch:
    """One tree of staged files. Raises OSError, and Refuse where a name can't be had."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.dirs = Dirs(fd)

    def create(self, parts: Parts, mode: int) -> int:
        """A new empty file at `parts`, open for writing; Refuse where the name is taken."""
        parent = self.dirs.fd(parts[:-1])
        try:
            return os.open(parts[-1], _CREATE, (mode & 0o777) | 0o600, dir_fd=parent)
        except FileExistsError as error:
            raise Refuse("the archive has something else of that name, too") from error
        except OSError as error:
            if error.errno in _NAME_FAULTS:
                raise Refuse(f"its name doesn't fit here ({error.strerror})") from error
            raise

    def drop(self, parts: Parts) -> None:
        """Remove the staged file at `parts`."""
        os.unlink(parts[-1], dir_fd=self.dirs.fd(parts[:-1]))

    def make_durable(self, files: list[Parts]) -> None:
        """Return once the content of these files has reached the disk."""
        if len(files) > _FEW:
            sync_filesystem(self.fd)
            return
        for parts in files:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(parts[-1], flags, dir_fd=self.dirs.fd(parts[:-1]))
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def close(self) -> None:
        """Close its descriptors."""
        self.dirs.close()
        os.close(self.fd)


class Staging:
    """The locked folder in `root`. Making one raises OSError."""

    def __init__(self, root: int) -> None:
        for name in os.listdir(root):
            if name.startswith(PREFIX):
                _remove_stale(root, name)
        self._root = root
        self._name = PREFIX + secrets.token_hex(6)
        self._count = 0
        os.mkdir(self._name, 0o700, dir_fd=root)
        lock = _lock(root, self._name)
        if lock is None:
            raise OSError("the staging folder is locked by someone else")
        self.fd = lock

    def new_name(self) -> str:
        """A free name in the staging folder."""
        self._count += 1
        return str(self._count)

    def batch(self) -> Batch:
        """A new, empty tree."""
        name = self.new_name()
        os.mkdir(name, 0o700, dir_fd=self.fd)
        return Batch(os.open(name, _FOLDER, dir_fd=self.fd))

    def close(self) -> None:
        """Remove the folder with whatever is left in it; never raises."""
        # What can't be removed now is removed by the next one that works here, its lock being free.
        shutil.rmtree(self._name, ignore_errors=True, dir_fd=self._root)
        os.close(self.fd)
