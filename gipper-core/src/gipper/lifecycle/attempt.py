"""One machine's part in a run: from the moment that its id is known until it may be given back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import attrs

from gipper.errors import Stopped, TransferError, Unsuitable
from gipper.lifecycle import remote_job
from gipper.lifecycle.collecting import Collected, collect
from gipper.lifecycle.deadlines import PhaseLimits, command_limit
from gipper.lifecycle.following import Follower
from gipper.lifecycle.joblog import JobLog, StreamRedactor
from gipper.lifecycle.link import Link
from gipper.lifecycle.proof import Rental
from gipper.lifecycle.remote_job import JobEnded, JobPlan
from gipper.lifecycle.runfolder import RunFolder
from gipper.lifecycle.services import Interrupts, Services
from gipper.lifecycle.waiting import Door, Ready, wait_ready
from gipper.remote import Manifest, Remote, Sent
from gipper.values.estimates import Estimate
from gipper.values.jobs import Job
from gipper.values.machines import Machine, as_offered
from gipper.values.offers import Offer
from gipper.values.receipts import (
    CustodyUpload,
    JobEnd,
    JobStart,
    Payload,
    PodReady,
    SecretsHanded,
)

PreflightFn = Callable[[Services, Rental, Remote, Job, Machine], Mapping[str, str]]


@attrs.frozen(kw_only=True)
class Work:
    """What is to be done on whichever machine will do; the same for every attempt."""

    job: Job
    folder: RunFolder
    manifests: Mapping[str, Manifest]
    secrets: Mapping[str, str] = attrs.field(repr=False)
    door: Door
    preflight: PreflightFn
    stream_redactor: Callable[[], StreamRedactor]
    log_path: Path | None = None


@attrs.define(kw_only=True)
class Timings:
    """Actual seconds of each phase, as far as it came."""

    ready: float | None = None
    setup: float | None = None
    upload: float | None = None
    compute: float | None = None
    download: float | None = None


@attrs.define
class Attempt:
    """Drives one machine. The machine itself is ended by whoever made the attempt."""

    services: Services
    work: Work
    rental: Rental
    offer: Offer
    estimate: Estimate
    limits: PhaseLimits
    number: int
    interrupts: Interrupts
    timings: Timings = attrs.field(factory=Timings)
    link: Link | None = None
    started: bool = False
    money_bound: bool = False
    limit_s: float = 0.0
    collected: Collected = Collected()

    @property
    def folder(self) -> str:
        """The run's folder on the machine, known once it answered."""
        return self._folder

    _folder: str = ""
    _log: JobLog | None = None

    def prepare(self) -> None:
        """Bring the machine to the point where the job runs.

        Raises BadHost, Unsuitable, NoCapacity, Stopped, LedgerError, PluginError, RemoteError.
        """
        ready = self._wait()
        self.link = Link(self.services, self.rental, self.work.door, ready)
        machine = as_offered(ready.machine, self.offer, self.work.job.pod.disk_gb or 0.0)
        env = self.work.preflight(self.services, self.rental, ready.remote, self.work.job, machine)
        self._stop_if_asked("before the upload")
        deadline = self.services.runtime.monotonic() + self.limits.upload
        home = self.link.call(remote_job.home_folder, until=deadline, stop=self.interrupts.once)
        self._folder = remote_job.run_folder(home, self.work.folder.run)
        self.link.call(lambda r: remote_job.prepare(r, self._folder), until=deadline)
        self._upload(deadline)
        self._stop_if_asked("before the job's start")
        self._start(env)

    def follow(self) -> JobEnded | None:
        """Follow the job to its end; None = the user asked to stop. Raises HostLost, RemoteError."""
        assert self.link is not None
        self._log = JobLog(self.work.folder.path, self.work.stream_redactor())
        follower = Follower(self.services, self.link, self._folder, self._log)
        grace = self.services.settings.limits.kill_grace
        setup = self.limits.setup if self.work.job.run.setup is not None else 0.0
        until = self.services.runtime.monotonic() + setup + self.limit_s + 2 * grace
        ended = follower.follow(until, self.interrupts)
        if ended is None:
            self.services.reporter.step("ending the job")
            until = self.services.runtime.monotonic() + grace + 60.0
            self.link.call(
                lambda r: remote_job.end(r, self._folder, self.work.folder.run, grace), until=until
            )
        drained = follower.drain(self.services.runtime.monotonic() + 60.0)
        self._note_end(ended or drained)
        return ended

    def collect(self) -> None:
        """Bring the outputs home within the collect limit; never raises."""
        if self.link is None or not self.started:
            return
        self.services.reporter.step("bringing outputs home")
        until = self.services.runtime.monotonic() + self.limits.collect
        self.collected = collect(
            self.services, self.link, self.work.job, self._folder, until, self.interrupts
        )
        self.timings.download = self.collected.seconds

    def close(self) -> None:
        """Close the connection and the log; idempotent."""
        if self.link is not None:
            self.link.close()
        if self._log is not None:
            self._log.close()

    def _wait(self) -> Ready:
        self.services.reporter.step(f"waiting for {self.rental.provider.name} {self.rental.pod}")
        ready = wait_ready(
            self.services, self.rental, self.offer.usd_h, self.work.door, self.limits.ready, self.interrupts
        )
        self.timings.ready = ready.seconds
        self._write(PodReady(
            provider=self.rental.provider.name, pod=self.rental.pod, seconds=ready.seconds,
            address=str(ready.remote.address), host_key=ready.remote.fingerprint,
        ))  # fmt: skip
        return ready

    def _upload(self, deadline: float) -> None:
        begun = self.services.runtime.monotonic()
        for base, manifest in self.work.manifests.items():
            self._record_custody(manifest, base)
            sent = self._send(manifest, f"{self._folder}/work" if base == "." else base, deadline)
            for path in sent.changed:
                self.services.reporter.warn(f"input {path} changed while it was sent")
        self.timings.upload = self.services.runtime.monotonic() - begun

    def _send(self, manifest: Manifest, base: str, deadline: float) -> Sent:
        assert self.link is not None
        if manifest.entries:
            self.services.reporter.step(f"sending {manifest.files} files, {manifest.bytes:,} bytes")
        total = manifest.bytes

        def send(remote: Remote) -> Sent:
            return remote.send(
                manifest, base, stop=self.interrupts.once,
                progress=lambda done: self.services.reporter.progress("upload", done, total),
            )  # fmt: skip

        try:
            return self.link.call(send, until=deadline, stop=self.interrupts.once)
        except TransferError as error:
            raise Unsuitable(
                f"the inputs could not be sent: {self.services.redact(error.message)}"
            ) from error

    def _record_custody(self, manifest: Manifest, base: str) -> None:
        prefix = "" if base == "." else base.rstrip("/") + "/"
        files = tuple(
            (prefix + e.path, e.size, e.sha256, e.mode, e.flag) for e in manifest.entries if e.type == "file"
        )
        self._write(CustodyUpload(
            provider=self.rental.provider.name, pod=self.rental.pod, files=files, bytes=manifest.bytes
        ))  # fmt: skip

    def _start(self, env: Mapping[str, str]) -> None:
        assert self.link is not None
        self.limit_s, self.money_bound = command_limit(
            self.work.job, self.estimate, self.rental.usd_h, self.limits, self._accrued_s()
        )
        if self.work.secrets:
            self._write(SecretsHanded(
                provider=self.rental.provider.name, pod=self.rental.pod, names=tuple(self.work.secrets)
            ))  # fmt: skip
        plan = self._plan(env)
        until = self.services.runtime.monotonic() + 60.0
        self.link.call(lambda r: remote_job.start(r, self._folder, plan), until=until)
        self.started = True
        self._write(JobStart(
            provider=self.rental.provider.name, pod=self.rental.pod, folder=self._folder, limit_s=self.limit_s
        ))  # fmt: skip
        self.services.reporter.step("the job runs")

    def _plan(self, env: Mapping[str, str]) -> JobPlan:
        assert self.link is not None
        job = self.work.job
        return JobPlan(
            run=self.work.folder.run, command=job.run.command, setup=job.run.setup,
            setup_s=self.limits.setup, command_s=self.limit_s,
            kill_grace_s=self.services.settings.limits.kill_grace,
            env={**machine_env(self.link.machine), **env, **job.pod.env, "GIPPER_ATTEMPT": str(self.number)},
            secrets=self.work.secrets,
        )  # fmt: skip

    def _accrued_s(self) -> float:
        return (self.services.runtime.now() - self.rental.since).total_seconds()

    def _note_end(self, ended: JobEnded | None) -> None:
        if ended is None:
            return
        if ended.phase == "command":
            self.timings.compute = ended.seconds
        else:
            self.timings.setup = ended.seconds
        self.services.ledger.append_or_spill(
            JobEnd(
                provider=self.rental.provider.name, pod=self.rental.pod, exit_code=ended.code,
                signal=ended.signal, timed_out=ended.timed_out, seconds=ended.seconds,
            ),
            run=self.rental.run, refs=self.rental.refs,
        )  # fmt: skip

    def _stop_if_asked(self, when: str) -> None:
        if self.interrupts.level:
            raise Stopped(f"asked to stop {when}")

    def _write(self, payload: Payload) -> None:
        self.services.ledger.append(payload, run=self.rental.run, refs=self.rental.refs)


def machine_env(machine: Machine) -> dict[str, str]:
    """The variables that tell a job where its published ports are reached from outside."""
    env: dict[str, str] = {}
    for port in machine.ports:
        if port.outside is not None:
            env[f"GIPPER_PORT_{port.inside}_{port.protocol.upper()}"] = str(port.outside)
            env.setdefault("GIPPER_PUBLIC_IP", port.host or "")
    return env
