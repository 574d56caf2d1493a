"""One manifest up: a tar stream into a remote tar, watched for its first complaint.

Files are read and sent by one task: a second one that reads ahead was measured and wins nothing, both
wait for the same interpreter.
"""

from __future__ import annotations

import secrets
from typing import Final

from gipper.errors import CommandTimeout, ConnectionLost, Stopped, TransferError
from gipper.remote import Manifest, Progress, Sent
from gipper.runtime import Event, Runtime
from gipper.ssh.bytechannel import ByteChannel, InputClosed, OpenChannel
from gipper.transfer import scripts
from gipper.transfer.scanning import MakeScanner
from gipper.transfer.stderrs import Stderr, harmless, text
from gipper.transfer.tarwrite import TarWriter

# From the last byte sent to tar's end: what the remote disk still has to take.
_END_S: Final = 600.0
# How long a remote tar that closed its ears is given to say why.
_WHY_S: Final = 15.0
# Blocks between two looks at stderr and the stop flag: about 1 MiB.
_LOOK: Final = 4
# How tar, both of them, tells of a full disk; the third is a write that came to less than asked for.
_FULL: Final = (b"No space left", b"no space", b"Wrote only")


def send_stream(
    open_channel: OpenChannel,
    manifest: Manifest,
    base: str,
    *,
    progress: Progress | None = None,
    stop: Event | None = None,
    runtime: Runtime,
    scanner: MakeScanner | None = None,
) -> Sent:
    """Send `manifest` into the remote folder `base`; sending it again after a cut overwrites.

    `progress` is called with the bytes of file content sent so far. Files whose content isn't the
    manifest's are named in `Sent.changed`; one that changed and now holds a provider key stops it.
    Raises TransferError (with the remote's own words), ConfigError (that key), ConnectionLost,
    CommandTimeout, Stopped.
    """
    started = runtime.monotonic()
    mark = secrets.token_hex(16)
    script = scripts.upload(base, mark, kib=-(-manifest.bytes // 1024), files=len(manifest.entries))
    channel = open_channel(script)
    try:
        writer = TarWriter(manifest, scanner=scanner)
        _Upload(channel, base, mark, progress, stop).run(writer)
    finally:
        channel.close()
    seconds = runtime.monotonic() - started
    return Sent(files=manifest.files, bytes=writer.done, seconds=seconds, changed=tuple(writer.changed))


class _Upload:
    def __init__(
        self, channel: ByteChannel, base: str, mark: str, progress: Progress | None, stop: Event | None
    ) -> None:
        self._channel = channel
        self._base = base
        self._mark = mark
        self._progress = progress
        self._stop = stop
        self._stderr = Stderr(mark)
        self._errors: list[bytes] = []
        self._harmless = 0

    def run(self, writer: TarWriter) -> None:
        try:
            self._stream(writer)
        except InputClosed:
            # A remote tar that gave up: it ended with a status, and said why.
            self._ask_why()
            raise
        self._channel.close_write()
        self._confirm()
        if self._progress is not None:
            self._progress(writer.done)

    def _stream(self, writer: TarWriter) -> None:
        write = self._channel.write
        for count, block in enumerate(writer.blocks()):
            write(block)
            if count % _LOOK == 0:
                self._look(writer.done)

    def _look(self, done: int) -> None:
        if self._stop is not None and self._stop.is_set():
            raise Stopped("the upload was given up")
        self._hear()
        if self._errors:
            self._ask_why()
        if self._progress is not None:
            self._progress(done)

    def _hear(self) -> None:
        self._sort(self._stderr.feed(self._channel.poll_stderr()))

    def _sort(self, lines: list[bytes]) -> None:
        errors = [line for line in lines if not harmless(line)]
        self._errors += errors
        self._harmless += len(lines) - len(errors)

    def _ask_why(self) -> None:
        """Raises TransferError where the remote command said or meant that it failed."""
        # What it says about the end that we are about to make is no news.
        known = list(self._errors)
        try:
            self._channel.close_write()
            status = self._channel.status(_WHY_S)
        except (ConnectionLost, CommandTimeout):
            status = 0
        self._hear()
        self._errors = known or self._errors
        if self._errors or status != 0:
            raise self._failure(status)

    def _confirm(self) -> None:
        answer = bytearray()
        while data := self._channel.read(4096):
            answer = (answer + data)[-4096:]
        status = self._channel.status(_END_S)
        self._hear()
        self._sort(self._stderr.last())
        if self._errors or not self._unpacked(bytes(answer), status):
            raise self._failure(status)

    def _unpacked(self, answer: bytes, status: int) -> bool:
        # tar's 2 with nothing but harmless complaints: modes or owners that a volume can't keep.
        ended = answer.endswith(f"{self._mark} {status}\n".encode())
        return ended and (status == 0 or (status == 2 and self._harmless > 0))

    def _failure(self, status: int) -> TransferError:
        said = text(self._errors) or f"the remote command ended with status {status} and no word"
        hints = {
            scripts.NO_SPACE: "ask for a bigger disk (pod.disk_gb)",
            scripts.NO_BASE: "choose another dst, one that this user may write to",
        }
        if any(word in line for line in self._errors for word in _FULL):
            status, said = scripts.NO_SPACE, f"its disk is full: {said}"
        hint = hints.get(status, "see what the machine said")
        return TransferError(f"upload into {self._base} failed: {said}", hint=hint)
