"""The machine itself: the process that a rent starts. It ends itself, and all that ran on it, in time."""

from __future__ import annotations

import ctypes
import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from gipper.builtin.local import procs
from gipper.builtin.local.record import HOST_KEY, RECORD, Record, load, save
from gipper.builtin.local.tree import remove_tree
from gipper.runtime import RealRuntime, Runtime

if TYPE_CHECKING:
    from gipper.builtin.local.sshd import Gate

_PR_SET_CHILD_SUBREAPER: Final = 36
_TICK_S: Final = 15.0
_SWEEP_S: Final = 20.0
_ROUND_S: Final = 0.02


def main(folder: str) -> None:
    """Be the machine in `folder` until its deadline, SIGTERM or the loss of its folder.

    Returns in the renting process's child at once: the machine goes on as an orphan, so that it leaves
    no zombie with a client that lives on.
    """
    started = RealRuntime().monotonic()
    if os.fork():
        os._exit(0)
    os.setsid()
    root = Path(folder)
    record = load(root)
    if record is None:
        sys.exit("no record: the machine was ended before it began")
    _become_subreaper()
    why = _Machine(root, record, RealRuntime()).live(started + record.life_s)
    print(f"ended: {why}", flush=True)
    # Threads may sit in a read that nothing ends; there is nothing left to tidy.
    os._exit(0)


class _Machine:
    def __init__(self, root: Path, record: Record, runtime: Runtime) -> None:
        from gipper.builtin.local.children import Children

        self._root = root
        self._record = record
        self._runtime = runtime
        self._children = Children(runtime)
        self._why: str | None = None
        self._wake = _wake_on_signals(self._stop)
        self._inode = root.stat().st_ino

    def live(self, deadline: float) -> str:
        """Serve until there is a reason to end; then leave nothing behind and return the reason."""
        try:
            listener = _listen()
            gate = self._gate()
            self._announce(listener)
            why = self._serve(listener, gate, deadline)
            listener.close()
        except OSError as error:
            why = f"can't serve: {error}"
        self._end()
        return why

    def _gate(self) -> Gate:
        from gipper.builtin.local.launch import machine_env
        from gipper.builtin.local.session import Place
        from gipper.builtin.local.sshd import Gate

        env = machine_env(self._root, self._record.id, os.environ, self._record.env)
        home = self._root / "home"
        place = Place(runtime=self._runtime, children=self._children, home=home, env=env)
        return Gate(place, self._root / HOST_KEY, self._record.public_key)

    def _announce(self, listener: socket.socket) -> None:
        me = procs.look(os.getpid())
        ticks = me.ticks if me else None
        port = listener.getsockname()[1]
        save(self._root, attrs.evolve(self._record, pid=os.getpid(), ticks=ticks, port=port))

    def _serve(self, listener: socket.socket, gate: Gate, deadline: float) -> str:
        with selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            tick = self._runtime.monotonic() + _TICK_S
            while self._why is None:
                now = self._runtime.monotonic()
                if now >= deadline:
                    return "its time was over"
                if now >= tick:
                    tick = now + _TICK_S
                    gate.tidy()
                    self._check_folder()
                ready = {key.fileobj for key, _ in selector.select(min(deadline, tick) - now)}
                self._attend(ready, listener, gate)
        return self._why

    def _attend(self, ready: Iterable[object], listener: socket.socket, gate: Gate) -> None:
        if self._wake in ready:
            _drain(self._wake)
            self._children.reap()
        if listener in ready:
            gate.admit(listener)

    def _check_folder(self) -> None:
        try:
            lost = self._root.stat().st_ino != self._inode
        except OSError:
            lost = True
        if lost:
            self._why = "its folder is gone"

    def _stop(self, number: int) -> None:
        self._why = f"asked to ({signal.Signals(number).name})"

    def _end(self) -> None:
        self._children.close()
        if self._sweep():
            try:
                remove_tree(self._root, last=RECORD)
            except OSError as error:
                print(f"can't remove my folder: {error}", flush=True)

    def _sweep(self) -> bool:
        """Kill until nobody is left; False where someone can't be killed (the folder stays then)."""
        deadline = self._runtime.monotonic() + _SWEEP_S
        while procs.kill_all(self._mine):
            self._children.reap()
            if self._runtime.monotonic() > deadline:
                return False
            self._runtime.sleep(_ROUND_S)
        return True

    def _mine(self) -> set[procs.Proc]:
        everyone = procs.everyone()
        below = procs.descendants(os.getpid(), everyone)
        return {*below, *procs.carriers(self._record.id, everyone)}


def _become_subreaper() -> None:
    """Orphans of this machine become its children instead of init's, whatever they call."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        print(f"no subreaper: {os.strerror(ctypes.get_errno())}", flush=True)


def _listen() -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    listener.setblocking(False)
    return listener


def _wake_on_signals(stop: Callable[[int], None]) -> int:
    """A descriptor that becomes readable at each signal; TERM, INT and HUP call `stop`."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda got, _frame: stop(got))
    signal.signal(signal.SIGCHLD, lambda _got, _frame: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    return reader


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 4096):
            pass
    except BlockingIOError:
        pass
