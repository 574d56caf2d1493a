"""Judging and ranking the markets' answers. Works on floats: there may be tens of thousands of offers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import compress, groupby
from math import isfinite
from operator import eq

from gipper.cost_client import Client
from gipper.cost_history import History
from gipper.costs import CostModel
from gipper.filters import BAD_HOST, NONSENSE, Filter, Wants, affordable, money_reason
from gipper.market import MarketAnswer
from gipper.planning_hooks import PhasesOf, excluded
from gipper.planning_values import PlanningProvider, RankedOffer, Ranking
from gipper.values.estimates import CostAdjustment
from gipper.values.jobs import Job
from gipper.values.offers import Offer

_Source = tuple[PlanningProvider, CostModel, Mapping[str, Sequence[CostAdjustment]]]
# What a figure of another type, or one that is no number, raises where it is worked with.
_GARBAGE = (TypeError, ValueError, ArithmeticError, AttributeError)


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
        groups = [self._sorted(numbers) for _, numbers in sorted(self._buckets.items())]
        return Ranking(self._make, groups, self._offers.__getitem__)

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
        model = CostModel(self._job, provider.info, self._client, self._history)
        money = None if credit is None else float(credit)
        try:
            self._judge(provider, model, answer.offers, money)
        except _GARBAGE:
            # Looking at every figure of every offer before would cost more than all the rest.
            sane = [offer for offer in answer.offers if self._makes_sense(model, offer)]
            self.left_out[NONSENSE] += len(answer.offers) - len(sane)
            self._judge(provider, model, sane, money)

    def _makes_sense(self, model: CostModel, offer: Offer) -> bool:
        try:
            self._filter.judge(offer)
            return all(map(isfinite, model.floats(offer)[:-4]))
        except _GARBAGE:
            return False

    def _judge(
        self, provider: PlanningProvider, model: CostModel, offers: Sequence[Offer], credit: float | None
    ) -> None:
        left_out = Counter[str]()
        fitting = self._filter.split(offers, left_out)
        offers, ranks = self._without_excluded(provider, *fitting, left_out)
        given = provider.adjust_costs(offers, self._job, PhasesOf(model, offers)) if offers else {}
        self._score((provider, model, given), offers, ranks, credit, left_out)
        self.left_out.update(left_out)

    def _without_excluded(
        self, provider: PlanningProvider, offers: list[Offer], ranks: list[int], left_out: Counter[str]
    ) -> tuple[list[Offer], list[int]]:
        out = dict(excluded(provider, offers, self._job)) if offers else {}
        out.update(self._bad_hosts(provider.name, offers))
        if not out:
            return offers, ranks
        left_out.update(out[offer.id] for offer in offers if offer.id in out)
        kept = [offer.id not in out for offer in offers]
        return list(compress(offers, kept)), list(compress(ranks, kept))

    def _bad_hosts(self, provider: str, offers: Sequence[Offer]) -> dict[str, str]:
        known, bad_twice = self._history.hosts(provider), self._history.bad_twice
        if not known:
            return {}
        met = [o for o in offers if o.host_id is not None and o.host_id in known]
        return {o.id: BAD_HOST for o in met if bad_twice(provider, str(o.host_id))}

    def _score(
        self, source: _Source, offers: Sequence[Offer], ranks: Sequence[int], credit: float | None,
        left_out: Counter[str],
    ) -> None:  # fmt: skip
        provider, model, given = source
        totals, scores = model.totals(offers, given)
        most = affordable(self._max_usd, credit)
        if max(totals, default=0.0) > most:
            fits = [total <= most for total in totals]
            left_out.update(money_reason(total, self._max_usd) for total in totals if total > most)
            offers, ranks = list(compress(offers, fits)), list(compress(ranks, fits))
            scores = list(compress(scores, fits))
        start, unkeyed = len(self._offers), not provider.has_key()
        for rank in set(ranks):
            numbers = self._buckets.setdefault((unkeyed, rank), [])
            numbers += [number for number, own in enumerate(ranks, start) if own == rank]
        self._offers += offers
        self._scores += scores
        self._sources += [source] * len(offers)
