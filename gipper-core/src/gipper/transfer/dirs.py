"""Folders below one root, opened component by component: no symbolic link is ever followed."""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

from gipper.transfer.names import Refuse

Parts = tuple[bytes, ...]
_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Open folders that are kept; far below the usual limit of 1,024 descriptors.
_KEEP: Final = 128
_IN_THE_WAY: Final = (errno.ENOTDIR, errno.ELOOP)
_NAME_FAULTS: Final = (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ)


class Dirs:
    """Descriptors of the folders below `root`, made where missing (mode 0o777 less the umask)."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._open: dict[Parts, int] = {}
        self._last: tuple[Parts, int] = ((), root)

    def fd(self, parts: Parts, mode: int = 0o777) -> int:
        """The folder at `parts`, valid until the next call.

        Raises Refuse where something that isn't a folder is in the way, OSError for a full disk and
        the like.
        """
        if parts == self._last[0]:
            return self._last[1]
        known = self._root if not parts else self._open.get(parts)
        if known is None:
            known = self._enter(parts, mode)
        self._last = (parts, known)
        return known

    def _enter(self, parts: Parts, mode: int) -> int:
        deepest = next((n for n in range(len(parts) - 1, 0, -1) if parts[:n] in self._open), 0)
        current = self._open[parts[:deepest]] if deepest else self._root
        for n in range(deepest + 1, len(parts) + 1):
            current = self._step(current, parts[:n], mode if n == len(parts) else 0o777)
        return current

    def _step(self, parent: int, parts: Parts, mode: int) -> int:
        try:
            fd = _open_or_make(parent, parts[-1], mode | 0o700)
        except OSError as error:
            if error.errno in _IN_THE_WAY:
                raise Refuse("a file or link is in the way of its folder") from error
            if error.errno in _NAME_FAULTS:
                raise Refuse(f"its name doesn't fit here ({error.strerror})") from error
            raise
        self._make_room()
        self._open[parts] = fd
        return fd

    def _make_room(self) -> None:
        # Oldest first; the newest is the parent from which the caller is about to step.
        while len(self._open) >= _KEEP:
            oldest = next(iter(self._open))
            os.close(self._open.pop(oldest))
            self._last = ((), self._root)

    def find(self, parts: Parts) -> os.stat_result | None:
        """What is at `parts` now, links not followed; None where nothing can be. Makes no folder."""
        parent = os.dup(self._root)
        try:
            for part in parts[:-1]:
                parent = _swap(parent, os.open(part, _FLAGS, dir_fd=parent))
            return os.stat(parts[-1], dir_fd=parent, follow_symlinks=False)
        except OSError:
            return None
        finally:
            os.close(parent)

    def close(self) -> None:
        """Close all but the root."""
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()
        self._last = ((), self._root)


class Mover:
    """Moves one batch's staged files and folders to their final names below `target`.

    A folder that is missing there is moved whole; one that is there is merged into.
    """

    def __init__(self, staged: Dirs, target: Dirs) -> None:
        self._staged = staged
        self._target = target
        self._moved: set[Parts] = set()
        self._there: set[Parts] = {()}

    def move(self, parts: Parts, *, folder: bool) -> None:
        """Bring one staged thing to its place. Raises Refuse, OSError."""
        for n in range(1, len(parts) + folder):
            head = parts[:n]
            if head in self._moved:
                return
            if head not in self._there and self._moves_whole(head):
                return
        if not folder:
            self._rename(parts)

    def _moves_whole(self, head: Parts) -> bool:
        parent = self._target.fd(head[:-1])
        try:
            mode = os.stat(head[-1], dir_fd=parent, follow_symlinks=False).st_mode
        except FileNotFoundError:
            self._rename(head)
            self._moved.add(head)
            return True
        if not stat.S_ISDIR(mode):
            raise Refuse("a file or link is in the way of its folder")
        self._there.add(head)
        return False

    def _rename(self, parts: Parts) -> None:
        source, parent = self._staged.fd(parts[:-1]), self._target.fd(parts[:-1])
        os.rename(parts[-1], parts[-1], src_dir_fd=source, dst_dir_fd=parent)


def _swap(old: int, new: int) -> int:
    os.close(old)
    return new


def _open_or_make(parent: int, name: bytes, mode: int) -> int:
    # Most folders of an archive are new: making first saves a failed open each.
    try:
        os.mkdir(name, mode & 0o777, dir_fd=parent)
    except FileExistsError:
        pass
    return os.open(name, _FLAGS, dir_fd=parent)
