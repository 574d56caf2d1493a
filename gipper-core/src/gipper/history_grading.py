"""Forecasts against what came of them: how far off each phase was, and whether the interval held."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from gipper.history_rentals import GRADED, Rentals
from gipper.values.estimates import PHASES

# Phases under a second are noise: their ratios say nothing of longer ones.
LEAST_S: Final = 1.0


def prediction(estimate: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of an estimate (as on the wire) until its run ends: plain JSON values."""
    adjustments, basis = estimate["adjustments"], estimate["basis"]
    return {
        "phases": {name: float(estimate["phases_s"][name]) for name in PHASES},
        "wall": float(estimate["wall_s"]),
        "usd": float(estimate["usd"]),
        "wall_s": [float(x) for x in estimate["interval"]["wall_s"]],
        "usd_range": [float(x) for x in estimate["interval"]["usd"]],
        "factor": math.prod(float(a["factor"]) for a in adjustments),
        "extra": sum(float(a["usd"]) for a in adjustments),
        "guessed": [name for name in PHASES if str(basis.get(name, "")).startswith("a guess")],
    }


def grade(
    rentals: Rentals,
    row: int,
    forecast: Mapping[str, Any] | None,
    predicted: Mapping[str, Any] | None,
    actual: Mapping[str, Any],
) -> None:
    """Write the forecast of a run that succeeded, and how far off it was, into its row.

    `forecast` is what `prediction` kept, `predicted` the run's own words, which win. `actual` has
    seconds by phase, `wall_s` and `usd`; None is unknown.
    """
    told = {**_of_forecast(forecast), **(predicted or {})}
    seconds, n = actual_seconds(actual, told), rentals.numbers
    for name in GRADED:
        n[f"off_{name}"][row] = off(seconds.get(name), told.get("wall_s" if name == "wall" else name))
    n["wall"][row] = _number(actual.get("wall_s"))
    if actual.get("setup") is not None:
        n["setup"][row] = _number(seconds.get("setup"))
    n["actual_usd"][row], n["predicted_usd"][row] = _number(actual.get("usd")), _number(told.get("usd"))
    if forecast is not None:
        n["low_s"][row], n["high_s"][row] = forecast["wall_s"]
        n["low_usd"][row], n["high_usd"][row] = forecast["usd_range"]
        rentals.ids["guessed"][row] = sum(1 << PHASES.index(name) for name in forecast["guessed"])


def actual_seconds(actual: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, float]:
    """Seconds by phase and of the `wall`, those that are known.

    Setting up and the job's own downloads are one in most runs: the measured `setup`, else what the wall
    time leaves beside the measured phases, is shared between both as it was predicted.
    """
    known = {k: float(v) for k, v in actual.items() if v is not None and k in PHASES}
    wall = actual.get("wall_s")
    if wall is not None:
        known["wall"] = float(wall)
    whole, parts = _set_up(known), {name: float(told.get(name) or 0.0) for name in ("setup", "fetch")}
    if whole > 0 and sum(parts.values()) > 0:
        known.pop("setup", None)
        known |= {name: whole * part / sum(parts.values()) for name, part in parts.items() if part > 0}
    return known


def _set_up(known: Mapping[str, float]) -> float:
    if "setup" in known or not {"wall", "ready", "compute"} <= known.keys():
        return known.get("setup", 0.0)
    return known["wall"] - sum(known.get(name, 0.0) for name in ("ready", "upload", "compute", "download"))


def off(actual: float | None, predicted: float | None) -> float:
    """ln(actual / predicted); NaN where one is unknown, nothing, or both are under a second."""
    if not actual or not predicted or actual <= 0 or predicted <= 0 or max(actual, predicted) < LEAST_S:
        return math.nan
    return math.log(actual / predicted)


def _of_forecast(forecast: Mapping[str, Any] | None) -> dict[str, Any]:
    if forecast is None:
        return {}
    return {**forecast["phases"], "wall_s": forecast["wall"], "usd": forecast["usd"]}


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)
