"""How sure a sum of log-normal phases is: its 10th and 90th percentile by matching moments."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

# The standard normal distribution's 90th percentile.
Z90: Final = 1.2815515655446004
# Beyond this a spread says nothing any more, and exp() of its square stays a float.
_MAX_SIGMA: Final = 5.0
# Shorter phases don't show in any figure, and their squares would vanish.
_LEAST_S: Final = 1e-6


def percentiles(terms: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """(10th, 90th) percentile of a sum of independent log-normals, each (median, sigma).

    Fenton and Wilkinson's method: one log-normal with the sum's mean and variance. Terms under a microsecond
    drop out; an empty sum is (0, 0).
    """
    mean = variance = 0.0
    for median, raw_sigma in terms:
        if median < _LEAST_S:
            continue
        sigma = min(raw_sigma, _MAX_SIGMA)
        mean += median * math.exp(sigma * sigma / 2)
        variance += (median * median) * math.exp(sigma * sigma) * math.expm1(sigma * sigma)
    if mean == 0:
        return 0.0, 0.0
    spread = math.log1p(variance / (mean * mean))
    middle = math.log(mean) - spread / 2
    half = Z90 * math.sqrt(spread)
    return math.exp(middle - half), math.exp(middle + half)
