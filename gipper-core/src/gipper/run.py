"""The public Python API of runs: `plan`, `run`, and the verdicts that a preflight may raise.

from gipper import run
from gipper.job import load

job = load("job.toml")
for offer in run.plan(job).ranked: print(offer["usd_h"], offer.estimate["usd"])
result = run.run(job)
print(result.run, result.outcome)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gipper.errors import BadHost, Unsuitable
from gipper.values.jobs import Job

if TYPE_CHECKING:
    from gipper.core import Gipper
    from gipper.launch import Launch
    from gipper.lifecycle.proof import Rental
    from gipper.lifecycle.results import RunResult
    from gipper.lifecycle.services import Reporter, Services
    from gipper.planning_values import Plan
    from gipper.remote import Remote
    from gipper.values.machines import Machine

__all__ = ["BadHost", "Unsuitable", "plan", "preflight", "run"]


def preflight(
    services: Services, rental: Rental, remote: Remote, job: Job, machine: Machine
) -> Mapping[str, str]:
    """The default preflight: every installed check; environment for the job.

    Looked up at call time, so a replaced `run.preflight` is honoured. Raises BadHost, Unsuitable.
    """
    from gipper.lifecycle.checks import run_checks

    return run_checks(services, rental, remote, job, machine)


def plan(
    job: Job, *, provider: str | None = None, throughput: float | None = None,
    gpu_override: str | None = None, gipper: Gipper | None = None,
) -> Plan:  # fmt: skip
    """Ask the markets: ranked offers (each with `.estimate`), price ceiling, notes. Rents nothing.

    Raises ConfigError, NoOffer, ProviderError, PluginError.
    """
    launch = _launch(job, provider, throughput, gpu_override, gipper)
    return launch.plan(launch.survey().bytes)


def run(
    job: Job, *, provider: str | None = None, gpu_override: str | None = None,
    throughput: float | None = None, dry_run: bool = False, log_dir: Path | None = None,
    preflight: Callable[..., Mapping[str, str]] | None = None, reporter: Reporter | None = None,
    gipper: Gipper | None = None,
) -> RunResult | Plan:  # fmt: skip
    """Run `job`: its result (run id, outcome, proofs), or its plan where `dry_run`.

    Raises ConfigError and other GipperErrors before anything is rented; afterwards the result says what
    happened, and `exit_code` 5 that a machine may still cost money.
    """
    from gipper.lifecycle.runfolder import RunFolder
    from gipper.lifecycle.services import Interrupts

    launch = _launch(job, provider, throughput, gpu_override, gipper)
    if reporter is not None:
        launch.reporter = reporter
    if dry_run:
        return launch.plan(launch.survey().bytes)
    launch.preflight = preflight or globals()["preflight"]
    result = launch.run(Interrupts(launch.gipper.runtime))
    if log_dir is not None:
        from gipper.launch import log_copy

        log_copy(RunFolder(launch.gipper.run_folder(result.run)), log_dir)
    return result


def _launch(
    job: Job, provider: str | None, throughput: float | None, gpu: str | None, gipper: Gipper | None
) -> Launch:
    from gipper.core import Gipper
    from gipper.launch import Choice, Launch

    owner = gipper or Gipper.open()
    choice = Choice(provider=provider, gpu=gpu, throughput=throughput)
    return Launch(gipper=owner, loaded=owner.checked(job), choice=choice)
