"""A run whose client is gone, taken up again from its folder and its receipts.

Whoever takes it up holds the run's lock, writes `adopt`, and from then on supervises like the first
client did. Nothing is ever run twice: a machine on which no job was started is ended.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from gipper.errors import ConfigError, GipperError, Stopped
from gipper.installation import owner_of_this_process
from gipper.jobfile import from_mapping
from gipper.lifecycle.attempt import Attempt, Work
from gipper.lifecycle.book import PodRecord, RunRecord
from gipper.lifecycle.caps import Meter
from gipper.lifecycle.deadlines import PhaseLimits
from gipper.lifecycle.joblog import StreamRedactor
from gipper.lifecycle.proof import Rental
from gipper.lifecycle.remote_job import Poll
from gipper.lifecycle.results import RunResult
from gipper.lifecycle.runfolder import RunFolder
from gipper.lifecycle.services import Interrupts, Services
from gipper.lifecycle.settling import failed, give_back, judge, stopped, write_end
from gipper.lifecycle.waiting import Door
from gipper.outcomes import Outcome
from gipper.plugins.handle import Provider
from gipper.values.jobs import Job, RunTable
from gipper.values.receipts import Adopt

# How long a machine that ran already may take to answer.
_ANSWER_S = 60.0
_LOOK_S = 60.0


@attrs.define(kw_only=True)
class Resumption:
    """Goes on with `record`'s machine of `run`; the caller holds the lock of `folder`.

    `stop_job`: once the machine answers, its job is ended as if the user had asked.
    """

    services: Services
    provider: Provider
    run: RunRecord
    record: PodRecord
    folder: RunFolder
    door: Callable[[RunFolder], Door]
    stream_redactor: Callable[[], StreamRedactor]
    interrupts: Interrupts
    why: str
    stop_job: bool = False
    attempt: Attempt | None = None
    answer_s: float = _ANSWER_S

    def look(self) -> Poll | None:
        """Where the job stands on the machine; None where it doesn't answer. Ends and changes nothing."""
        try:
            attempt = self._attempt()
            if attempt.link is None:
                attempt.enter(self.record.usd_h, self.answer_s)
            return attempt.look(self.services.runtime.monotonic() + _LOOK_S)
        except Stopped:
            raise
        except GipperError as error:
            self.services.reporter.warn(
                f"{self.record.name} doesn't answer: {self.services.redact(error.message)}"
            )
            return None

    def go_on(self) -> RunResult:
        """Adopt the machine, follow its job to the end, collect, give back, write `run.end`."""
        attempt = self._attempt()
        self._adopt(attempt)
        result = self._supervised(attempt)
        write_end(self.services, result, self.run.name)
        return result

    def close(self) -> None:
        """Close what `look` opened."""
        if self.attempt is not None:
            self.attempt.close()

    def _supervised(self, attempt: Attempt) -> RunResult:
        ended = None
        fault: GipperError | None = None
        try:
            try:
                if attempt.link is None:
                    attempt.enter(self.record.usd_h, self._patience())
                seen = attempt.look(self.services.runtime.monotonic() + _LOOK_S)
                attempt.started = seen.state != "absent"
                if self.stop_job:
                    self.interrupts.raise_to(1, "stop")
                if attempt.started:
                    ended = attempt.follow()
            except GipperError as raised:
                fault = raised
                raise
            finally:
                machine = give_back(attempt, self.why, fault)
            result = self._judged(attempt, ended)
        except Stopped as error:
            result = RunResult(run=self.run.run, outcome=stopped(self.interrupts), reason=error.message)
        except GipperError as error:
            result = failed(self.run.run, error)
        return attrs.evolve(
            result, reason=self.services.redact(result.reason), machines=(machine,),
            collected=attempt.collected, timings=attempt.timings, job=ended,
        )  # fmt: skip

    def _judged(self, attempt: Attempt, ended: object) -> RunResult:
        from gipper.lifecycle.remote_job import JobEnded

        if not attempt.started:
            return RunResult(
                run=self.run.run, outcome=Outcome.HOST_LOST,
                reason="the client died before the job was started; nothing was run",
            )  # fmt: skip
        outcome, reason = judge(attempt, ended if isinstance(ended, JobEnded) else None, self.interrupts)
        return RunResult(run=self.run.run, outcome=outcome, reason=reason)

    def _patience(self) -> float:
        left = (self.record.end - self.services.now_at(self.provider)).total_seconds()
        return max(self.answer_s, min(left, self.services.settings.limits.ready_min))

    def _attempt(self) -> Attempt:
        if self.attempt is None:
            self.attempt = self._made()
        return self.attempt

    def _made(self) -> Attempt:
        record = self.record
        limits = self._known_limits()
        rental = Rental(
            provider=self.provider, run=record.run, name=record.name, pod=record.pods[0], usd_h=record.usd_h,
            since=record.since, gpu=record.gpu, job=record.job, listed=True, twins=list(record.pods[1:]),
        )  # fmt: skip
        work = Work(
            job=self._job(), folder=self.folder, door=self.door(self.folder),
            stream_redactor=self.stream_redactor,
        )  # fmt: skip
        limit_s = self.run.limit_s if self.run.limit_s is not None else limits.command
        return Attempt(
            services=self.services, work=work, rental=rental, limits=limits, end=record.end,
            meter=Meter(self.services, rental, record.reserved, limits.collect, record.end),
            interrupts=self.interrupts, started=self.run.job_started, limit_s=limit_s,
            money_bound=limit_s < limits.command,
        )  # fmt: skip

    def _known_limits(self) -> PhaseLimits:
        """Those of state.json; the settings' least ones where it is damaged: the machine must still end."""
        known = _limits(self.folder)
        if known is not None:
            return known
        least = self.services.settings.limits
        self.services.reporter.warn(f"run {self.run.run}: state.json is damaged, default limits count")
        return PhaseLimits(
            ready=least.ready_min, checks=least.checks, setup=least.setup_min, upload=least.upload_min,
            command=self.run.limit_s or 0.0, collect=least.collect_min,
        )  # fmt: skip

    def _job(self) -> Job:
        try:
            return from_mapping(self.folder.load_job())
        except ConfigError as error:
            self.services.reporter.warn(
                f"{error.message}: outputs can't be collected, the machine still ends"
            )
            return Job(name=self.run.name, folder=self.folder.path, run=RunTable(command=""))

    def _adopt(self, attempt: Attempt) -> None:
        rental = attempt.rental
        self.services.ledger.append(
            Adopt(provider=rental.provider.name, pod=rental.pod, owner=owner_of_this_process(), why=self.why),
            run=rental.run, refs=rental.refs,
        )  # fmt: skip


def only_machine(run: RunRecord, records: list[PodRecord]) -> PodRecord:
    """The machine of a run that may still exist. Raises ConfigError where there is none."""
    alive = [r for r in records if r.pods and r.unproved]
    if not alive:
        raise ConfigError(
            f"run {run.run} has no machine left ({run.outcome or 'no outcome'})",
            hint=f"its log: gipper pod logs {run.run}; its cost: gipper pod cost",
        )
    return alive[-1]


def _limits(folder: RunFolder) -> PhaseLimits | None:
    """The limits that the run began with; what a later version added to them is passed over."""
    kept = folder.load_state().get("limits")
    names = [f.name for f in attrs.fields(PhaseLimits)]
    if not isinstance(kept, dict) or not all(isinstance(kept.get(n), (int, float)) for n in names):
        return None
    return PhaseLimits(**{name: float(kept[name]) for name in names})
