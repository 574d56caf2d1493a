"""What this side of a run brings to the cost model."""

from __future__ import annotations

import attrs

from gipper.errors import ConfigError
from gipper.values.jobs import Job
from gipper.values.settings import Settings


@attrs.frozen(kw_only=True)
class Client:
    """What this side knows beside the job: settings' dollars, and what was measured or typed.

    `upload_bytes` are the inputs after exclusion, None where they weren't counted. `throughput` is
    units a second. Raises ConfigError for a throughput that isn't above zero.
    """

    hour_value_usd: float = 3.0
    failure_cost_usd: float = 1.0
    max_hours: float = 3.0
    upload_bytes: int | None = None
    throughput: float | None = attrs.field(default=None)

    @throughput.validator
    def _above_zero(self, _attribute: object, value: float | None) -> None:
        if value is not None and not 0 < value < float("inf"):
            raise ConfigError(
                f"a throughput of {value:g} units a second can't be",
                hint="give --throughput a number above 0",
            )

    @classmethod
    def of(
        cls, settings: Settings, job: Job, *, upload_bytes: int | None = None, throughput: float | None = None
    ) -> Client:
        """The client of these settings; the job's own `budget.max_hours` wins."""
        hours = job.budget.max_hours
        return cls(
            hour_value_usd=settings.hour_value_usd,
            failure_cost_usd=settings.failure_cost_usd,
            max_hours=settings.default_max_hours if hours is None else hours,
            upload_bytes=upload_bytes,
            throughput=throughput,
        )
