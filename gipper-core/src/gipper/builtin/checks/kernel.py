"""A kernel that really runs, on each GPU: there are hosts on which all looks well until the first one."""

from __future__ import annotations

from typing import Any, Final

from gipper.api import BadHost, CheckResult, Job, Machine, Remote, Unsuitable, hookimpl
from gipper.builtin.checks.common import no_gpu, offered_gpus, with_facts
from gipper.builtin.checks.cuda_code import KERNEL
from gipper.builtin.checks.cuda_driving import drive

# The first context on a machine with eight big cards takes tens of seconds.
_ATTEMPT_S: Final = 90


@hookimpl
def gipper_preflight(remote: Remote, job: Job, machine: Machine) -> CheckResult:
    """Load a few lines of PTX through the driver, launch them on every GPU and compare the results.

    Raises BadHost with the driver's error number and the GPU's; Unsuitable for a GPU under the job's
    floor of compute capability, where nvidia-smi didn't tell it, and without python3.
    """
    count = offered_gpus(job, machine)
    if not count:
        return no_gpu(job)
    driven = drive(remote, job, KERNEL, limit_s=_ATTEMPT_S, wait_s=0)
    answer = driven.answer
    facts: dict[str, Any] = {"gpus": len(answer.capabilities), "capability": list(answer.capabilities)}
    if answer.no_python is not None:
        raise with_facts(Unsuitable(answer.no_python), facts)
    fault = answer.fault(_ATTEMPT_S)
    if fault is not None:
        raise with_facts(BadHost(f"a kernel does not run: {fault}"), {**facts, "error": answer.error})
    lacking = _too_old(answer.capabilities, job)
    if lacking is not None:
        raise with_facts(Unsuitable(lacking), facts)
    return CheckResult(facts=facts)


def _too_old(capabilities: tuple[str, ...], job: Job) -> str | None:
    floor = job.gpu.capability
    for number, text in enumerate(capabilities):
        major, _, minor = text.partition(".")
        if floor is not None and (int(major), int(minor)) < floor:
            return f"GPU {number} has compute capability {text}, the job needs {floor[0]}.{floor[1]}"
    return None
