"""How long each phase of a run may take, and when its machine should be over. Pure.

A phase that is early does not lengthen the next, and nothing renews the end.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

import attrs

from gipper.money import cost, usd
from gipper.naming import MachineName, round_up_to_minute
from gipper.values.estimates import Estimate
from gipper.values.jobs import Job
from gipper.values.plugins import ProviderInfo
from gipper.values.settings import Limits


@attrs.frozen(kw_only=True)
class PhaseLimits:
    """Seconds. `prepare` (authorise to job start) is checks + setup + upload; `command` is `run.command`."""

    ready: float
    checks: float
    setup: float
    upload: float
    command: float
    collect: float

    @property
    def prepare(self) -> float:
        """From authorise to job start."""
        return self.checks + self.setup + self.upload

    @property
    def total(self) -> float:
        """From intent to the machine's end."""
        return self.ready + self.prepare + self.command + self.collect


@attrs.frozen(kw_only=True)
class Ends:
    """The moments after which nothing may be left: the reaper's, the watchdog's, the market's timer's."""

    end: datetime
    watchdog_s: float
    timer_at: datetime


def phase_limits(limits: Limits, info: ProviderInfo, job: Job, estimate: Estimate) -> PhaseLimits:
    """The limits of one machine of `job`. `budget.max_hours` must be resolved."""
    assert job.budget.max_hours is not None
    return PhaseLimits(
        ready=max(limits.ready_min, 3 * info.ready_s),
        checks=limits.checks,
        setup=max(limits.setup_min, 3 * (job.placement.setup_s or 0.0)),
        upload=max(limits.upload_min, 2 * estimate.phases.upload),
        command=job.budget.max_hours * 3600,
        collect=max(limits.collect_min, 2 * estimate.phases.download),
    )


def ends(limits: Limits, phases: PhaseLimits, intent: datetime) -> Ends:
    """When a machine intended at `intent` is over. The end is a whole minute: its name must say it."""
    end = round_up_to_minute(intent + timedelta(seconds=phases.total))
    watchdog = end + timedelta(seconds=limits.watchdog_grace)
    return Ends(
        end=end,
        watchdog_s=(watchdog - intent).total_seconds(),
        timer_at=end + timedelta(seconds=limits.provider_grace),
    )


def machine_name(inst: str, run: str, attempt: int, end: datetime) -> str:
    """The name of the `attempt`th machine of `run`."""
    return str(MachineName(inst=inst, run=run, attempt=attempt, end=end))


def reserve(estimate: Estimate, usd_h: Decimal, phases: PhaseLimits) -> Decimal:
    """Dollars to hold back for one machine: expected cost, the collect limit and 10 minutes more."""
    return usd(Decimal(repr(estimate.usd))) + cost(usd_h, phases.collect + 600)


def command_limit(
    job: Job, estimate: Estimate, usd_h: Decimal, phases: PhaseLimits, accrued_s: float
) -> tuple[float, bool]:
    """(seconds that the command may take, whether money is the tighter bound).

    Money buys `max_usd` / `usd_h` hours, less what has accrued, less collecting (twice the estimate,
    a minute at least) and a minute of teardown.
    """
    if usd_h <= 0 or job.budget.max_usd is None:
        return phases.command, False
    bought = float(job.budget.max_usd / usd_h) * 3600
    left = bought - accrued_s - max(60.0, 2 * estimate.phases.download) - 60.0
    return (phases.command, False) if left >= phases.command else (max(1.0, left), True)
