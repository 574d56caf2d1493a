"""The control shell: one long-lived ``sh`` that answers scripts in a single round trip each."""

from __future__ import annotations

import threading

from gipper.errors import CommandTimeout, ConnectionLost, RemoteError
from gipper.remote import Completed
from gipper.ssh.bytechannel import InputClosed
from gipper.ssh.connection import Connection
from gipper.ssh.framing import FrameReader
from gipper.ssh.quoting import frame, new_marker
from gipper.ssh.streams import Streams

_LIMIT = 4 << 20
# Nothing is read from here but frames: the login shell and its start files are replaced or noise.
_SHELL = "exec /bin/sh"


class ControlShell:
    """Runs short scripts one after the other. What a script leaves in the background must not hold
    its stdout or stderr. The channel is opened at first use, and again after it broke."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._streams: Streams | None = None

    def ask(self, script: str, timeout_s: float) -> Completed:
        """See `gipper.remote.Remote.ask`. After CommandTimeout the script may still be running."""
        clock = self._connection.runtime.monotonic
        deadline = clock() + timeout_s
        if not self._lock.acquire(timeout=max(0.0, timeout_s)):
            raise CommandTimeout(f"the control shell of {self._connection.address} was busy for too long")
        try:
            return self._exchange(script, deadline)
        except RemoteError:
            self._drop()
            raise
        finally:
            self._lock.release()

    def close(self) -> None:
        """Give the channel up; a running `ask` gets ConnectionLost or RemoteError."""
        self._drop()

    def _exchange(self, script: str, deadline: float) -> Completed:
        marker = new_marker()
        request = frame(script, marker)
        streams = self._write(request, deadline)
        out, err = FrameReader(marker, _LIMIT), FrameReader(marker, _LIMIT)
        while not (out.done and err.done):
            self._advance(streams, out, err, deadline)
        return Completed(status=out.status, stdout=out.value(), stderr=err.value())

    def _write(self, request: bytes, deadline: float) -> Streams:
        """Hand the request to the open shell, or to a new one where the old one has ended."""
        limit_s = max(0.0, deadline - self._connection.runtime.monotonic())
        if self._streams is not None and not self._streams.ended:
            try:
                self._streams.send(request, limit_s)
                return self._streams
            except InputClosed:
                pass  # It ended unseen since the last answer and has run nothing of this.
        self._drop()
        self._streams = streams = Streams(self._connection, _SHELL, deadline)
        streams.send(request, limit_s)
        return streams

    def _advance(self, streams: Streams, out: FrameReader, err: FrameReader, deadline: float) -> None:
        clock = self._connection.runtime.monotonic
        streams.rearm()
        ended = streams.ended
        data, fresh = streams.take(), streams.take_stderr()
        out.feed(data)
        err.feed(fresh)
        if data or fresh:
            return
        if ended:
            raise self._broke(streams)
        if clock() >= deadline:
            raise CommandTimeout(f"a script on {self._connection.address} did not end in time")
        streams.wait(deadline - clock())

    def _broke(self, streams: Streams) -> RemoteError:
        try:
            streams.check_whole()
        except ConnectionLost as error:
            return error
        return RemoteError(f"the control shell of {self._connection.address} ended under a script")

    def _drop(self) -> None:
        streams, self._streams = self._streams, None
        if streams is not None:
            streams.close()
