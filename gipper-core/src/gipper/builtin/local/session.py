"""One SSH session: a command on three pipes, or on a terminal, joined to a channel.

Every pump owns its descriptor and closes it itself, so that none is closed, and its number used
again, under another thread's hands.
"""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import termios
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import attrs

from gipper.builtin.local.children import Child, Children
from gipper.runtime import Runtime

_READ: Final = 64 << 10
_RECV: Final = 256 << 10
_END_OF_INPUT: Final = b"\x04"
_FIRST_PAUSE_S: Final = 0.1
# A session leader without a terminal gets the first one that it opens as its own.
_ON_TERMINAL: Final = 'exec <>"$0" >&0 2>&1; exec "$@"'


class Channel(Protocol):
    """What a session uses of an SSH channel."""

    closed: bool
    status_event: threading.Event

    def recv(self, nbytes: int) -> bytes: ...
    def sendall(self, s: bytes) -> None: ...
    def sendall_stderr(self, s: bytes) -> None: ...
    def shutdown_write(self) -> None: ...
    def send_exit_status(self, status: int) -> None: ...
    def close(self) -> None: ...


@attrs.frozen(kw_only=True)
class Place:
    """Where sessions run."""

    runtime: Runtime
    children: Children
    home: Path
    env: Mapping[str, str]


class Terminal:
    """A pseudo-terminal that was asked for; `size` is (columns, rows)."""

    def __init__(self, term: str, size: tuple[int, int]) -> None:
        self.term = term
        self.master, self._slave = pty.openpty()
        self.name = os.ttyname(self._slave)
        self._lock = threading.Lock()
        self._open = True
        self.resize(*size)

    def resize(self, columns: int, rows: int) -> None:
        """Tell the terminal its size; the kernel tells the processes on it."""
        size = struct.pack("HHHH", rows & 0xFFFF, columns & 0xFFFF, 0, 0)
        with self._lock:
            if self._open:
                fcntl.ioctl(self._slave, termios.TIOCSWINSZ, size)

    def release(self) -> None:
        """Give up our own hold, so that the master ends with the last process on the terminal."""
        with self._lock:
            if self._open:
                os.close(self._slave)
                self._open = False

    def close(self) -> None:
        """Give up the whole terminal; only while no session uses it."""
        self.release()
        os.close(self.master)


def on_pipes(place: Place, channel: Channel, argv: Sequence[str | bytes]) -> None:
    """Run `argv` with the channel as its stdin, stdout and stderr; returns when all three are done."""
    (in_r, in_w), (out_r, out_w), (err_r, err_w) = os.pipe(), os.pipe(), os.pipe()
    try:
        child = place.children.spawn(argv, env=place.env, cwd=place.home, stdio=(in_r, out_w, err_w))
    except OSError as error:
        _close(in_w, out_r, err_r)
        _refuse(channel, error)
        return
    finally:
        _close(in_r, out_w, err_w)
    place.runtime.spawn("stdin", lambda: _feed(channel, in_w))
    stderr = place.runtime.spawn("stderr", lambda: _drain(err_r, channel.sendall_stderr))
    _drain(out_r, channel.sendall)
    place.runtime.wait_any([stderr.done])
    place.runtime.wait_any([child.done])
    _finish(channel, child.status)


def on_terminal(place: Place, channel: Channel, argv: Sequence[str | bytes], terminal: Terminal) -> None:
    """Run `argv` on `terminal`, which it closes; a client that leaves hangs it up."""
    idle = os.open(os.devnull, os.O_RDWR)
    wrapped = ["/bin/sh", "-c", _ON_TERMINAL, terminal.name, *argv]
    env = {**place.env, "TERM": terminal.term}
    try:
        child = place.children.spawn(wrapped, env=env, cwd=place.home, stdio=(idle, idle, idle))
    except OSError as error:
        terminal.close()
        _refuse(channel, error)
        return
    finally:
        os.close(idle)
    keys = os.dup(terminal.master)
    place.runtime.spawn("keys", lambda: _type(channel, keys, place.children, child))
    screen = place.runtime.spawn("screen", lambda: _drain(terminal.master, channel.sendall))
    place.runtime.wait_any([child.done])
    terminal.release()
    place.runtime.wait_any([screen.done])
    _finish(channel, child.status)


def _feed(channel: Channel, fd: int) -> None:
    """Channel to process; its end closes the process's stdin. What nobody reads is thrown away."""
    try:
        while data := channel.recv(_RECV):
            _write(fd, data)
    except BrokenPipeError:
        while channel.recv(_RECV):
            pass
    finally:
        os.close(fd)


def _type(channel: Channel, fd: int, children: Children, child: Child) -> None:
    """Channel to terminal; hangs the terminal up when the client has closed the channel."""
    try:
        while data := channel.recv(_RECV):
            _write(fd, data)
        _end_input(channel, fd)
    except OSError:
        pass  # nothing is on the terminal any more
    finally:
        os.close(fd)
    channel.status_event.wait()
    children.signal(child, signal.SIGHUP)


def _end_input(channel: Channel, fd: int) -> None:
    """Type the end-of-input key until the session is over.

    Once isn't enough: a shell that changes the terminal's mode meanwhile never sees it.
    """
    pause = _FIRST_PAUSE_S
    while not channel.closed:
        _write(fd, _END_OF_INPUT)
        channel.status_event.wait(pause)
        pause *= 2


def _drain(fd: int, send: Callable[[bytes], None]) -> None:
    """Process to channel; closing our end tells the process that nobody listens any more."""
    try:
        while data := os.read(fd, _READ):
            send(data)
    except OSError:
        pass  # a terminal without processes, or a channel that was closed
    finally:
        os.close(fd)


def _finish(channel: Channel, status: int) -> None:
    if channel.closed:
        return
    try:
        channel.shutdown_write()
        channel.send_exit_status(status)
        channel.close()
    except (OSError, EOFError):
        pass  # the client left first


def _refuse(channel: Channel, error: OSError) -> None:
    try:
        channel.sendall_stderr(f"gipper local: {error}\n".encode())
    except OSError:
        return
    _finish(channel, 126)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _close(*fds: int) -> None:
    for fd in fds:
        os.close(fd)
