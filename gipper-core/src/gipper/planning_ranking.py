"""Judging and ranking the markets' answers. Works on floats: there may be tens of thousands of offers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from decimal import Decimal

from gipper.cost_client import Client
from gipper.cost_history import History
from gipper.costs import EXPECTED, SCORE, USD_H, CostModel
from gipper.filters import BAD_HOST, MALFORMED, Filter, Wants, affordable, malformed, money_reason
from gipper.market import MarketAnswer
from gipper.planning_hooks import Adjusted, adjusted, excluded
from gipper.planning_values import PlanningProvider, RankedOffer, Ranking
from gipper.values.jobs import Job
from gipper.values.offers import Offer

# Score, dollars an hour, provider, offer; then the offer's number, which ends all ties.
Key = tuple[float, float, str, str, int]
_Source = tuple[PlanningProvider, CostModel, Adjusted]


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
        offers = self._fitting(answer)
        out = self._bad_hosts(provider.name, offers)
        out.update(excluded(provider, offers, self._job) if offers else {})
        if out:
            self.left_out.update(out[offer.id] for offer in offers if offer.id in out)
            offers = [offer for offer in offers if offer.id not in out]
        if not offers:
            return
        model = CostModel(self._job, provider.info, self._client, self._history)
        given = adjusted(provider, offers, self._job, model)
        self._score((provider, model, given), offers, None if credit is None else float(credit))

    def _fitting(self, answer: MarketAnswer) -> list[Offer]:
        judge, provider = self._filter.judge, answer.provider
        fitting: list[Offer] = []
        for offer in answer.offers:
            reason = MALFORMED if malformed(offer, provider) else judge(offer)
            if reason is None:
                fitting.append(offer)
            else:
                self.left_out[reason] += 1
        return fitting

    def _bad_hosts(self, provider: str, offers: Sequence[Offer]) -> dict[str, str]:
        known, bad_twice = self._history.hosts(provider), self._history.bad_twice
        if not known:
            return {}
        met = [o for o in offers if o.host_id is not None and o.host_id in known]
        return {o.id: BAD_HOST for o in met if bad_twice(provider, str(o.host_id))}

    def _score(self, source: _Source, fitting: Sequence[Offer], credit: float | None) -> None:
        provider, model, given = source
        floats, rank_of, name = model.floats, self._filter.rank, provider.name
        offers, number = self._offers, len(self._offers)
        most = affordable(self._max_usd, credit)
        buckets: defaultdict[int, list[Key]] = defaultdict(list)
        for offer in fitting:
            figures = floats(offer, given.get(offer.id, ())) if given else floats(offer)
            if figures[EXPECTED] > most:
                self.left_out[money_reason(figures[EXPECTED], self._max_usd)] += 1
                continue
            buckets[rank_of(offer.gpu)].append((figures[SCORE], figures[USD_H], name, offer.id, number))
            offers.append(offer)
            number += 1
        self._sources.extend([source] * (number - len(self._sources)))
        unkeyed = not provider.has_key()
        for rank, keys in buckets.items():
            self._buckets.setdefault((unkeyed, rank), []).extend(keys)
