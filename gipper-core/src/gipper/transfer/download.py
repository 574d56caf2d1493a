"""One remote file or folder home: a remote tar's stream into the confined extractor."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

import attrs

from gipper.errors import CommandTimeout, ConnectionLost, Stopped, TransferError
from gipper.remote import Fetched, Progress
from gipper.runtime import Event, Runtime
from gipper.ssh.bytechannel import READ, ByteChannel, OpenChannel
from gipper.transfer import scripts
from gipper.transfer.extract import Extractor
from gipper.transfer.names import Refuse, printable, split_name
from gipper.transfer.stderrs import Stderr, changed_name, harmless, not_a_file, text
from gipper.transfer.tarread import ByteSource, TornArchive
from gipper.transfer.walk import shown

_END_S: Final = 60.0
# What a remote tar may pad its end with, and what two lists of a million files may take.
_PADDING: Final = 1 << 20
_STATES: Final = 256 << 20
# Headers and what was refused on the way to the budget; beyond that a stream has no good end.
_SLACK: Final = 256 << 20
_CUT: Final = (ConnectionLost, CommandTimeout, TornArchive, Stopped)


def fetch_stream(
    open_channel: OpenChannel,
    base: str,
    source: str,
    dest: Path,
    *,
    max_bytes: int | None = None,
    progress: Progress | None = None,
    stop: Event | None = None,
    runtime: Runtime,
) -> Fetched:
    """Bring `source`, relative to the remote folder `base` (an absolute path), to `dest`.

    A folder's content goes into `dest`, a file becomes `dest`; folders above are made. A file that
    changed while it was read keeps its old version here, if there is one, and is named in `changed`.
    `progress` is called with the bytes of content received so far. What was whole when something
    failed is kept. Raises TransferError (this disk, or the remote's own words), ConnectionLost,
    CommandTimeout, Stopped.
    """
    started = runtime.monotonic()
    mark = secrets.token_hex(16)
    channel = open_channel(scripts.download(base, source, mark))
    try:
        fetch = Fetching(channel, mark, source, dest, max_bytes, progress, stop)
        fetched = fetch.run()
    finally:
        channel.close()
    return attrs.evolve(fetched, seconds=runtime.monotonic() - started)


class Fetching:
    """One download in progress; `hold`: nothing gets its name before all is known to be well."""

    hold = False

    def __init__(
        self,
        channel: ByteChannel,
        mark: str,
        source: str,
        dest: Path,
        max_bytes: int | None,
        progress: Progress | None,
        stop: Event | None,
    ) -> None:
        self._channel = channel
        self._mark = mark
        self._name = source
        self._dest = dest
        self._max_bytes = max_bytes
        self._progress = progress
        self._stop = stop
        self._stderr = Stderr(mark)
        self._spoiled: set[str] = set()
        self._missing: list[str] = []
        self._refused: list[str] = []
        self._received = 0
        self._done = 0
        self._file_name: str | None = None
        self._source = ByteSource(self._read, piece=READ)

    def run(self) -> Fetched:
        words = self._first_line()
        if words == ["absent"]:
            return self._result({}, (absent(self._name),))
        if len(words) != 2 or words[0] not in ("file", "folder"):
            raise self._failure("the machine's answer makes no sense")
        self._file_name = self._dest.name if words[0] == "file" else None
        extractor = self._extractor(self._dest if words[0] == "folder" else self._dest.parent)
        try:
            self._receive(extractor, gnu=words[1] == "gnu")
        except OSError as error:
            raise self._local(error, extractor) from error
        finally:
            extractor.close()
        return self._received_by(extractor)

    def _received_by(self, extractor: Extractor) -> Fetched:
        self._refused = [*extractor.refused, *self._refused]
        return self._result(extractor.files, tuple(self._missing), tuple(extractor.changed))

    def _first_line(self) -> list[str]:
        try:
            return self._source.line(64).decode("ascii", "replace").split()
        except TornArchive as error:
            raise self._failure("no answer") from error

    def _extractor(self, root: Path) -> Extractor:
        try:
            root.mkdir(parents=True, exist_ok=True)
            return Extractor(
                root,
                single=self._file_name,
                max_bytes=self._max_bytes,
                spoiled=self._changed,
                on_bytes=self._count if self._progress is not None else None,
                hold=self.hold,
            )
        except OSError as error:
            raise self._local(error, None) from error

    def _receive(self, extractor: Extractor, *, gnu: bool) -> None:
        try:
            extractor.run(self._source)
            self._end(gnu)
            if self.hold:
                self._stop_if_asked()
        except _CUT as error:
            extractor.salvage(cut=True)
            if isinstance(error, TornArchive):
                raise self._failure(f"{error}; {_saved(extractor)}") from error
            raise
        extractor.finish()

    def _end(self, gnu: bool) -> None:
        mark = f"\n{self._mark} ".encode()
        self._source.until(mark, _PADDING)
        status = self._source.line(64)
        if not gnu:
            self._compare_states()
        self._channel.status(_END_S)
        self._hear_all()
        self._check_status(status)

    def _check_status(self, status: bytes) -> None:
        if status not in (b"0", b"1") and not (self._missing or self._spoiled):
            raise TornArchive(f"the remote tar ended with status {printable(status)}")

    def _compare_states(self) -> None:
        end = f"\n{self._mark}\n".encode()
        before = self._source.until(end, _STATES)
        after = (b"\n" + self._source.until(end[1:], _STATES)).strip(b"\n")
        differ = set(before.split(b"\n")) - set(after.split(b"\n"))
        for line in differ:
            if len(fields := line.split(b" ", 4)) == 5:
                self._spoil(fields[4])

    def _read(self, n: int) -> bytes:
        self._stop_if_asked()
        data = self._channel.read(n)
        # A channel keeps only so much of what nobody asks for.
        self._hear()
        self._received += len(data)
        if self._max_bytes is not None and self._received > 2 * self._max_bytes + _SLACK:
            raise TornArchive("the machine sends far more than what may come home")
        return data

    def _stop_if_asked(self) -> None:
        if self._stop is not None and self._stop.is_set():
            raise Stopped("the download was given up")

    def _count(self, size: int) -> None:
        self._done += size
        if self._progress is not None:
            self._progress(self._done)

    def _changed(self) -> set[str]:
        self._hear()
        return self._spoiled

    def _hear_all(self) -> None:
        self._hear()
        self._sort(self._stderr.last())

    def _hear(self) -> None:
        self._sort(self._stderr.feed(self._channel.poll_stderr()))

    def _sort(self, lines: list[bytes]) -> None:
        for line in lines:
            if (name := changed_name(line)) is not None:
                self._spoil(name)
            elif not_a_file(line):
                self._refused.append(text([line]))
            elif not harmless(line):
                self._missing.append(text([line]))

    def _spoil(self, name: bytes) -> None:
        try:
            parts = split_name(name)
        except Refuse:
            return
        self._spoiled.add(self._file_name or os.fsdecode(b"/".join(parts)))

    def _result(
        self, files: dict[str, tuple[int, str]], missing: tuple[str, ...], changed: tuple[str, ...] = ()
    ) -> Fetched:
        listed = tuple((path, size, sha256) for path, (size, sha256) in files.items())
        return Fetched(
            files=listed,
            bytes=sum(size for _, size, _ in listed),
            seconds=0.0,
            refused=tuple(self._refused),
            missing=missing,
            changed=changed,
        )

    def _failure(self, what: str) -> TransferError:
        self._hear_all()
        said = "; ".join(self._missing)
        return TransferError(
            f"download of {self._name} failed: {what}" + (f" ({said})" if said else ""),
            hint="see what the machine said, then fetch again",
        )

    def _local(self, error: OSError, extractor: Extractor | None) -> TransferError:
        saved = "nothing was saved"
        if extractor is not None:
            try:
                extractor.salvage(cut=False)
            except OSError:
                # The disk that failed may fail this, too: what was saved before still counts.
                pass
            saved = _saved(extractor)
        return TransferError(
            f"outputs can't be written to {shown(self._dest)}: {error.strerror or error}; {saved}",
            hint="make room or choose another dst, then fetch again",
        )


def absent(name: str) -> str:
    """The line for an output that isn't there."""
    return f"{name}: not there"


def _saved(extractor: Extractor) -> str:
    files = extractor.files
    if not files:
        return "nothing was saved"
    size = sum(size for size, _ in files.values())
    names = ", ".join(printable(os.fsencode(name)) for name in list(files)[:5])
    return f"saved before that: {len(files)} files, {size} bytes ({names}{', ...' if len(files) > 5 else ''})"
