"""A folder home, file by file, only what changed: one listing, then tar streams of what is wanted.

Files travel in portions. A portion's states are listed again behind its stream, so that a file that was
written meanwhile is told apart before anything gets its final name.
"""

from __future__ import annotations

import os
import posixpath
import secrets
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from gipper.remote import Fetched, Known, Progress
from gipper.runtime import Event, Runtime
from gipper.ssh.bytechannel import OpenChannel
from gipper.transfer import scripts
from gipper.transfer.download import absent, fetch_stream
from gipper.transfer.listing import Listing, State, read_listing
from gipper.transfer.portion import Ask, Portion
from gipper.transfer.stderrs import Stderr, text

# A portion: what is fetched again when the connection is cut, and what is held twice on the disk.
_BYTES: Final = 32 << 20
_FILES: Final = 4_000
# All names must fit into one command line there.
_NAMES: Final = 100_000
# A state told in whole seconds says nothing about what happens within the same second.
_RACY_S: Final = 2


def fetch(
    open_channel: OpenChannel,
    base: str,
    source: str,
    dest: Path,
    *,
    known: MutableMapping[str, Known] | None,
    live: bool,
    max_bytes: int | None,
    progress: Progress | None,
    stop: Event | None,
    runtime: Runtime,
) -> Fetched:
    """`Remote.fetch`: all of it where nothing is `known`, or where that machine can't list its files."""
    if known is not None:
        started = runtime.monotonic()
        mark = secrets.token_hex(16)
        channel = open_channel(scripts.listing(base, source, mark))
        try:
            listing = read_listing(channel, mark, source)
            unread = complaints(Stderr(mark).feed(channel.poll_stderr()))
        finally:
            channel.close()
        if listing == "absent":
            seconds = runtime.monotonic() - started
            return Fetched(files=(), bytes=0, seconds=seconds, missing=(absent(source),))
        if listing != "plain":
            ask = Ask(base=base, source=source, dest=dest, live=live, progress=progress, stop=stop)
            fetched = _Changed(open_channel, ask, listing, known, max_bytes, missing=unread).run()
            return attrs.evolve(fetched, seconds=runtime.monotonic() - started)
    return fetch_stream(
        open_channel,
        base,
        source,
        dest,
        max_bytes=max_bytes,
        progress=progress,
        stop=stop,
        runtime=runtime,
    )


@attrs.define
class _Changed:
    """Brings what changed; `known` is brought up to date after each portion, also after a broken one."""

    open_channel: OpenChannel
    ask: Ask
    listing: Listing
    known: MutableMapping[str, Known]
    max_bytes: int | None
    _missing: list[str]
    _files: list[tuple[str, int, str]] = attrs.field(factory=list)
    _refused: list[str] = attrs.field(factory=list)
    _home: dict[str, Known] = attrs.field(factory=dict)
    _changed: list[str] = attrs.field(factory=list)

    def run(self) -> Fetched:
        root = self.ask.dest if self.listing.folder else self.ask.dest.parent
        root.mkdir(parents=True, exist_ok=True)
        self._refused += self.listing.refused
        for paths in portions(list(self._wanted()), self.listing.things):
            self._one(paths)
        return Fetched(
            files=tuple(self._files), bytes=sum(size for _, size, _ in self._files), seconds=0.0,
            refused=tuple(self._refused), missing=tuple(self._missing), changed=tuple(self._changed),
            home=self._home,
        )  # fmt: skip

    def _wanted(self) -> Iterator[str]:
        # Without GNU's tar a folder that isn't empty might bring all of its content again.
        things = () if self.listing.gnu else self.listing.things
        full = {posixpath.dirname(path) for path in things}
        for path, state in self.listing.things.items():
            if state.type == "dir":
                if path not in full and not Path(self._here(path)).is_dir():
                    yield path
            elif state.type == "file" and unchanged(self.known.get(path), state, self._here(path)):
                self._home[path] = self.known[path]
            elif self.ask.live and path in self.listing.writing:
                self._changed.append(path)
            else:
                yield path

    def _one(self, paths: Sequence[str]) -> None:
        left = None if self.max_bytes is None else self.max_bytes - sum(f[1] for f in self._files)
        portion = Portion(self.open_channel, self.ask, self.listing, paths, left)
        try:
            fetched = portion.run()
            self._missing += fetched.missing
            self._refused += fetched.refused
            self._changed += fetched.changed
        finally:
            self._note(portion)

    def _note(self, portion: Portion) -> None:
        for path, (size, sha256) in portion.files.items():
            self._files.append((path or self.ask.dest.name, size, sha256))
            self.known.pop(path, None)
            if (state := portion.accepted.get(path)) is not None:
                self._keep(path, state, sha256)

    def _keep(self, path: str, state: State, sha256: str) -> None:
        came = Known(
            size=state.size, mtime_ns=state.mtime_ns, inode=state.inode, sha256=sha256,
            here_ns=_time_here(self._here(path)),
        )  # fmt: skip
        self._home[path] = came
        if self.listing.exact or state.mtime_ns // 1_000_000_000 + _RACY_S < self.listing.now_s:
            self.known[path] = came

    def _here(self, path: str) -> str:
        # Plain text: a Path for each of many thousands costs more than asking the disk.
        return f"{self.ask.dest}/{path}" if path else str(self.ask.dest)


def complaints(lines: Sequence[bytes]) -> list[str]:
    """What the listing could not read; what vanished meanwhile is none of it."""
    return [text([line]) for line in lines if b"No such file" not in line]


def unchanged(known: Known | None, there: State, here: str) -> bool:
    """True where the file there is the one that was fetched, and the file here still is what came."""
    if known is None or (known.size, known.mtime_ns) != (there.size, there.mtime_ns):
        return False
    if known.inode not in (0, there.inode):
        return False
    try:
        seen = os.lstat(here)
    except OSError:
        return False
    return (seen.st_size, seen.st_mtime_ns) == (known.size, known.here_ns)


def portions(paths: Sequence[str], things: Mapping[str, State]) -> Iterator[list[str]]:
    """`paths` in their order, cut so that none is too much to lose or too long for a command line."""
    part: list[str] = []
    size = names = 0
    for path in paths:
        more = things[path].size if things[path].type == "file" else 0
        length = len(os.fsencode(path)) + 3
        if part and (size + more > _BYTES or names + length > _NAMES or len(part) >= _FILES):
            yield part
            part, size, names = [], 0, 0
        part.append(path)
        size, names = size + more, names + length
    if part:
        yield part


def _time_here(place: str) -> int:
    try:
        return os.lstat(place).st_mtime_ns
    except OSError:
        return 0
