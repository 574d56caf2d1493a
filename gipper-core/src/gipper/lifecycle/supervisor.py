"""The run: offers are tried in order, one machine at a time, until one has done the work.

Every path out of a rented machine leads through `_give_back`: collect, terminate, prove, spend.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from gipper.errors import (
    BadHost,
    CapRefused,
    GipperError,
    NotProvedGone,
    RemoteError,
    RentError,
    Stopped,
    Unsuitable,
)
from gipper.lifecycle.attempt import Attempt, Timings, Work
from gipper.lifecycle.collecting import Collected
from gipper.lifecycle.deadlines import ends, machine_name, phase_limits, reserve
from gipper.lifecycle.link import HostLost
from gipper.lifecycle.proof import Proof, Rental, end_machine
from gipper.lifecycle.remote_job import JobEnded
from gipper.lifecycle.renting import Renting, rent
from gipper.lifecycle.services import Interrupts, Services
from gipper.lifecycle.spending import record_spend
from gipper.lifecycle.tries import Tries
from gipper.outcomes import EXIT_NOT_GONE, EXIT_USAGE, Outcome
from gipper.planning_values import Plan, RankedOffer
from gipper.plugins.handle import Provider
from gipper.values.machines import Port, RentRequest
from gipper.values.receipts import EstimateReceipt, RunEnd, Spend


@attrs.frozen(kw_only=True)
class MachineEnd:
    """One machine's end: the proof (None = not proved gone) and what it cost by our count."""

    provider: str
    pod: str
    name: str
    proof: Proof | None
    spends: tuple[Spend, ...] = ()


@attrs.frozen(kw_only=True)
class RunResult:
    """How a run ended. `exit_code` is 5 where a machine isn't proved gone, whatever the outcome."""

    run: str
    outcome: Outcome
    reason: str
    machines: tuple[MachineEnd, ...] = ()
    collected: Collected = Collected()
    timings: Timings = attrs.field(factory=Timings)
    job: JobEnded | None = None
    doubt: str | None = None
    hint: str | None = None
    error_exit: int | None = None

    @property
    def exit_code(self) -> int:
        """The command's exit code."""
        if self.doubt is not None or any(m.proof is None for m in self.machines):
            return EXIT_NOT_GONE
        return self.outcome.exit_code if self.error_exit is None else self.error_exit


@attrs.define
class Supervisor:
    """Runs `work` on the offers of `plan`."""

    services: Services
    work: Work
    plan: Plan
    inst: str
    handle: Callable[[str], Provider]
    options: Callable[[str], object]
    interrupts: Interrupts
    machines: list[MachineEnd] = attrs.field(factory=list)
    renting: str | None = None
    alive: Rental | None = None
    _last: Attempt | None = None
    _ended: JobEnded | None = None

    def run(self) -> RunResult:
        """Try, work, give back; write `run.end`. Never raises a GipperError."""
        tries = Tries(tuple(self.plan.ranked), self.services.runtime.monotonic())
        try:
            result = self._until_done(tries)
        except NotProvedGone as error:
            result = self._result(Outcome.HOST_LOST, error.message, doubt=error.message, hint=error.hint)
        except Stopped as error:
            result = self._result(_stopped(self.interrupts), error.message)
        except CapRefused as error:
            result = self._result(Outcome.REFUSED, error.message, hint=error.hint)
        except HostLost as error:
            result = self._result(Outcome.HOST_LOST, error.message)
        except GipperError as error:
            lost = isinstance(error, RemoteError)
            result = self._result(
                Outcome.HOST_LOST if lost else Outcome.FAILED, error.message, hint=error.hint,
                error_exit=None if lost else error.exit_code,
            )  # fmt: skip
        self._write_end(result)
        return result

    def _until_done(self, tries: Tries) -> RunResult:
        number = 0
        while True:
            if self.interrupts.level:
                raise Stopped("asked to stop")
            ranked = tries.next(self.services.runtime.monotonic())
            if ranked is None:
                return self._no_more(tries)
            number += 1
            try:
                return self._try(ranked, number)
            except (BadHost, Unsuitable, RentError, HostLost) as error:
                if self._last is not None and self._last.started:
                    raise
                self._next_or_stop(tries, ranked, error)

    def _next_or_stop(self, tries: Tries, ranked: RankedOffer, error: GipperError) -> None:
        text = self.services.redact(error.message)
        self.services.reporter.warn(f"{ranked.offer.provider} {ranked.offer.id}: {text}")
        tries.failed(ranked, error, text)
        if any(m.proof is None for m in self.machines):
            raise error

    def _no_more(self, tries: Tries) -> RunResult:
        causes = "; ".join(tries.causes) or "no offer fits"
        bad = tries.replaced > 0
        reason = f"no machine did: {causes}" if bad else f"no offer could be rented: {causes}"
        return self._result(
            Outcome.NO_OFFER, reason, hint="try again later, or ask for less (see `gipper pod run --dry-run`)"
        )

    def _try(self, ranked: RankedOffer, number: int) -> RunResult:
        attempt = self._rent(ranked, number)
        self._last = attempt
        try:
            attempt.prepare()
            self._ended = attempt.follow()
        finally:
            self._give_back(attempt)
        return self._judge(attempt, self._ended)

    def _rent(self, ranked: RankedOffer, number: int) -> Attempt:
        offer, estimate = ranked.offer, ranked.estimate
        provider = self.handle(offer.provider)
        job, settings = self.work.job, self.services.settings
        limits = phase_limits(settings.limits, provider.info, job, estimate)
        over = ends(settings.limits, limits, self.services.runtime.now())
        name = machine_name(self.inst, self.work.folder.run, number, over.end)
        request = RentRequest(
            name=name, public_key=self.work.door.public_key, end=over.end, boot_watchdog_s=over.watchdog_s,
            timer_at=over.timer_at, image=job.pod.image,
            disk_gb=job.pod.disk_gb or settings.container_disk_gb,
            ports=tuple(_port(p) for p in job.pod.ports), env={}, options=self.options(provider.name),
        )  # fmt: skip
        self.services.ledger.append(
            EstimateReceipt(
                provider=offer.provider, offer=offer.id, estimate=estimate.wire(), seen=self.plan.seen,
                left_out=dict(self.plan.left_out),
            ),
            run=self.work.folder.run, refs={"name": job.name},
        )  # fmt: skip
        self.services.reporter.step(
            f"renting {offer.provider} {offer.id} at ${offer.usd_h:.3f}/h, expected ${estimate.usd:.3f}"
        )
        renting = Renting(
            provider=provider, run=self.work.folder.run, job=job.name, attempt=number, offer=offer,
            request=request, reserved=reserve(estimate, offer.usd_h, limits),
        )  # fmt: skip
        self.renting = name
        self.alive = rent(self.services, renting, self.interrupts)
        self.renting = None
        return Attempt(self.services, self.work, self.alive, offer, estimate, limits, number, self.interrupts)

    def _give_back(self, attempt: Attempt) -> None:
        try:
            attempt.collect()
        finally:
            attempt.close()
            rental = attempt.rental
            self.services.reporter.step(f"giving {rental.pod} back")
            proof = end_machine(self.services, rental, "the run is over")
            spends = record_spend(self.services, rental, proof.asked, "computed") if proof else ()
            self.machines.append(MachineEnd(
                provider=rental.provider.name, pod=rental.pod, name=rental.name, proof=proof, spends=spends
            ))  # fmt: skip
            if proof is not None:
                self.alive = None

    def _judge(self, attempt: Attempt, ended: JobEnded | None) -> RunResult:
        if ended is None:
            return self._result(_stopped(self.interrupts), f"ended as asked ({self.interrupts.why})")
        if ended.timed_out and ended.phase == "command":
            outcome = Outcome.OVER_BUDGET if attempt.money_bound else Outcome.TIMEOUT
            return self._result(outcome, ended.text)
        if ended.code != 0:
            return self._result(Outcome.FAILED, ended.text)
        if attempt.collected.problems:
            lost = "; ".join(attempt.collected.problems[:3])
            return self._result(Outcome.FAILED, f"the command succeeded, but outputs are not here: {lost}")
        return self._result(Outcome.SUCCEEDED, ended.text)

    def _result(
        self, outcome: Outcome, reason: str, *, doubt: str | None = None, hint: str | None = None,
        error_exit: int | None = None,
    ) -> RunResult:  # fmt: skip
        last = self._last
        return RunResult(
            run=self.work.folder.run, outcome=outcome, reason=self.services.redact(reason),
            machines=tuple(self.machines), collected=last.collected if last else Collected(),
            timings=last.timings if last else Timings(), job=self._ended, doubt=doubt, hint=hint,
            error_exit=error_exit if error_exit != EXIT_USAGE or not self.machines else EXIT_USAGE,
        )  # fmt: skip

    def _write_end(self, result: RunResult) -> None:
        predicted = self._last.estimate.wire()["phases_s"] if self._last else None
        end = RunEnd(
            outcome=result.outcome.value, reason=result.reason, predicted=predicted,
            actual=attrs.asdict(result.timings), exit_code=result.job.code if result.job else None,
        )  # fmt: skip
        self.services.ledger.append_or_spill(end, run=self.work.folder.run, refs={"name": self.work.job.name})


def _stopped(interrupts: Interrupts) -> Outcome:
    return Outcome.STOPPED if interrupts.why == "stop" else Outcome.INTERRUPTED


def _port(text: str) -> Port:
    number, protocol = text.split("/")
    return Port(inside=int(number), protocol="udp" if protocol == "udp" else "tcp")
