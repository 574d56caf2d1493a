"""The run: offers are tried in order, one machine at a time, until one has done the work.

Every path out of a rented machine leads through `give_back`: collect, terminate, prove, spend. The one
exception is a machine that is left running on purpose, once its job runs and its whole cost is reserved.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from gipper.errors import (
    BadHost,
    CapRefused,
    GipperError,
    NotProvedGone,
    RentError,
    Stopped,
    Unsuitable,
)
from gipper.lifecycle.arming import set_timer
from gipper.lifecycle.attempt import Attempt, Timings, Work
from gipper.lifecycle.caps import Meter
from gipper.lifecycle.collecting import Collected
from gipper.lifecycle.deadlines import Ends, PhaseLimits, ends, machine_name, phase_limits, reserve
from gipper.lifecycle.link import HostLost
from gipper.lifecycle.preparing import Preparation
from gipper.lifecycle.proof import Rental, end_machine
from gipper.lifecycle.remote_job import JobEnded
from gipper.lifecycle.renting import Renting, rent
from gipper.lifecycle.results import MachineEnd, RunResult
from gipper.lifecycle.services import Interrupts, Services, warn_of_clock
from gipper.lifecycle.settling import failed, give_back, judge, stopped, write_end
from gipper.lifecycle.spending import record_spend
from gipper.lifecycle.tries import Tries
from gipper.outcomes import Outcome
from gipper.planning_values import Plan, RankedOffer
from gipper.plugins.handle import Provider
from gipper.values.estimates import Estimate
from gipper.values.machines import Port, RentRequest
from gipper.values.offers import Offer
from gipper.values.receipts import EstimateReceipt


@attrs.define
class Supervisor:
    """Runs `work` on the offers of `plan`. `leave` = come back when the job runs (detached).

    `renting` is the name of a machine that is being rented, `alive` the one that is rented now.
    """

    services: Services
    work: Work
    plan: Plan
    inst: str
    handle: Callable[[str], Provider]
    options: Callable[[str], object]
    interrupts: Interrupts
    leave: bool = False
    machines: list[MachineEnd] = attrs.field(factory=list)
    renting: str | None = None
    alive: Rental | None = None
    _last: Attempt | None = None
    _estimate: Estimate | None = None
    _ended: JobEnded | None = None

    def run(self) -> RunResult:
        """Try, work, give back; write `run.end`. Never raises a GipperError.

        Whatever else is raised, a fault of gipper's own, comes after the machine was ended.
        """
        try:
            return self._run()
        finally:
            self._end_abandoned()

    def _run(self) -> RunResult:
        run = self.work.folder.run
        try:
            outcome = self._until_done(Tries(tuple(self.plan.ranked), self.services.runtime.monotonic()))
        except NotProvedGone as error:
            outcome = RunResult(
                run=run, outcome=Outcome.HOST_LOST, reason=error.message, doubt=error.message, hint=error.hint
            )
        except Stopped as error:
            outcome = RunResult(run=run, outcome=stopped(self.interrupts), reason=error.message)
        except CapRefused as error:
            outcome = RunResult(run=run, outcome=Outcome.REFUSED, reason=error.message, hint=error.hint)
        except GipperError as error:
            outcome = failed(run, error)
        result = self._filled(outcome)
        if result.outcome is not Outcome.DETACHED:
            write_end(self.services, result, self.work.job.name, self._predicted())
        return result

    def _predicted(self) -> dict[str, float] | None:
        if self._estimate is None:
            return None
        told = self._estimate.wire()
        return {**told["phases_s"], "wall_s": told["wall_s"], "usd": told["usd"]}

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
        what = "no machine did" if tries.replaced else "no offer could be rented"
        return RunResult(
            run=self.work.folder.run, outcome=Outcome.NO_OFFER, reason=f"{what}: {causes}",
            hint="try again later, or ask for less (see `gipper pod run --dry-run`)",
        )  # fmt: skip

    def _try(self, ranked: RankedOffer, number: int) -> RunResult:
        attempt = self._rent(ranked, number)
        self._last, self._estimate = attempt, ranked.estimate
        keep = False
        error: GipperError | None = None
        try:
            Preparation(attempt, ranked.offer, ranked.estimate, number).run()
            keep = self.leave and self._may_leave(attempt)
            if not keep:
                self._ended = attempt.follow()
        except GipperError as raised:
            error = raised
            raise
        finally:
            if keep:
                attempt.close()
            else:
                self._give_back(attempt, error)
        if keep:
            return self._left(attempt)
        outcome, reason = judge(attempt, self._ended, self.interrupts)
        return RunResult(run=self.work.folder.run, outcome=outcome, reason=reason)

    def _rent(self, ranked: RankedOffer, number: int) -> Attempt:
        offer, estimate = ranked.offer, ranked.estimate
        provider = self.handle(offer.provider)
        limits = phase_limits(self.services.settings.limits, provider.info, self.work.job, estimate)
        warn_of_clock(self.services, provider)
        over = ends(self.services.settings.limits, limits, self.services.now_at(provider))
        self._tell_estimate(offer, estimate)
        reserved = reserve(estimate, offer.usd_h, limits)
        renting = Renting(
            provider=provider, run=self.work.folder.run, job=self.work.job.name, attempt=number, offer=offer,
            request=self._request(provider, number, over), reserved=reserved,
        )  # fmt: skip
        self._save_state(provider.name, renting.request.name, number, limits)
        self.renting = renting.request.name
        self.alive = rent(self.services, renting, self.interrupts)
        self.renting = None
        set_timer(self.services, self.alive, over.timer_at)
        meter = Meter(self.services, self.alive, reserved, limits.collect, over.end)
        return Attempt(
            services=self.services, work=self.work, rental=self.alive, limits=limits, meter=meter,
            end=over.end, interrupts=self.interrupts,
        )  # fmt: skip

    def _request(self, provider: Provider, number: int, over: Ends) -> RentRequest:
        job, settings = self.work.job, self.services.settings
        return RentRequest(
            name=machine_name(self.inst, self.work.folder.run, number, over.end),
            public_key=self.work.door.public_key, end=over.end, boot_watchdog_s=over.watchdog_s,
            timer_at=over.timer_at, image=job.pod.image,
            disk_gb=job.pod.disk_gb or settings.container_disk_gb,
            ports=tuple(_port(p) for p in job.pod.ports), env={}, options=self.options(provider.name),
        )  # fmt: skip

    def _tell_estimate(self, offer: Offer, estimate: Estimate) -> None:
        self.services.ledger.append(
            EstimateReceipt(
                provider=offer.provider, offer=offer.id, estimate=estimate.wire(), seen=self.plan.seen,
                left_out=dict(self.plan.left_out),
            ),
            run=self.work.folder.run, refs={"name": self.work.job.name},
        )  # fmt: skip
        self.services.reporter.step(
            f"renting {offer.provider} {offer.id} at ${offer.usd_h:.3f}/h, expected ${estimate.usd:.3f}"
        )

    def _save_state(self, provider: str, name: str, number: int, limits: PhaseLimits) -> None:
        self.work.folder.save_state(
            {"provider": provider, "name": name, "attempt": number, "limits": attrs.asdict(limits)}
        )

    def _may_leave(self, attempt: Attempt) -> bool:
        try:
            attempt.meter.reserve_all()
        except CapRefused as error:
            self.services.reporter.warn(f"not left: {error.message}; the job is followed instead")
            return False
        return True

    def _left(self, attempt: Attempt) -> RunResult:
        self.alive = None
        rental = attempt.rental
        return RunResult(
            run=self.work.folder.run, outcome=Outcome.DETACHED, reason="the job runs without this client",
            left=f"{rental.provider.name} machine {rental.pod}, until {attempt.end:%Y-%m-%d %H:%M} UTC",
        )  # fmt: skip

    def _end_abandoned(self) -> None:
        rental = self.alive
        if rental is None or any(m.pod == rental.pod for m in self.machines):
            return
        proof = end_machine(self.services, rental, "a fault ended the run")
        spends = record_spend(self.services, rental, proof.asked, "computed") if proof else ()
        self.machines.append(MachineEnd(
            provider=rental.provider.name, pod=rental.pod, name=rental.name, proof=proof, spends=spends
        ))  # fmt: skip
        if proof is not None:
            self.alive = None

    def _give_back(self, attempt: Attempt, error: GipperError | None) -> None:
        end = give_back(attempt, "the run is over", error)
        self.machines.append(end)
        if end.proof is not None:
            self.alive = None

    def _filled(self, result: RunResult) -> RunResult:
        last = self._last
        return attrs.evolve(
            result, reason=self.services.redact(result.reason), machines=tuple(self.machines),
            collected=last.collected if last else Collected(),
            timings=last.timings if last else Timings(), job=self._ended,
        )  # fmt: skip


def _port(text: str) -> Port:
    number, protocol = text.split("/")
    return Port(inside=int(number), protocol="udp" if protocol == "udp" else "tcp")
