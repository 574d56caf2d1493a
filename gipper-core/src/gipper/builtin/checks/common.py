"""What several checks share: which of them apply, and verdicts that carry facts for the receipt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from gipper.api import BadHost, CheckResult, Job, Machine, Unsuitable

V = TypeVar("V", BadHost, Unsuitable)


def offered_gpus(job: Job, machine: Machine) -> int:
    """How many GPUs there should be; 0 where the job asks for none or none was offered."""
    if job.gpu.count == 0:
        return 0
    return job.gpu.count if machine.gpu_count is None else machine.gpu_count


def skipped(reason: str) -> CheckResult:
    """A check that doesn't apply."""
    return CheckResult(facts={"skipped": reason})


def no_gpu(job: Job) -> CheckResult:
    """A GPU check on a machine that was rented without one."""
    return skipped("the job asks for no GPU" if job.gpu.count == 0 else "no GPU was offered")


def with_facts(verdict: V, facts: Mapping[str, Any]) -> V:
    """`verdict` with `facts` for its receipt, as its attribute of that name."""
    setattr(verdict, "facts", dict(facts))  # noqa: B010 - the class does not declare it
    return verdict
