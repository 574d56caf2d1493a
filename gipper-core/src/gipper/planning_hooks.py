"""What hooks are given and say about offers. The handle has checked it; its PluginError ends planning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gipper.costs import CostModel
from gipper.planning_values import PlanningProvider
from gipper.values.estimates import Phases
from gipper.values.jobs import Job
from gipper.values.offers import Offer


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
    """Reasons by offer id, each with the plugin that gave it. Raises PluginError."""
    given = provider.exclude_offers(offers, job)
    return {
        offer_id: "; ".join(f"{who}: {why}" for who, why in reasons) for offer_id, reasons in given.items()
    }
