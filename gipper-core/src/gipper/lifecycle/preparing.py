"""From a machine that was just rented to a job that runs on it: checks, inputs, secrets, start."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from datetime import timedelta

import attrs

from gipper import bootstrap
from gipper.errors import Stopped, TransferError, Unsuitable
from gipper.lifecycle import remote_job
from gipper.lifecycle.arming import Guard
from gipper.lifecycle.attempt import Attempt
from gipper.lifecycle.bringing import CheckpointPlace, checkpoint_place, there, uploaded
from gipper.lifecycle.deadlines import command_limit
from gipper.lifecycle.link import HostLost, Link
from gipper.lifecycle.remote_job import JobPlan
from gipper.remote import Manifest, Remote, Sent
from gipper.values.estimates import Estimate
from gipper.values.machines import Machine, as_offered
from gipper.values.offers import Offer
from gipper.values.receipts import CustodyUpload, JobStart, Payload, PodReady, SecretsHanded


@attrs.define
class Preparation:
    """Brings `attempt`'s machine to the point where the job runs. `number` is the attempt's."""

    attempt: Attempt
    offer: Offer
    estimate: Estimate
    number: int
    hidden: tuple[str, ...] = ()

    def run(self) -> None:
        """Raises BadHost, Unsuitable, NoCapacity, Stopped, HostLost, and what ledger and plugins raise."""
        a = self.attempt
        machine = self._wait()
        link = self._link()
        self._arm(machine)
        env = self._checked(link.remote, machine)
        self._stop_if_asked("before the upload")
        deadline = a.services.runtime.monotonic() + a.limits.upload
        home = link.call(remote_job.home_folder, until=deadline, stop=a.interrupts.once)
        a.folder = remote_job.run_folder(home, a.work.folder.run)
        link.call(lambda r: remote_job.prepare(r, a.folder), until=deadline)
        self._upload(deadline)
        self._stop_if_asked("before the job's start")
        self._start({**env, **self._checkpoint_env(deadline)})

    def _checked(self, remote: Remote, machine: Machine) -> Mapping[str, str]:
        """The preflight, left to itself once the user asks to stop: a check may wait for minutes."""
        a = self.attempt
        task = a.services.runtime.spawn(
            "preflight", lambda: a.work.preflight(a.services, a.rental, remote, a.work.job, machine)
        )
        a.services.runtime.wait_any([task.done, a.interrupts.once])
        if not task.done.is_set():
            raise Stopped("asked to stop during the checks")
        return task.result()

    def _wait(self) -> Machine:
        a = self.attempt
        a.services.reporter.step(f"waiting for {a.rental.provider.name} {a.rental.pod}")
        ready = a.enter(self.offer.usd_h, a.limits.ready)
        self._judge_host(ready.machine)
        a.timings.ready = ready.seconds
        self._write(PodReady(
            provider=a.rental.provider.name, pod=a.rental.pod, seconds=ready.seconds,
            address=ready.remote.address.host, port=ready.remote.address.port,
            host_key=ready.remote.fingerprint, host_id=ready.machine.host_id,
        ))  # fmt: skip
        return as_offered(ready.machine, self.offer, a.work.job.pod.disk_gb or 0.0)

    def _arm(self, machine: Machine) -> None:
        a = self.attempt
        until = a.end + timedelta(seconds=a.services.settings.limits.watchdog_grace)
        guard = Guard(services=a.services, rental=a.rental, link=self._link(), until=until)
        self.hidden = guard.arm(machine, a.interrupts.once)

    def _judge_host(self, machine: Machine) -> None:
        """Some markets tell only after the rent which host it is: its record counts then."""
        host, provider = machine.host_id, self.attempt.rental.provider.name
        if host is not None and host != self.offer.host_id and self.attempt.work.bad_twice(provider, host):
            raise Unsuitable(f"host {host} was bad twice running: it is given back at once")

    def _upload(self, deadline: float) -> None:
        a = self.attempt
        begun = a.services.runtime.monotonic()
        for base, manifest in a.work.manifests.items():
            self._record_custody(manifest, base)
            sent = self._send(manifest, there(a.folder, base), deadline)
            if self._checkpoint is not None:
                uploaded(a.kept, self._checkpoint, base, manifest, sent)
            for path in sent.changed:
                a.services.reporter.warn(f"input {path} changed while it was sent")
        a.timings.upload = a.services.runtime.monotonic() - begun

    def _send(self, manifest: Manifest, base: str, deadline: float) -> Sent:
        a = self.attempt
        if manifest.entries:
            a.services.reporter.step(f"sending {manifest.files} files, {manifest.bytes:,} bytes")
        total = manifest.bytes

        def send(remote: Remote) -> Sent:
            return remote.send(
                manifest, base, stop=a.interrupts.once,
                progress=lambda done: a.services.reporter.progress("upload", done, total),
            )  # fmt: skip

        try:
            return self._link().call(send, until=deadline, stop=a.interrupts.once)
        except TransferError as error:
            raise Unsuitable(f"the inputs could not be sent: {a.services.redact(error.message)}") from error
        except HostLost as error:
            text = f"the inputs could not be sent: {a.services.redact(error.message)}"
            raise HostLost(text, blame=error.blame, final=error.final) from error

    @property
    def _checkpoint(self) -> CheckpointPlace | None:
        a = self.attempt
        return checkpoint_place(a.work.job, a.services.settings.checkpoint_every_s)

    def _checkpoint_env(self, deadline: float) -> dict[str, str]:
        if self._checkpoint is None:
            return {}
        path = there(self.attempt.folder, self._checkpoint.source)
        made = self._link().call(
            lambda r: r.ask(f"umask 077 && mkdir -p -- {shlex.quote(path)}"), until=deadline
        )
        if made.status != 0:
            said = self.attempt.services.redact(made.stderr.decode("utf-8", "replace").strip()[:300])
            raise Unsuitable(f"the checkpoint's folder {path} can't be made on the machine: {said}")
        return {"GIPPER_CHECKPOINT_DIR": path}

    def _record_custody(self, manifest: Manifest, base: str) -> None:
        a = self.attempt
        prefix = "" if base == "." else base.rstrip("/") + "/"
        files = tuple(
            (prefix + e.path, e.size, e.sha256, e.mode, e.flag) for e in manifest.entries if e.type == "file"
        )
        self._write(CustodyUpload(
            provider=a.rental.provider.name, pod=a.rental.pod, files=files, bytes=manifest.bytes
        ))  # fmt: skip

    def _start(self, env: Mapping[str, str]) -> None:
        a = self.attempt
        accrued_s = (a.services.runtime.now() - a.rental.since).total_seconds()
        a.limit_s, a.money_bound = command_limit(
            a.work.job, self.estimate, a.rental.usd_h, a.limits, accrued_s
        )
        if a.work.secrets:
            self._write(SecretsHanded(
                provider=a.rental.provider.name, pod=a.rental.pod, names=tuple(a.work.secrets)
            ))  # fmt: skip
        plan = self._plan(env)
        until = a.services.runtime.monotonic() + 60.0
        self._link().call(lambda r: remote_job.start(r, a.folder, plan), until=until)
        a.started = True
        self._write(JobStart(
            provider=a.rental.provider.name, pod=a.rental.pod, folder=a.folder, limit_s=a.limit_s
        ))  # fmt: skip
        a.services.reporter.step("the job runs")

    def _plan(self, env: Mapping[str, str]) -> JobPlan:
        a = self.attempt
        job = a.work.job
        return JobPlan(
            run=a.work.folder.run, command=job.run.command, setup=job.run.setup, setup_s=a.limits.setup,
            command_s=a.limit_s, kill_grace_s=a.services.settings.limits.kill_grace,
            env={
                **dict.fromkeys(self.hidden, ""), **machine_env(self._link().machine), **job.pod.env, **env,
                "GIPPER_ATTEMPT": str(self.number),
            },
            secrets=a.work.secrets, bootstrap=self._bootstrap(),
        )  # fmt: skip

    def _bootstrap(self) -> str | None:
        if not self.attempt.rental.provider.info.bootstrap:
            return None
        return bootstrap.script(own_path="PATH" in self.attempt.work.job.pod.env)

    def _link(self) -> Link:
        assert self.attempt.link is not None
        return self.attempt.link

    def _stop_if_asked(self, when: str) -> None:
        if self.attempt.interrupts.level:
            raise Stopped(f"asked to stop {when}")

    def _write(self, payload: Payload) -> None:
        rental = self.attempt.rental
        self.attempt.services.ledger.append(payload, run=rental.run, refs=rental.refs)


def machine_env(machine: Machine) -> dict[str, str]:
    """The variables that tell a job where its published ports are reached from outside."""
    env: dict[str, str] = {}
    for port in machine.ports:
        if port.outside is not None:
            env[f"GIPPER_PORT_{port.inside}_{port.protocol.upper()}"] = str(port.outside)
            env.setdefault("GIPPER_PUBLIC_IP", port.host or "")
    return env
