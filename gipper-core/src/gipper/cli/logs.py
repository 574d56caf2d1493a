"""`gipper pod logs`: the log of a run as it is kept here, while it runs and afterwards."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from gipper.errors import ConfigError
from gipper.outcomes import EXIT_OK

_CHUNK = 1 << 16


@click.command("logs")
@click.argument("run")
@click.option("-f", "--follow", is_flag=True, help="Go on until the run has ended.")
def logs(run: str, follow: bool) -> int:
    """Print the log of RUN, also after its machine is gone. On a terminal, control sequences are shown."""
    from gipper.lifecycle.runfolder import RunFolder
    from gipper.paths import Paths
    from gipper.values.receipts import RunEnd

    folder = RunFolder.of(Paths.from_env(os.environ).data_folder, run)
    if not folder.log.exists() and not follow:
        _tell_why_none(run)
        return EXIT_OK
    show_log(folder.log, run, follow=follow)
    if follow and RunEnd.kind not in _came_to(run):
        _tell_nobody(run)
    return EXIT_OK


def show_log(log: Path, run: str, *, follow: bool) -> None:
    """Write the log to stdout; with `follow` until the run's lock is free and its end is recorded."""
    for data in _following(log, run) if follow else _read(log, 0):
        if sys.stdout.isatty():
            _shown_safely(data)
        else:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()


def _came_to(run: str) -> set[str]:
    """Which of job.start and run.end the ledger has of the run."""
    from gipper.cli.options import opened_ledger
    from gipper.values.receipts import JobStart, RunEnd

    with opened_ledger() as ledger:
        return {r.kind for r in ledger.read(run=run, kinds={JobStart.kind, RunEnd.kind})}


def _tell_why_none(run: str) -> None:
    from gipper.cli.render import warn
    from gipper.values.receipts import JobStart, RunEnd

    came = _came_to(run)
    if JobStart.kind not in came:
        raise ConfigError(f"run {run} has no log: its job did not start", hint=f"gipper ledger --job {run}")
    if RunEnd.kind in came:
        warn(f"gipper: the log of run {run} never came here: nobody followed its job before it ended")
        return
    warn(f"gipper: the log of run {run} is still on its machine: its job runs, or ran, with nobody following")
    warn(f"  next: gipper pod attach {run}")


def _tell_nobody(run: str) -> None:
    from gipper.cli.render import warn

    warn(f"gipper: nobody follows run {run}, which has not ended: this is what was kept of its log")
    warn(f"  next: gipper pod attach {run}")


def _read(log: Path, offset: int) -> Iterator[bytes]:
    try:
        with log.open("rb") as file:
            file.seek(offset)
            while data := file.read(_CHUNK):
                yield data
    except FileNotFoundError:
        return


def _following(log: Path, run: str) -> Iterator[bytes]:
    from gipper.lifecycle.runfolder import RunFolder
    from gipper.lifecycle.services import Backoff
    from gipper.runtime import RealRuntime

    runtime, backoff, offset = RealRuntime(), Backoff(most=1.0), 0
    while True:
        # Looked at before reading: what was written until then is read after it.
        lock = RunFolder(log.parent).lock()
        if lock is not None:
            lock.release()
        for data in _read(log, offset):
            offset += len(data)
            backoff.reset()
            yield data
        if lock is not None:
            return
        runtime.sleep(backoff.next())


def _shown_safely(data: bytes) -> None:
    from gipper.cli.console import Console

    Console().log(data)
