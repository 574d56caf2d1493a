"""CUDA as a job would meet it: the driver library starts, and counts the GPUs that were offered."""

from __future__ import annotations

from typing import Final

from gipper.api import BadHost, CheckResult, Job, Machine, Remote, Unsuitable, hookimpl
from gipper.builtin.checks.common import no_gpu, offered_gpus, with_facts
from gipper.builtin.checks.cuda_code import INIT
from gipper.builtin.checks.cuda_driving import FIRST_PROCESS, VARIABLE, Driven, drive

_ATTEMPT_S: Final = 30
_READY_S: Final = 180


@hookimpl
def gipper_preflight(remote: Remote, job: Job, machine: Machine) -> CheckResult:
    """`cuInit` and the device count in a fresh process; see `cuda_driving` for what is tried twice.

    Raises BadHost for a driver that fails, hangs, or has fewer GPUs than offered; Unsuitable without
    python3. Gives the job the library path with which it worked, where that isn't the session's own.
    """
    count = offered_gpus(job, machine)
    if not count:
        return no_gpu(job)
    driven = drive(remote, job, INIT, limit_s=_ATTEMPT_S, wait_s=_READY_S)
    lacking = driven.answer.no_python
    if lacking is not None:
        raise with_facts(Unsuitable(lacking), driven.facts(lacking))
    fault = _fault(driven, count)
    if fault is not None:
        raise with_facts(BadHost(fault), driven.facts(fault))
    return CheckResult(facts=driven.facts(None), env=job_env(driven))


def job_env(driven: Driven) -> dict[str, str]:
    """What the job needs to find the same library as the check did."""
    if driven.removed or driven.basis == FIRST_PROCESS:
        return {VARIABLE: driven.answer.path}
    return {}


def _fault(driven: Driven, count: int) -> str | None:
    fault = driven.answer.fault(_ATTEMPT_S)
    if fault is None:
        found = driven.answer.count or 0
        return None if found >= count else f"{count} GPU(s) were offered, CUDA counts {found}"
    waited = f" after {driven.waited_s} s of waiting" if driven.waited_s else ""
    removed = f" (also without {', '.join(driven.removed)})" if driven.removed else ""
    note = f"; {driven.note}" if driven.note else ""
    return f"{fault}{waited}{removed}{note}"
