"""Figures from a few numbers each. Pure."""

from __future__ import annotations

import operator
import statistics
from collections.abc import Sequence
from typing import Final

# What a provider's bills may do to an estimate: beyond this it was the runs that were odd.
FACTOR_RANGE: Final = (0.5, 2.0)


def median(values: Sequence[float]) -> float:
    """The middle one, or the mean of the two middle ones; `values` isn't empty."""
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2


def billed_share(seconds: Sequence[float], shares: Sequence[float]) -> float:
    """Mean of billed / computed (`shares`), each rental weighing its seconds; there are some.

    Where all rentals cost the same an hour this is the sum of the bills over the sum of what was computed.
    """
    share: float = sum(map(operator.mul, seconds, shares)) / sum(seconds)
    return min(max(share, FACTOR_RANGE[0]), FACTOR_RANGE[1])


def mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation of a sample of two or more."""
    return statistics.fmean(values), statistics.stdev(values)
