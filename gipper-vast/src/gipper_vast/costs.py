"""What rate x time gets wrong on this market. Pure.

By the market's billing pages (August 2026) the GPUs are charged from the moment the container runs, the disk
from creation. A rental of 47 s was once seen billed as 0.07 h; that is taken as the least.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gipper.api import CostAdjustment, Offer, Phases, wire
from gipper_vast.info import NAME

# SSH answers up to a minute after the container runs: that much of `ready` is charged.
RUNNING_BEFORE_SSH_S: Final = 60.0
LEAST_BILLED_S: Final = 252.0
LOADING: Final = "no GPU charge while the image loads"
SHORT: Final = "short rentals are billed as 252 s of GPU"


def adjustments(offers: Sequence[Offer], phases: Mapping[str, Phases]) -> dict[str, list[CostAdjustment]]:
    """Corrections by offer id, for this market's offers."""
    ours = (o for o in offers if o.provider == NAME and o.id in phases)
    found = {offer.id: _of(offer, phases[offer.id]) for offer in ours}
    return {key: value for key, value in found.items() if value}


def _of(offer: Offer, phases: Phases) -> list[CostAdjustment]:
    usd_h = float(wire.money(offer.raw.get("gpu_usd_h")) or 0)
    loading_s = max(0.0, phases.ready - RUNNING_BEFORE_SSH_S)
    missing_s = max(0.0, LEAST_BILLED_S - (phases.total - loading_s))
    both = ((LOADING, -usd_h * loading_s / 3600), (SHORT, usd_h * missing_s / 3600))
    return [CostAdjustment(label=label, usd=usd) for label, usd in both if usd]
