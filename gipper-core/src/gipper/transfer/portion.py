"""Some files of one folder home in one stream, each checked against its states before and after."""

from __future__ import annotations

import os
import posixpath
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from gipper.remote import Fetched, Progress
from gipper.runtime import Event
from gipper.ssh.bytechannel import OpenChannel
from gipper.transfer import scripts
from gipper.transfer.download import Fetching
from gipper.transfer.extract import Extractor
from gipper.transfer.listing import Listing, State, below, records

_PADDING: Final = 1 << 20
_STATES: Final = 64 << 20
_NS: Final = 1_000_000_000
# A file written within this time may still be in the making although nobody holds it open just now.
_YOUNG_S: Final = 2
_GONE: Final = re.compile(
    rb"^tar: (.*?): (?:Warning: )?(?:Cannot (?:stat|open): )?No such file or directory$"
)


@attrs.frozen(kw_only=True)
class Ask:
    """What is fetched, and where to; `live` = somebody writes there meanwhile."""

    base: str
    source: str
    dest: Path
    live: bool
    progress: Progress | None
    stop: Event | None

    @property
    def folder(self) -> str:
        """The source's absolute path."""
        return posixpath.join(self.base, self.source).rstrip("/")


class Portion(Fetching):
    """`paths` of `listing`. After `run`, also after one that raised: `files` are those that are home,
    by path, and `accepted` the state in which each was read, where that is sure."""

    def __init__(
        self, open_channel: OpenChannel, ask: Ask, listing: Listing, paths: Sequence[str], left: int | None
    ) -> None:
        self.hold = ask.live
        self.files: dict[str, tuple[int, str]] = {}
        self.accepted: dict[str, State] = {}
        self._ask, self._listing, self._paths = ask, listing, paths
        self._gone: list[str] = []
        self._heads: Mapping[str, tuple[int, int]] = {}
        self._judged = False
        mark = secrets.token_hex(16)
        where = ask.folder if listing.folder else posixpath.dirname(ask.folder)
        young = any(listing.things[p].mtime_ns // _NS + _YOUNG_S >= listing.now_s for p in paths)
        channel = open_channel(
            scripts.some(
                where,
                mark,
                gnu=listing.gnu,
                exact=listing.exact,
                follow=not listing.folder,
                settle=ask.live and young,
            )
        )
        super().__init__(channel, mark, ask.source, ask.dest, left, ask.progress, ask.stop)
        if not listing.folder:
            self._file_name = ask.dest.name
        self._where = where

    def run(self) -> Fetched:
        """Raises what `download.fetch_stream` raises."""
        try:
            return self._run()
        finally:
            self._channel.close()

    def _run(self) -> Fetched:
        names = [self._name_there(path) for path in self._paths]
        self._channel.write(b"".join(b"./" + name + b"\n" for name in names))
        self._channel.close_write()
        extractor = self._extractor(self._ask.dest if self._listing.folder else self._ask.dest.parent)
        self._heads = extractor.heads
        try:
            self._receive(extractor, gnu=self._listing.gnu)
        except OSError as error:
            raise self._local(error, extractor) from error
        finally:
            # What a broken stream left whole counts, too.
            self._note(extractor)
            extractor.close()
        fetched = self._received_by(extractor)
        return attrs.evolve(fetched, changed=(*fetched.changed, *self._gone))

    def _name_there(self, path: str) -> bytes:
        return os.fsencode(path or posixpath.basename(self._ask.folder))

    def _note(self, extractor: Extractor) -> None:
        for path, what in extractor.files.items():
            key = path if self._listing.folder else ""
            self.files[key] = what
            state = self._listing.things.get(key)
            if not self._judged and state is not None and _fits(extractor.heads[path], state):
                # After a cut: what it was like afterwards isn't known, and the next listing will tell.
                self.accepted[key] = state

    def _end(self, gnu: bool) -> None:
        self._source.until(f"\n{self._mark} ".encode(), _PADDING)
        status = self._source.line(64)
        end = f"{self._mark}\n".encode()
        opened = self._source.until(end, _STATES)
        after = dict(records(self._source.until(end, _STATES), exact=self._listing.exact))
        self._channel.status(60.0)
        self._hear_all()
        self._judge(after, below(os.fsencode(self._where), opened))
        if not self._gone:
            self._check_status(status)

    def _judge(self, after: Mapping[bytes, State], writing: frozenset[str]) -> None:
        self._judged = True
        for path in self._paths:
            head = self._heads.get(path or self._ask.dest.name)
            if head is None or self._listing.things[path].type != "file":
                continue
            later = after.get(b"./" + self._name_there(path))
            state = accepted(head, self._listing.things[path], later)
            if state is None or (self.hold and path in writing):
                self._spoil(b"./" + self._name_there(path))
            else:
                self.accepted[path] = state

    def _sort(self, lines: list[bytes]) -> None:
        gone = {line: match[1] for line in lines if (match := _GONE.match(line))}
        self._gone += [os.fsdecode(name.removeprefix(b"./")) for name in gone.values()]
        super()._sort([line for line in lines if line not in gone])


def accepted(head: tuple[int, int], before: State, after: State | None) -> State | None:
    """The state in which a file was read whole, judged by the size and time that came with it.

    None where it was written meanwhile. A file that was replaced (another inode, or gone) was read whole,
    either the old one or the new one.
    """
    if after == before:
        return before if _fits(head, before) else None
    if after is not None and after.inode == before.inode:
        return None
    if _fits(head, before):
        return before
    return after if after is not None and _fits(head, after) else None


def _fits(head: tuple[int, int], state: State) -> bool:
    return head == (state.size, state.mtime_ns // _NS)
