"""What rate x time gets wrong on this market. Pure.

The rate holds container disk. A network volume is billed apart, whether or not a pod runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

from gipper.api import CostAdjustment, Offer, Phases
from gipper_runpod.catalog import MONTH_H
from gipper_runpod.info import NAME

# Dollars for a GB and month up to 1 TB, and above it (the market's pricing page, August 2026).
VOLUME_USD: Final = (Decimal("0.07"), Decimal("0.05"))
_TB: Final = 1000
LABEL: Final = "rent of the network volume during the run"


def volume_usd_h(size_gb: float) -> Decimal:
    """What a volume of that size costs an hour."""
    low = Decimal(repr(min(size_gb, _TB))) * VOLUME_USD[0]
    high = Decimal(repr(max(0.0, size_gb - _TB))) * VOLUME_USD[1]
    return (low + high) / MONTH_H


def adjustments(
    offers: Sequence[Offer], phases: Mapping[str, Phases], volume_gb: float | None
) -> dict[str, list[CostAdjustment]]:
    """Corrections by offer id, for this market's offers."""
    if not volume_gb:
        return {}
    usd_h = float(volume_usd_h(volume_gb))
    ours = (o for o in offers if o.provider == NAME and o.id in phases)
    return {o.id: [CostAdjustment(label=LABEL, usd=usd_h * phases[o.id].total / 3600)] for o in ours}
