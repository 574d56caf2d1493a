"""One machine's part in a run: from the moment that its id is known until it may be given back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import TypeVar

import attrs

from gipper.errors import RemoteError
from gipper.lifecycle import remote_job
from gipper.lifecycle.caps import Meter
from gipper.lifecycle.checkpoints import Checkpoints
from gipper.lifecycle.collecting import Collected, collect
from gipper.lifecycle.deadlines import PhaseLimits
from gipper.lifecycle.following import Follower
from gipper.lifecycle.joblog import JobLog, StreamRedactor
from gipper.lifecycle.kept import Kept
from gipper.lifecycle.link import Link
from gipper.lifecycle.proof import Rental
from gipper.lifecycle.remote_job import JobEnded, Poll
from gipper.lifecycle.runfolder import RunFolder
from gipper.lifecycle.services import Backoff, Interrupts, Services
from gipper.lifecycle.waiting import Door, Ready, wait_ready
from gipper.remote import Manifest, Remote
from gipper.values.jobs import Job
from gipper.values.machines import Machine
from gipper.values.receipts import JobEnd

PreflightFn = Callable[[Services, Rental, Remote, Job, Machine], Mapping[str, str]]
_DRAIN_S = 60.0
T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Work:
    """What is to be done on whichever machine will do; the same for every attempt.

    `bad_twice(provider, host)`: whether the ledger knows that host as bad twice running.
    """

    job: Job
    folder: RunFolder
    door: Door
    stream_redactor: Callable[[], StreamRedactor]
    manifests: Mapping[str, Manifest] = attrs.field(factory=dict)
    secrets: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    preflight: PreflightFn = lambda *_given: {}
    bad_twice: Callable[[str, str], bool] = lambda *_given: False


@attrs.define(kw_only=True)
class Timings:
    """Actual seconds of each phase, as far as it came."""

    ready: float | None = None
    setup: float | None = None
    upload: float | None = None
    compute: float | None = None
    download: float | None = None


@attrs.define(kw_only=True)
class Attempt:
    """Drives one machine. The machine itself is ended by whoever made the attempt.

    `limit_s` is what the command may take, `money_bound` whether money set it; both are known once the
    job was started, here or by an earlier client.
    """

    services: Services
    work: Work
    rental: Rental
    limits: PhaseLimits
    meter: Meter
    end: datetime
    interrupts: Interrupts
    timings: Timings = attrs.field(factory=Timings)
    link: Link | None = None
    folder: str = ""
    started: bool = False
    limit_s: float = 0.0
    money_bound: bool = False
    collected: Collected = Collected()
    over: str | None = None
    _log: JobLog | None = None
    kept: Kept = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.kept = Kept(self.work.folder.path)

    def enter(self, offered: Decimal, limit_s: float) -> Ready:
        """Wait until the machine answers; `link` is open then. `offered` dollars an hour were agreed.

        Raises BadHost, Unsuitable, NoCapacity, Stopped.
        """
        ready = wait_ready(self.services, self.rental, offered, self.work.door, limit_s, self.interrupts)
        self.link = Link(self.services, self.rental, self.work.door, ready)
        return ready

    def look(self, until: float) -> Poll:
        """Where the job stands on the machine (`until` monotonic). Raises HostLost, RemoteError."""
        assert self.link is not None
        if not self.folder:
            home = self.link.call(remote_job.home_folder, until=until)
            self.folder = remote_job.run_folder(home, self.work.folder.run)
        folder = self.folder
        return self.link.call(lambda r: remote_job.poll(r, folder, 1 << 62), until=until)

    def follow(self) -> JobEnded | None:
        """Follow the job to its end; None = it was ended because the user asked, or because `over` says.

        Raises HostLost, RemoteError.
        """
        assert self.link is not None
        self._log = JobLog(self.work.folder.path, self.work.stream_redactor())
        follower = Follower(self.services, self.link, self.folder, self._log, self.meter.tick)
        syncs = Checkpoints(self.services, self.link, self.work.job, self.folder, self.kept)
        syncs.begin()
        try:
            ended = follower.follow(self._limit(), self._last_moment(), self.interrupts)
        finally:
            syncs.end()
        self.over = follower.over
        self._note_end(ended or self._end_and_drain(follower, ended))
        return ended

    def _end_and_drain(self, follower: Follower, ended: JobEnded | None) -> JobEnded | None:
        """What is left to do on the machine; where it can't be reached, what is known already stands."""
        try:
            if ended is None:
                self._end_job()
            return follower.drain(self.services.runtime.monotonic() + _DRAIN_S)
        except RemoteError as error:
            text = self.services.redact(error.message)
            self.services.reporter.warn(f"the job's end could not be seen to, its log may lack lines: {text}")
            return None

    def collect(self) -> None:
        """Bring the outputs home within the collect limit and before the machine's end; never raises."""
        if self.link is None or not self.started:
            return
        if self.interrupts.level < 2:
            self.services.reporter.step("bringing outputs home")
        until = self.services.runtime.monotonic() + self.limits.collect
        self.collected = collect(
            self.services, self.link, self.work.job, self.folder, until, self.interrupts, self.kept
        )
        self.timings.download = self.collected.seconds

    def close(self) -> None:
        """Close the connection and the log; idempotent."""
        if self.link is not None:
            self.link.close()
        if self._log is not None:
            self._log.close()

    def _last_moment(self) -> float:
        left = (self.end - self.services.now_at(self.rental.provider)).total_seconds()
        return self.services.runtime.monotonic() + max(0.0, left)

    def _limit(self) -> float:
        grace = self.services.settings.limits.kill_grace
        setup = self.limits.setup if self.work.job.run.setup is not None else 0.0
        return self.services.runtime.monotonic() + setup + self.limit_s + 2 * grace

    def _end_job(self) -> None:
        """TERM, then KILL after the grace, or at once when the user asks again."""
        self.services.reporter.step("ending the job")
        grace = self.services.settings.limits.kill_grace
        patience = self.services.runtime.monotonic() + grace
        self._on_job(remote_job.ask_to_end, patience)
        backoff = Backoff(most=1.0)
        while not self._on_job(remote_job.has_ended, patience):
            if self.services.runtime.monotonic() >= patience:
                break
            if self.services.pause(backoff.next(), self.interrupts.twice):
                break
        self._on_job(remote_job.kill, patience)

    def _on_job(self, step: Callable[[Remote, str, str], T], patience: float) -> T:
        assert self.link is not None
        folder, run = self.folder, self.work.folder.run
        return self.link.call(lambda r: step(r, folder, run), until=patience + _DRAIN_S)

    def _note_end(self, ended: JobEnded | None) -> None:
        if ended is None:
            return
        if ended.phase == "command":
            self.timings.compute, self.timings.setup = ended.seconds, ended.setup_s
        else:
            self.timings.setup = ended.seconds
        self.services.ledger.append_or_spill(
            JobEnd(
                provider=self.rental.provider.name, pod=self.rental.pod, exit_code=ended.code,
                signal=ended.signal, timed_out=ended.timed_out, seconds=ended.seconds,
            ),
            run=self.rental.run, refs=self.rental.refs,
        )  # fmt: skip
