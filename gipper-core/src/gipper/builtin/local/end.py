"""Ending a machine from another process than its own: its server, whatever ran on it, its folder."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Final

from gipper.api import ProviderError, Runtime
from gipper.builtin.local import procs
from gipper.builtin.local.record import RECORD, Record, load
from gipper.builtin.local.tree import remove_tree

_POLITE_S: Final = 8.0
_FORCE_S: Final = 10.0
_FIRST_POLL_S: Final = 0.02
_SLOWEST_POLL_S: Final = 0.5


def server_of(record: Record) -> procs.Proc | None:
    """The living server of the machine, or None where it is dead, was never heard of, or another boot's."""
    if record.pid is None or record.boot_id != procs.boot_id():
        return None
    found = procs.look(record.pid)
    return found if found is not None and found.ticks == record.ticks else None


def end_machine(folder: Path, machine_id: str, runtime: Runtime) -> None:
    """Leave no process and no folder of the machine; harmless where there is none.

    Raises ProviderError where something can't be killed or removed within about half a minute.
    """
    try:
        record = load(folder)
        server = server_of(record) if record else None
        if server is not None:
            _stop_server(server, runtime)
        _clear(folder, machine_id, runtime)
    except OSError as error:
        raise ProviderError(
            f"local: machine {machine_id} can't be removed: {error}",
            hint=f"end its processes ({procs.MARK}={machine_id} in their environment) and remove {folder}",
        ) from error


def _stop_server(server: procs.Proc, runtime: Runtime) -> None:
    """SIGTERM, by which the server leaves nothing behind; where that takes too long, by force."""
    procs.send(server, signal.SIGTERM)
    deadline = runtime.monotonic() + _POLITE_S
    pause = _FIRST_POLL_S
    while procs.alive(server.pid, server.ticks):
        if runtime.monotonic() > deadline:
            _force(server, runtime)
            return
        runtime.sleep(pause)
        pause = min(pause * 1.5, _SLOWEST_POLL_S)


def _force(server: procs.Proc, runtime: Runtime) -> None:
    # A stopped server still inherits orphans, so nobody slips away before it is killed itself.
    procs.send(server, signal.SIGSTOP)
    _kill_until_none(lambda: procs.descendants(server.pid, procs.everyone()), runtime)
    procs.send(server, signal.SIGKILL)


def _clear(folder: Path, machine_id: str, runtime: Runtime) -> None:
    deadline = runtime.monotonic() + _FORCE_S
    while True:
        _kill_until_none(lambda: procs.carriers(machine_id, procs.everyone()), runtime)
        try:
            remove_tree(folder, last=RECORD)
        except OSError:
            # A server that has only just begun may have written into it meanwhile.
            if runtime.monotonic() > deadline:
                raise
            runtime.sleep(_FIRST_POLL_S)
        else:
            return


def _kill_until_none(find: procs.Find, runtime: Runtime) -> None:
    deadline = runtime.monotonic() + _FORCE_S
    while found := procs.kill_all(find):
        if runtime.monotonic() > deadline:
            raise TimeoutError(f"process {found[0].pid} does not die")
        runtime.sleep(_FIRST_POLL_S)
