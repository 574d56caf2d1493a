"""The server's child processes. The server is a subreaper, so it also inherits and reaps orphans.

One reaper collects every status: a wait for "any child" would steal those that others wait for.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from gipper.runtime import Event, Runtime


class Child:
    """A started command. `done` is set once `status` is known: 128 + n for signal n."""

    def __init__(self, pid: int, done: Event) -> None:
        self.pid = pid
        self.done = done
        self.status = 255


class Children:
    """Starts commands and collects their statuses; `reap` is called at each SIGCHLD."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = threading.Lock()
        self._running: dict[int, Child] = {}
        self._closed = False

    def spawn(
        self, argv: Sequence[str | bytes], *, env: Mapping[str, str], cwd: Path, stdio: tuple[int, int, int]
    ) -> Child:
        """Start `argv` in a session of its own on the descriptors `stdio`, which stay the caller's.

        Raises OSError, also once the machine is ending.
        """
        with self._lock:
            if self._closed:
                raise OSError("this machine is ending")
            child = Child(_start(argv, env, cwd, stdio), self._runtime.event())
            self._running[child.pid] = child
        return child

    def reap(self) -> None:
        """Collect every child that has ended, one's own or inherited."""
        with self._lock:
            while True:
                try:
                    pid, status = os.waitpid(-1, os.WNOHANG)
                except ChildProcessError:
                    return
                if pid == 0:
                    return
                self._ended(pid, os.waitstatus_to_exitcode(status))

    def signal(self, child: Child, number: signal.Signals) -> None:
        """Signal `child` unless it has been reaped (its pid could be another's by then)."""
        with self._lock:
            if child.pid in self._running:
                os.kill(child.pid, number)

    def close(self) -> None:
        """Refuse to start anything from now on."""
        with self._lock:
            self._closed = True

    def _ended(self, pid: int, code: int) -> None:
        child = self._running.pop(pid, None)
        if child is not None:
            child.status = 128 - code if code < 0 else code
            child.done.set()


def _start(
    argv: Sequence[str | bytes], env: Mapping[str, str], cwd: Path, stdio: tuple[int, int, int]
) -> int:
    try:
        process = subprocess.Popen(
            argv,
            env=env,
            cwd=cwd,
            stdin=stdio[0],
            stdout=stdio[1],
            stderr=stdio[2],
            start_new_session=True,
        )
    except ValueError as error:
        raise OSError(f"that can't be started: {error}") from error
    # The reaper alone waits; with a status set, Popen never will.
    process.returncode = 0
    return process.pid
