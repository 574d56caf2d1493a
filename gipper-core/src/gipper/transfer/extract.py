"""The confined extractor: a stranger's tar stream becomes whole files below one folder, or is refused.

Each file is written into a staging folder. In batches the staged files are made durable (one fsync
each for a few, one syncfs for many: 10,000 single fsyncs cost seconds) and then renamed to their
final names, so that a torn file never bears one. Links come last. What is refused is named; the rest
is brought home. Files that the archive doesn't name are left as they are.
"""

from __future__ import annotations

import errno
import hashlib
import math
import os
from collections.abc import Callable, Set
from pathlib import Path
from typing import Final, NamedTuple

from gipper.transfer.dirs import Dirs, Mover, Parts
from gipper.transfer.names import Refuse, check_link, printable, split_name
from gipper.transfer.staging import Batch, Staging
from gipper.transfer.tarhead import padding
from gipper.transfer.tarread import ByteSource, Member, next_member

MAX_FILES: Final = 1_000_000
# A batch: what is fetched again when the connection is cut, and what is held twice on the disk.
_BATCH_FILES: Final = 20_000
_BATCH_BYTES: Final = 256 << 20
_MAX_REFUSED: Final = 1_000
# Above this a file is written piece by piece.
_SMALL: Final = 128 * 1024
_NO_CONTENT: Final = (b"1", b"2", b"3", b"4", b"5", b"6")
_KINDS: Final = {b"1": "a hard link", b"3": "a device", b"4": "a device", b"6": "a fifo"}
# What says that nothing more can be brought home, as against this one name.
_FATAL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE)


class Staged(NamedTuple):
    """Something whole that waits for its final name; a folder has no hash."""

    parts: Parts
    path: str
    size: int
    sha256: str | None


class Extractor:
    """Takes one archive into the folder `root`; `single` is the one name that a lone file gets there.

    Call `run`, then `finish` once it is known which files changed while they were read (`spoiled`
    gives their paths), or `salvage` where the stream was cut; `close` always. `files` maps each path
    that is home to (size, sha256), `heads` each file's path to the size and the time (whole seconds) in
    its header. With `hold` nothing gets its name before `finish`, and what changed never.
    Raises TornArchive, OSError (the local disk).
    """

    def __init__(
        self,
        root: Path,
        *,
        single: str | None = None,
        max_bytes: int | None = None,
        max_files: int = MAX_FILES,
        spoiled: Callable[[], Set[str]] = frozenset,
        on_bytes: Callable[[int], None] | None = None,
        hold: bool = False,
    ) -> None:
        self.files: dict[str, tuple[int, str]] = {}
        self.heads: dict[str, tuple[int, int]] = {}
        self._hold = hold
        self.refused: list[str] = []
        self.changed: list[str] = []
        self._single = None if single is None else os.fsencode(single)
        self._bytes_left, self._files_left = max_bytes, max_files
        self._spoiled, self._on_bytes = spoiled, on_bytes
        self._staged: list[Staged] = []
        self._links: list[tuple[Parts, bytes]] = []
        self._batch_bytes = 0
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._dirs = Dirs(self._root)
        self._stage()

    def _stage(self) -> None:
        try:
            self._staging = Staging(self._root)
            self._batch = self._staging.batch()
        except OSError:
            os.close(self._root)
            raise

    def run(self, source: ByteSource) -> None:
        """Take every member up to the archive's end."""
        while (member := next_member(source)) is not None:
            # A member that is refused counts too: an endless archive of those must end as well.
            self._files_left -= 1
            if self._files_left < 0:
                self._refuse(member.name, "and the rest of the archive: too many files")
                return
            self._take(member, source)
            full = self._batch_bytes >= _BATCH_BYTES or len(self._staged) >= _BATCH_FILES
            if full and not self._hold:
                self._commit(keep=1)

    def _take(self, member: Member, source: ByteSource) -> None:
        size = 0 if member.kind in _NO_CONTENT else member.size
        end = source.consumed + size + padding(size)
        try:
            self._accept(member, source)
        except Refuse as why:
            self._refuse(member.name, str(why))
        if source.consumed < end:
            source.skip(end - source.consumed)

    def _accept(self, member: Member, source: ByteSource) -> None:
        parts = self._parts(member.name)
        if member.kind == b"0":
            self._file(parts, member, source)
        elif member.kind == b"5":
            self._folder(parts, member.mode)
        elif member.kind == b"2":
            self._later(parts, member.link)
        else:
            raise Refuse(_KINDS.get(member.kind, "not a file, folder or link"))

    def _parts(self, name: bytes) -> Parts:
        parts = split_name(name)
        if self._single is None:
            return parts
        if self._staged or len(parts) != 1:
            raise Refuse("more than the one file that was asked for")
        return (self._single,)

    def _folder(self, parts: Parts, mode: int) -> None:
        if self._single is not None:
            raise Refuse("a folder instead of the file that was asked for")
        self._batch.dirs.fd(parts, mode)
        if parts:
            self._staged.append(Staged(parts, _text(parts), 0, None))

    def _later(self, parts: Parts, target: bytes) -> None:
        if not parts or self._single is not None:
            raise Refuse("a link where a file or folder was asked for")
        check_link(parts, target)
        self._links.append((parts, target))

    def _file(self, parts: Parts, member: Member, source: ByteSource) -> None:
        if not parts or member.name.endswith(b"/"):
            raise Refuse("a file without a name")
        if self._bytes_left is not None:
            if member.size > self._bytes_left:
                raise Refuse(f"its {member.size} bytes are more than what may still come home")
            self._bytes_left -= member.size
        fd = self._batch.create(parts, member.mode)
        try:
            sha256 = self._write(fd, member.size, source)
            _set_time(fd, member.mtime)
        except BaseException:
            # Its folder may move whole: what is torn must not lie in it.
            self._batch.drop(parts)
            raise
        finally:
            os.close(fd)
        path = _text(parts)
        self._staged.append(Staged(parts, path, member.size, sha256))
        self.heads[path] = (member.size, _whole(member.mtime))
        self._batch_bytes += member.size

    def _write(self, fd: int, size: int, source: ByteSource) -> str:
        if size <= _SMALL:
            data = source.view(size, padding(size))
            _write_all(fd, data)
            if self._on_bytes is not None:
                self._on_bytes(size)
            return hashlib.sha256(data).hexdigest()
        digest = hashlib.sha256()
        for piece in source.pieces(size):
            _write_all(fd, piece)
            digest.update(piece)
            if self._on_bytes is not None:
                self._on_bytes(len(piece))
        return digest.hexdigest()

    def finish(self) -> None:
        """Give all staged files and links their final names and make that durable."""
        self._commit(keep=0)
        for parts, target in self._links:
            try:
                self._link(parts, target)
            except (Refuse, OSError) as why:
                self._put_down(parts, why)
        # Journals keep the order of renames: with the last one, all of them are on the disk.
        os.fsync(self._root)

    def salvage(self, *, cut: bool) -> None:
        """Keep what is whole. After a `cut` the last file isn't: the word that it changed may be lost.

        With `hold` nothing is known to be whole before the end.
        """
        if self._hold:
            return
        self._commit(keep=1 if cut else 0)

    def _commit(self, *, keep: int) -> None:
        last = len(self._staged) - keep
        staged, self._staged = self._staged[:last], self._staged[last:]
        done, self._batch = self._batch, self._staging.batch()
        try:
            if self._hold:
                staged = [one for one in staged if not self._dropped(one, done)]
            for kept in self._staged:
                self._carry_over(kept, done.dirs)
            done.make_durable([s.parts for s in staged if s.sha256 is not None])
            self._move_all(staged, Mover(done.dirs, self._dirs))
        finally:
            done.close()
        self._batch_bytes = sum(s.size for s in self._staged)

    def _dropped(self, one: Staged, batch: Batch) -> bool:
        # Not only passed over: a folder that is new here moves whole.
        if one.sha256 is None or one.path not in self._spoiled():
            return False
        batch.drop(one.parts)
        self.changed.append(one.path)
        return True

    def _carry_over(self, kept: Staged, old: Dirs) -> None:
        new = self._batch.dirs.fd(kept.parts if kept.sha256 is None else kept.parts[:-1])
        if kept.sha256 is not None:
            name = kept.parts[-1]
            os.rename(name, name, src_dir_fd=old.fd(kept.parts[:-1]), dst_dir_fd=new)

    def _move_all(self, staged: list[Staged], mover: Mover) -> None:
        spoiled = self._spoiled()
        for one in staged:
            if one.path in spoiled:
                self.changed.append(one.path)
                if self._dirs.find(one.parts) is not None:
                    continue
            try:
                self._move(one, mover)
            except (Refuse, OSError) as why:
                self._put_down(one.parts, why)

    def _put_down(self, parts: Parts, why: Refuse | OSError) -> None:
        if isinstance(why, OSError):
            if why.errno in _FATAL:
                raise why
            why = Refuse(_in_the_way(why))
        self._refuse(b"/".join(parts), str(why))

    def _move(self, one: Staged, mover: Mover) -> None:
        mover.move(one.parts, folder=one.sha256 is None)
        if one.sha256 is not None:
            self.files[one.path] = (one.size, one.sha256)

    def _link(self, parts: Parts, target: bytes) -> None:
        temp = self._staging.new_name()
        os.symlink(target, temp, dir_fd=self._staging.fd)
        parent = self._dirs.fd(parts[:-1])
        os.rename(temp, parts[-1], src_dir_fd=self._staging.fd, dst_dir_fd=parent)

    def _refuse(self, name: bytes, why: str) -> None:
        if len(self.refused) < _MAX_REFUSED:
            self.refused.append(f"{printable(name)}: {why}")
        elif len(self.refused) == _MAX_REFUSED:
            self.refused.append("and more")

    def close(self) -> None:
        """Remove what is still staged and close all descriptors; call it once."""
        self._batch.close()
        self._dirs.close()
        self._staging.close()
        os.close(self._root)


def _text(parts: Parts) -> str:
    return os.fsdecode(b"/".join(parts))


def _write_all(fd: int, data: bytes | memoryview) -> None:
    done = os.write(fd, data)
    while done < len(data):
        done += os.write(fd, data[done:])


def _whole(mtime: float) -> int:
    return math.floor(mtime) if math.isfinite(mtime) else 0


def _set_time(fd: int, mtime: float) -> None:
    # A stranger's time may be no time at all; the file is worth having without it.
    try:
        ns = int(mtime * 1_000_000_000)
        os.utime(fd, ns=(ns, ns))
    except (OverflowError, ValueError, OSError):
        pass


def _in_the_way(error: OSError) -> str:
    if error.errno in (errno.EISDIR, errno.ENOTEMPTY, errno.EEXIST):
        return "a folder of that name is in the way"
    return f"it can't be put there ({error.strerror})"
