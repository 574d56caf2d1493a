"""Going on with a run whose client died or left: attach, stop, and what the reaper needs for it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final

import attrs

from gipper.core import Gipper
from gipper.errors import ConfigError
from gipper.installation import owner_alive
from gipper.lifecycle.book import KINDS, Book, PodRecord, RunRecord
from gipper.lifecycle.reaper import Reaper
from gipper.lifecycle.resuming import Resumption, only_machine
from gipper.lifecycle.runfolder import RunFolder, RunLock
from gipper.lifecycle.services import Interrupts, Reporter
from gipper.lifecycle.waiting import Door
from gipper.plugins.handle import Provider
from gipper.values.receipts import Owner

# A reaper that only looks holds the lock for about as long as a machine may take to answer.
_OWNER_S: Final = 20.0


@attrs.define
class Takeover:
    """Knows one run by its folder and its receipts. Raises ConfigError for an unknown run."""

    gipper: Gipper
    run: str
    reporter: Reporter
    folder: RunFolder = attrs.field(init=False)
    book: Book = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.folder = RunFolder.of(self.gipper.paths.data_folder, self.run)
        self.refresh()

    def refresh(self) -> None:
        """Read the run's receipts again."""
        self.book = Book.of(self.gipper.ledger.read(run=self.run, kinds=KINDS))

    @property
    def record(self) -> RunRecord:
        """The run as the ledger has it. Raises ConfigError where it never began."""
        if self.run not in self.book.runs:
            raise ConfigError(f"run {self.run} never began: the ledger has no run.start of it")
        return self.book.runs[self.run]

    def lock(self) -> RunLock | None:
        """The supervisor's lock; None where another process supervises the run."""
        return self.folder.lock()

    def owner(self) -> Owner:
        """The process that supervises, or supervised, the run."""
        return Owner(**self.record.owner)

    def signal_owner(self) -> bool:
        """Ask a living owner on this host to stop; False where it can't be asked.

        Who holds the lock may have taken the run over a moment ago and not have said so yet.
        """
        deadline = self.gipper.runtime.monotonic() + _OWNER_S
        while owner_alive(owner := self.owner()) == "dead" and self.gipper.runtime.monotonic() < deadline:
            self.gipper.runtime.sleep(0.1)
            self.refresh()
        if owner_alive(owner) != "alive":
            return False
        try:
            os.kill(owner.pid, signal.SIGUSR1)
        except OSError:
            return False
        return True

    def resumption(self, interrupts: Interrupts, why: str) -> Resumption:
        """The run's machine, to go on with. Raises ConfigError where there is none."""
        pod = only_machine(self.record, self.book.of_run(self.run))
        provider = self.gipper.provider(pod.provider)
        return resume(self.gipper, self.reporter, interrupts, provider, self.record, pod, why)


def resume(
    gipper: Gipper, reporter: Reporter, interrupts: Interrupts, provider: Provider, run: RunRecord,
    pod: PodRecord, why: str,
) -> Resumption:  # fmt: skip
    """A resumption of `run` on the machine of `pod`; the caller holds the run's lock."""
    return Resumption(
        services=gipper.services(reporter), provider=provider, run=run, record=pod,
        folder=RunFolder.of(gipper.paths.data_folder, run.run), door=lambda folder: door(gipper, folder),
        stream_redactor=gipper.redactor.stream, interrupts=interrupts, why=why,
    )  # fmt: skip


def door(gipper: Gipper, folder: RunFolder) -> Door:
    """How this user gets into the machines of a run."""
    key = gipper.key_pair
    return Door(dialer=gipper.dialer, key_file=key.private, public_key=key.public, pins=folder.known_hosts)


def reaper(
    gipper: Gipper, providers: list[Provider], reporter: Reporter, *, dry_run: bool, end_unknown: bool
) -> Reaper:
    """A reaper that may also collect from machines whose client is dead."""
    interrupts = Interrupts(gipper.runtime)
    return Reaper(
        gipper.services(reporter), providers, gipper.installation.inst, gipper.paths.data_folder,
        resume=lambda provider, run, pod, why: resume(
            gipper, reporter, interrupts, provider, run, pod, why
        ),
        dry_run=dry_run, end_unknown=end_unknown,
    )  # fmt: skip


def log_of(gipper: Gipper, run: str) -> Path:
    """The log of a run as it is kept here. Raises ConfigError."""
    return RunFolder.of(gipper.paths.data_folder, run).log
