"""The end of a machine's part and of a run, whoever brings it about: client, attach or reaper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from gipper.errors import BadHost, GipperError, RemoteError, Unsuitable
from gipper.lifecycle.attempt import Attempt
from gipper.lifecycle.link import HostLost
from gipper.lifecycle.proof import end_machine
from gipper.lifecycle.remote_job import JobEnded
from gipper.lifecycle.results import MachineEnd, RunResult
from gipper.lifecycle.services import Interrupts, Services
from gipper.lifecycle.spending import record_spend
from gipper.outcomes import Outcome
from gipper.values.receipts import RunEnd


def give_back(attempt: Attempt, why: str, error: BaseException | None = None) -> MachineEnd:
    """Collect, terminate, prove, spend. Never raises a GipperError; nothing interrupts the teardown.

    `error` is what ended the machine's part, for the record of who was at fault.
    """
    try:
        attempt.collect()
    finally:
        attempt.close()
        rental, services = attempt.rental, attempt.services
        services.reporter.step(f"giving {rental.pod} back")
        text = why if error is None else services.redact(str(error))
        proof = end_machine(services, rental, text, blame_of(error))
        spends = record_spend(services, rental, proof.asked, "computed") if proof else ()
        end = MachineEnd(
            provider=rental.provider.name, pod=rental.pod, name=rental.name, proof=proof, spends=spends
        )
    return end


def blame_of(error: BaseException | None) -> str | None:
    """ "host" where the host was broken or lost while the market said that it runs; else nobody's fault."""
    if isinstance(error, BadHost) or (isinstance(error, HostLost) and error.blame):
        return "host"
    return "unsuitable" if isinstance(error, Unsuitable) else None


def judge(attempt: Attempt, ended: JobEnded | None, interrupts: Interrupts) -> tuple[Outcome, str]:
    """The outcome of a job that was followed, and the reason in one line."""
    if ended is None and attempt.over is not None:
        return Outcome.OVER_BUDGET, attempt.over
    if ended is None:
        return stopped(interrupts), f"ended as asked ({interrupts.why})"
    if ended.timed_out and ended.phase == "command":
        return (Outcome.OVER_BUDGET if attempt.money_bound else Outcome.TIMEOUT), ended.text
    if ended.code != 0:
        return Outcome.FAILED, ended.text
    if attempt.collected.problems:
        lost = "; ".join(attempt.collected.problems[:3])
        return Outcome.FAILED, f"the command succeeded, but outputs are not here: {lost}"
    return Outcome.SUCCEEDED, ended.text


def stopped(interrupts: Interrupts) -> Outcome:
    """The outcome of a run that was asked to end."""
    return Outcome.STOPPED if interrupts.why == "stop" else Outcome.INTERRUPTED


def failed(run: str, error: GipperError) -> RunResult:
    """The result of a run that an error ended; its own exit code where no outcome has it."""
    if isinstance(error, (HostLost, RemoteError, BadHost)):
        return RunResult(run=run, outcome=Outcome.HOST_LOST, reason=error.message, hint=error.hint)
    return RunResult(
        run=run, outcome=Outcome.FAILED, reason=error.message, hint=error.hint, error_exit=error.exit_code
    )


def write_end(
    services: Services, result: RunResult, job: str, predicted: Mapping[str, Any] | None = None
) -> None:
    """`run.end`, under the ledger's lock and only if the run has none; never raises for the ledger's sake."""
    last = result.machines[-1] if result.machines else None
    end = RunEnd(
        outcome=result.outcome.value, reason=services.redact(result.reason), predicted=predicted,
        actual=_actual(result), exit_code=result.job.code if result.job else None,
        provider=last.provider if last else None, pod=last.pod if last else None,
    )  # fmt: skip
    refs = {"name": job}
    try:
        with services.ledger.transaction() as tx:
            if not any(tx.read(run=result.run, kinds={RunEnd.kind})):
                tx.append(end, run=result.run, refs=refs)
    except GipperError:
        services.ledger.append_or_spill(end, run=result.run, refs=refs)


def _actual(result: RunResult) -> dict[str, Any]:
    spends = result.machines[-1].spends if result.machines else ()
    known = {
        "wall_s": spends[0].seconds if spends else None,
        "usd": float(spends[0].usd) if spends else None,
    }
    return {**attrs.asdict(result.timings), **known}
