"""What a run on an offer is expected to take and to cost, and where each figure came from.

Phases and scores are floats; dollars that are shown or recorded become `Decimal` at that border.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import attrs

Objective = Literal["auto", "cost", "time", "latency"]
PHASES: Final = ("ready", "setup", "upload", "fetch", "compute", "download")


@attrs.frozen(kw_only=True)
class CostAdjustment:
    """A labelled correction: `usd` is added, then `factor` multiplies rental; one of both is enough."""

    label: str
    usd: float = 0.0
    factor: float = 1.0


@attrs.frozen(kw_only=True)
class Phases:
    """Seconds of each phase of a run."""

    ready: float
    setup: float
    upload: float
    fetch: float
    compute: float
    download: float

    @property
    def total(self) -> float:
        """Seconds in all."""
        return self.ready + self.setup + self.upload + self.fetch + self.compute + self.download


@attrs.frozen(kw_only=True)
class Interval:
    """The 10th to 90th percentile of wall seconds and of dollars, and whether history is thin."""

    wall_s: tuple[float, float]
    usd: tuple[float, float]
    thin: bool


@attrs.frozen(kw_only=True)
class Estimate:
    """The whole run on one offer. `wire` is the public format; its key set never loses a key."""

    phases: Phases
    rental_usd: float
    bandwidth_usd: float
    bandwidth_known: bool
    adjustments: tuple[CostAdjustment, ...]
    billing_factor: float
    p_fail: float
    risk_usd: float
    objective: Objective
    hour_value_usd: float
    usd: float
    score: float
    interval: Interval
    basis: Mapping[str, str]
    flat: Mapping[str, Any]
    rtt_ms: float | None = None
    rtt_basis: str | None = None

    @property
    def wall_s(self) -> float:
        """Seconds from rent to the last output."""
        return self.phases.total

    def wire(self) -> dict[str, Any]:
        """The estimate as receipts and ``--json`` carry it."""
        own = {
            "wall_s": self.wall_s,
            "usd": self.usd,
            "score": self.score,
            "rtt_ms": self.rtt_ms,
            "rtt_basis": self.rtt_basis,
            "phases_s": attrs.asdict(self.phases),
            "rental_usd": self.rental_usd,
            "bandwidth_usd": self.bandwidth_usd,
            "bandwidth_known": self.bandwidth_known,
            "billing_factor": self.billing_factor,
            "p_fail": self.p_fail,
            "risk_usd": self.risk_usd,
            "objective": self.objective,
            "hour_value_usd": self.hour_value_usd,
            "basis": dict(self.basis),
            "adjustments": [attrs.asdict(a) for a in self.adjustments],
            "interval": attrs.asdict(self.interval),
        }
        return {**own, **self.flat}

    def __getitem__(self, key: str) -> Any:
        return self.wire()[key]
