"""Judging and ranking the markets' answers. Works on floats: there may be tens of thousands of offers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import groupby
from operator import eq

from gipper.cost_client import Client
from gipper.cost_history import History
from gipper.costs import CostModel
from gipper.filters import BAD_HOST, Filter, Wants, affordable, money_reason
from gipper.market import MarketAnswer
from gipper.planning_hooks import PhasesOf, excluded
from gipper.planning_values import PlanningProvider, RankedOffer, Ranking
from gipper.values.estimates import CostAdjustment
from gipper.values.jobs import Job
from gipper.values.offers import Offer

_Source = tuple[PlanningProvider, CostModel, Mapping[str, Sequence[CostAdjustment]]]


class Ranker:
    """Takes the markets' answers one by one; `left_out` counts what didn't fit by reason."""

    def __init__(self, job: Job, wants: Wants, client: Client, history: History) -> None:
        self.left_out: Counter[str] = Counter()
        self._job, self._client, self._history = job, client, history
        self._max_usd = float(wants.max_usd)
        self._filter = Filter(wants)
        # Offers' numbers by (has no key, rank of the GPU): each is sorted alone, by plain floats.
        self._buckets: dict[tuple[bool, int], list[int]] = {}
        self._offers: list[Offer] = []
        self._scores: list[float] = []
        self._sources: list[_Source] = []

    def ranking(self) -> Ranking:
        """Best first. Ties end at provider and id, so that the order of answers never matters."""
        order = [
            number for _, numbers in sorted(self._buckets.items()) for number in self._sorted(numbers)
        ]
        return Ranking(self._make, order, self._offers.__getitem__)

    def _sorted(self, numbers: list[int]) -> list[int]:
        score = self._scores.__getitem__
        order = sorted(numbers, key=score)
        scores = list(map(score, order))
        if not any(map(eq, scores, scores[1:])):
            return order
        # Comparing whole keys takes many times as long: only those that share a score need it.
        return [n for _, tied in groupby(order, key=score) for n in sorted(tied, key=self._tie)]

    def _tie(self, number: int) -> tuple[Decimal, str, str]:
        offer = self._offers[number]
        return offer.usd_h, offer.provider, offer.id

    def _make(self, number: int) -> RankedOffer:
        offer, (provider, model, adjustments) = self._offers[number], self._sources[number]
        return RankedOffer(provider, model, offer, adjustments.get(offer.id, ()))

    def add(self, provider: PlanningProvider, answer: MarketAnswer, credit: Decimal | None) -> None:
        """Judge one market's offers. Raises PluginError where one of its hooks fails."""
        fitting = self._filter.split(answer.offers, self.left_out)
        offers, ranks = self._without_excluded(provider, *fitting)
        if not offers:
            return
        model = CostModel(self._job, provider.info, self._client, self._history)
        given = provider.adjust_costs(offers, self._job, PhasesOf(model, offers))
        money = None if credit is None else float(credit)
        self._score((provider, model, given), offers, ranks, money)

    def _without_excluded(
        self, provider: PlanningProvider, offers: list[Offer], ranks: list[int]
    ) -> tuple[list[Offer], list[int]]:
        out = dict(excluded(provider, offers, self._job)) if offers else {}
        out.update(self._bad_hosts(provider.name, offers))
        if not out:
            return offers, ranks
        self.left_out.update(out[offer.id] for offer in offers if offer.id in out)
        kept = [n for n, offer in enumerate(offers) if offer.id not in out]
        return [offers[n] for n in kept], [ranks[n] for n in kept]

    def _bad_hosts(self, provider: str, offers: Sequence[Offer]) -> dict[str, str]:
        known, bad_twice = self._history.hosts(provider), self._history.bad_twice
        if not known:
            return {}
        met = [o for o in offers if o.host_id is not None and o.host_id in known]
        return {o.id: BAD_HOST for o in met if bad_twice(provider, str(o.host_id))}

    def _score(
        self, source: _Source, offers: Sequence[Offer], ranks: Sequence[int], credit: float | None
    ) -> None:
        provider, model, given = source
        most, unkeyed = affordable(self._max_usd, credit), not provider.has_key()
        kept, scores, number = self._offers, self._scores, len(self._offers)
        buckets = {rank: self._buckets.setdefault((unkeyed, rank), []) for rank in set(ranks)}
        for offer, rank, expected, score in zip(offers, ranks, *model.totals(offers, given), strict=True):
            if expected > most:
                self.left_out[money_reason(expected, self._max_usd)] += 1
                continue
            buckets[rank].append(number)
            kept.append(offer)
            scores.append(score)
            number += 1
        self._sources.extend([source] * (number - len(self._sources)))
