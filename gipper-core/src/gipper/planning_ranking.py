"""Judging and ranking the markets' answers. Works on floats: there may be tens of thousands of offers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from gipper.cost_client import Client
from gipper.cost_history import History
from gipper.costs import EXPECTED, SCORE, USD_H, CostModel
from gipper.filters import BAD_HOST, Filter, Wants, affordable, money_reason
from gipper.market import MarketAnswer
from gipper.planning_hooks import PhasesOf, excluded
from gipper.planning_values import PlanningProvider, RankedOffer, Ranking
from gipper.values.estimates import CostAdjustment
from gipper.values.jobs import Job
from gipper.values.offers import Offer

# Score, dollars an hour, provider, offer; then the offer's number, which ends all ties.
Key = tuple[float, float, str, str, int]
_Source = tuple[PlanningProvider, CostModel, Mapping[str, Sequence[CostAdjustment]]]


class Ranker:
    """Takes the markets' answers one by one; `left_out` counts what didn't fit by reason."""

    def __init__(self, job: Job, wants: Wants, client: Client, history: History) -> None:
        self.left_out: Counter[str] = Counter()
        self._job, self._client, self._history = job, client, history
        self._max_usd = float(wants.max_usd)
        self._filter = Filter(wants)
        # By (has no key, rank of the GPU): sorting each alone compares scores first, which is fast.
        self._buckets: dict[tuple[bool, int], list[Key]] = {}
        self._offers: list[Offer] = []
        self._sources: list[_Source] = []

    def ranking(self) -> Ranking:
        """Best first. Ties end at provider and id, so that the order of answers never matters."""
        buckets = (sorted(keys) for _, keys in sorted(self._buckets.items()))
        return Ranking(self._make, [key[-1] for keys in buckets for key in keys])

    def _make(self, number: int) -> RankedOffer:
        offer, (provider, model, adjustments) = self._offers[number], self._sources[number]
        return RankedOffer(provider, model, offer, adjustments.get(offer.id, ()))

    def add(self, provider: PlanningProvider, answer: MarketAnswer, credit: Decimal | None) -> None:
        """Judge one market's offers. Raises PluginError where one of its hooks fails."""
        offers, ranks = self._without_excluded(provider, *self._fitting(answer))
        if not offers:
            return
        model = CostModel(self._job, provider.info, self._client, self._history)
        given = provider.adjust_costs(offers, self._job, PhasesOf(model, offers))
        money = None if credit is None else float(credit)
        self._score((provider, model, given), zip(offers, ranks, strict=True), money)

    def _fitting(self, answer: MarketAnswer) -> tuple[list[Offer], list[int]]:
        judge, offers, ranks = self._filter.judge, list[Offer](), list[int]()
        for offer in answer.offers:
            reason, rank = judge(offer)
            if reason is None:
                offers.append(offer)
                ranks.append(rank)
            else:
                self.left_out[reason] += 1
        return offers, ranks

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

    def _score(self, source: _Source, fitting: Iterable[tuple[Offer, int]], credit: float | None) -> None:
        provider, model, given = source
        floats, name = model.floats, provider.name
        offers, number = self._offers, len(self._offers)
        most = affordable(self._max_usd, credit)
        buckets: defaultdict[int, list[Key]] = defaultdict(list)
        for offer, rank in fitting:
            figures = floats(offer, given.get(offer.id, ())) if given else floats(offer)
            if figures[EXPECTED] > most:
                self.left_out[money_reason(figures[EXPECTED], self._max_usd)] += 1
                continue
            buckets[rank].append((figures[SCORE], figures[USD_H], name, offer.id, number))
            offers.append(offer)
            number += 1
        self._sources.extend([source] * (number - len(self._sources)))
        unkeyed = not provider.has_key()
        for place, keys in buckets.items():
            self._buckets.setdefault((unkeyed, place), []).extend(keys)
