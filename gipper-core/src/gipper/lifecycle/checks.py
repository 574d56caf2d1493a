"""Preflight: each check by itself, with its own time limit and its own receipt."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from gipper.errors import BadHost, GipperError, HostVerdict, PluginError
from gipper.lifecycle.proof import Rental
from gipper.lifecycle.services import Services
from gipper.remote import Remote
from gipper.values.jobs import Job
from gipper.values.machines import Machine
from gipper.values.plugins import CheckResult
from gipper.values.receipts import Preflight

Check = Callable[[Remote, Job, Machine], CheckResult | None]


def run_checks(
    services: Services, rental: Rental, remote: Remote, job: Job, machine: Machine
) -> dict[str, str]:
    """Run every check of this machine's provider; environment for the job, from all of them.

    Raises BadHost, Unsuitable, or PluginError for a check that breaks; the checks share `limits.checks`.
    """
    env: dict[str, str] = {}
    deadline = services.runtime.monotonic() + services.settings.limits.checks
    for named in rental.provider.preflight_checks():
        call = partial(named.call, remote, job, machine)
        result = _one(services, rental, named.name, call, deadline)
        env.update(result.env)
    return env


def _one(
    services: Services, rental: Rental, name: str, call: Callable[[], CheckResult | None], deadline: float
) -> CheckResult:
    begun = services.runtime.monotonic()
    task = services.runtime.spawn(f"preflight-{name}", call)
    verdict, facts = "passed", dict[str, Any]()
    error: GipperError | None = None
    result = CheckResult()
    if services.runtime.wait_any([task.done], deadline) is None:
        task.cancel()
        error = BadHost(f"the check {name} did not end within its time")
    else:
        try:
            result = task.result() or CheckResult()
        except GipperError as raised:
            error = raised
    if error is not None:
        verdict = type(error).__name__ if isinstance(error, HostVerdict) else "broken"
        facts = {**getattr(error, "facts", {}), "error": services.redact(error.message)}
    _write(services, rental, name, verdict, services.runtime.monotonic() - begun, {**result.facts, **facts})
    if error is None:
        return result
    if isinstance(error, (HostVerdict, PluginError)):
        raise error
    raise BadHost(f"the check {name} could not be made: {services.redact(error.message)}") from error


def _write(
    services: Services, rental: Rental, check: str, verdict: str, seconds: float, facts: dict[str, Any]
) -> None:
    services.ledger.append_or_spill(
        Preflight(
            provider=rental.provider.name, pod=rental.pod, check=check, verdict=verdict, seconds=seconds,
            facts=facts,
        ),
        run=rental.run, refs=rental.refs,
    )  # fmt: skip
