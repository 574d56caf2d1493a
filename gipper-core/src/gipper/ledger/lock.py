"""One writer at a time: over the threads of this process, then over processes."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path
from typing import Final

from gipper.ledger.faults import busy
from gipper.runtime import Runtime

NAME: Final = "ledger.lock"
_FIRST_WAIT_S: Final = 0.0002
_LONGEST_WAIT_S: Final = 0.005


class WriterLock:
    """Re-entrant for the thread that holds it.

    Waiting polls through the Runtime and never blocks in the kernel: in a simulation the holder
    could not go on while a blocked waiter kept the only turn.
    """

    def __init__(self, folder: Path, runtime: Runtime) -> None:
        self._folder = folder
        self._runtime = runtime
        self._threads = threading.RLock()
        self._owner: int | None = None
        self._depth = 0
        self._fd = -1

    @property
    def mine(self) -> bool:
        """True in the thread that holds the lock."""
        return self._owner == threading.get_ident()

    def acquire(self, timeout: float) -> None:
        """Take the lock within `timeout` seconds. Raises LedgerBusy, OSError."""
        if self._try():
            return
        deadline = self._runtime.monotonic() + timeout
        wait = _FIRST_WAIT_S
        while not self._try():
            left = deadline - self._runtime.monotonic()
            if left <= 0:
                raise busy(self._folder, timeout)
            self._runtime.sleep(min(wait, left))
            wait = min(wait * 1.5, _LONGEST_WAIT_S)

    def release(self) -> None:
        """Give it back; the outermost release lets others in."""
        self._depth -= 1
        if self._depth == 0:
            self._owner = None
            os.close(self._fd)
        self._threads.release()

    def _try(self) -> bool:
        if not self._threads.acquire(blocking=False):
            return False
        taken = False
        try:
            taken = self._depth > 0 or self._try_processes()
        finally:
            if not taken:
                self._threads.release()
        if taken:
            self._depth += 1
            self._owner = threading.get_ident()
        return taken

    def _try_processes(self) -> bool:
        fd = os.open(f"{self._folder}/{NAME}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        except OSError:
            os.close(fd)
            raise
        self._fd = fd
        return True
