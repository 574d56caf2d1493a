"""One job's own hooks: no machine with an old driver, the team's surcharge in each estimate, no small hosts.

This file runs on your computer, not on the rented machine; the preflight check asks the machine by commands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gipper.api import CheckResult, CostAdjustment, Job, Machine, Offer, Phases, Remote, Unsuitable, hookimpl

GIPPER_API = 1

OLDEST_DRIVER = (550,)
SURCHARGE_USD = 0.05
NO_DRIVER = "none"


@hookimpl
def gipper_preflight(remote: Remote, job: Job, machine: Machine) -> CheckResult:
    """Raises Unsuitable below the driver floor: the host isn't at fault, another one is tried."""
    driver = _driver(remote)
    if driver != NO_DRIVER and _version(driver) < OLDEST_DRIVER:
        raise Unsuitable(f"driver {driver} is older than {OLDEST_DRIVER[0]}")
    return CheckResult(facts={"driver": driver}, env={"TEAM_DRIVER": driver})


@hookimpl
def gipper_adjust_costs(
    offers: Sequence[Offer], job: Job, phases: Mapping[str, Phases]
) -> Mapping[str, Sequence[CostAdjustment]]:
    """What the team books for every run, whatever the market."""
    surcharge = CostAdjustment(label="internal surcharge", usd=SURCHARGE_USD)
    return {offer.id: (surcharge,) for offer in offers}


@hookimpl
def gipper_exclude_offers(offers: Sequence[Offer], job: Job) -> Mapping[str, str]:
    """Hosts that tell of less memory than the job's MIN_RAM_GB."""
    least = float(job.pod.env.get("MIN_RAM_GB", "0"))
    return {o.id: f"less than {least:g} GB of memory" for o in offers if (o.memory_gb or least) < least}


def _driver(remote: Remote) -> str:
    query = "nvidia-smi --query-gpu=driver_version --format=csv,noheader"
    answer = remote.ask(f"command -v nvidia-smi >/dev/null || exit 0\n{query}")
    return answer.text.partition("\n")[0].strip() or NO_DRIVER


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())
