"""Processes of this computer as /proc tells of them: who lives, who descends from whom, who carries a mark.

A process is named by pid and start time (clock ticks since boot), because a pid alone is used again.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import attrs

MARK: Final = "GIPPER_LOCAL_MACHINE"
_DEAD: Final = "ZXx"
_PROC: Final = Path("/proc")


@attrs.frozen(kw_only=True)
class Proc:
    """One living process."""

    pid: int
    ppid: int
    ticks: int


Find = Callable[[], Iterable["Proc"]]


def boot_id() -> str:
    """This boot's id; another one means that every pid on record is void."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def look(pid: int) -> Proc | None:
    """The process `pid`, or None where it is gone or a zombie."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The command's name stands in parentheses and may hold spaces and parentheses itself.
    fields = text.rpartition(")")[2].split()
    if len(fields) < 20 or fields[0] in _DEAD:
        return None
    return Proc(pid=pid, ppid=int(fields[1]), ticks=int(fields[19]))


def alive(pid: int, ticks: int) -> bool:
    """True while the very process (`pid`, `ticks`) lives."""
    found = look(pid)
    return found is not None and found.ticks == ticks


def everyone() -> tuple[Proc, ...]:
    """All living processes that can be seen."""
    pids = (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
    return tuple(p for p in map(look, pids) if p is not None)


def descendants(root: int, procs: Iterable[Proc]) -> tuple[Proc, ...]:
    """Children of `root` among `procs`, their children, and so on."""
    children: dict[int, list[Proc]] = {}
    for proc in procs:
        children.setdefault(proc.ppid, []).append(proc)
    found: list[Proc] = []
    queue = [root]
    while queue:
        below = children.pop(queue.pop(), [])
        found.extend(below)
        queue.extend(p.pid for p in below)
    return tuple(found)


def carriers(machine_id: str, procs: Iterable[Proc]) -> tuple[Proc, ...]:
    """Those of `procs` that were started on machine `machine_id`: its mark is in their environment."""
    mark = f"{MARK}={machine_id}".encode()
    return tuple(p for p in procs if mark in _environ(p.pid))


def send(proc: Proc, number: int) -> bool:
    """Signal exactly `proc`, never a later owner of its pid. False where it was gone already.

    Raises PermissionError.
    """
    try:
        handle = os.pidfd_open(proc.pid)
    except ProcessLookupError:
        return False
    try:
        if not alive(proc.pid, proc.ticks):
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def kill_all(find: Find) -> tuple[Proc, ...]:
    """One round of SIGKILL for all that `find` finds, but this process; returns whom it found.

    Who may not be killed (another user's, say) is found again, and so told by whoever loops.
    """
    found = tuple(p for p in find() if p.pid != os.getpid())
    for proc in found:
        with contextlib.suppress(PermissionError):
            send(proc, signal.SIGKILL)
    return found


def _environ(pid: int) -> frozenset[bytes]:
    try:
        return frozenset((_PROC / str(pid) / "environ").read_bytes().split(b"\0"))
    except OSError:
        return frozenset()
