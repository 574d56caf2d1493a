"""Asking a provider's hooks about offers: what they exclude and what they add. An error ends planning."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from gipper.costs import CostModel
from gipper.errors import GipperError, PluginError
from gipper.planning_values import PlanningProvider
from gipper.values.estimates import CostAdjustment, Phases
from gipper.values.jobs import Job
from gipper.values.offers import Offer

T = TypeVar("T")

Adjusted = Mapping[str, Sequence[CostAdjustment]]


class PhasesOf(Mapping[str, Phases]):
    """Predicted seconds by offer id, worked out when a hook looks."""

    def __init__(self, model: CostModel, offers: Sequence[Offer]) -> None:
        self._model = model
        self._offers = offers
        self._by_id: dict[str, Offer] = {}

    def _all(self) -> dict[str, Offer]:
        if not self._by_id:
            self._by_id = {offer.id: offer for offer in self._offers}
        return self._by_id

    def __getitem__(self, offer_id: str) -> Phases:
        return self._model.phases(self._all()[offer_id])

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


def excluded(provider: PlanningProvider, offers: Sequence[Offer], job: Job) -> Mapping[str, str]:
    """Reasons by offer id. Raises PluginError."""
    given = _hook(provider, "exclude_offers", lambda: provider.exclude_offers(offers, job))
    return {
        offer_id: "; ".join(f"{who}: {why}" for who, why in reasons) for offer_id, reasons in given.items()
    }


def adjusted(provider: PlanningProvider, offers: Sequence[Offer], job: Job, model: CostModel) -> Adjusted:
    """Checked adjustments by offer id. Raises PluginError, also for a figure that isn't one."""
    given = _hook(
        provider, "adjust_costs", lambda: provider.adjust_costs(offers, job, PhasesOf(model, offers))
    )
    for offer_id, adjustments in given.items():
        for adjustment in adjustments:
            _check(provider, offer_id, adjustment)
    return given


def _check(provider: PlanningProvider, offer_id: str, adjustment: CostAdjustment) -> None:
    if math.isfinite(adjustment.usd) and 0 <= adjustment.factor < math.inf:
        return
    raise PluginError(
        f"{provider.name}: gipper_adjust_costs gave {adjustment} for offer {offer_id}",
        hint="usd must be finite, factor finite and not negative; nothing was rented",
    )


def _hook(
    provider: PlanningProvider, hook: str, call: Callable[[], Mapping[str, T] | None]
) -> Mapping[str, T]:
    try:
        return call() or {}
    except GipperError:
        raise
    except Exception as error:  # noqa: BLE001 - a plugin's code: its failure must end planning with blame
        text = f"{provider.name}: gipper_{hook} failed: {type(error).__name__}: {error}"
    raise PluginError(text, hint="fix or remove the plugin; nothing was rented")
