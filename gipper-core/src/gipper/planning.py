"""From a job to ranked offers: ask the markets, leave out what doesn't fit, judge the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from gipper.cost_client import Client
from gipper.cost_history import History
from gipper.filters import Wants
from gipper.interactive import is_interactive, nearest_first
from gipper.market import Market, ask, notes_of
from gipper.planning_credit import Credits
from gipper.planning_markets import taking_part
from gipper.planning_ranking import Ranker
from gipper.planning_values import Plan, PlanningProvider, RankedOffer
from gipper.rtt import Prober
from gipper.runtime import Runtime
from gipper.values.jobs import Job
from gipper.values.offers import OfferQuery
from gipper.values.receipts import Rtt
from gipper.values.settings import Settings

__all__ = ["Plan", "PlanningProvider", "RankedOffer", "plan"]

DEFAULT_LIMIT_S: Final = 30.0


def plan(
    job: Job,
    providers: Sequence[PlanningProvider],
    *,
    settings: Settings,
    history: History,
    upload_bytes: int | None,
    runtime: Runtime,
    throughput: float | None = None,
    gpu_override: str | None = None,
    credit: Mapping[str, Decimal | None] | None = None,
    limit_s: float = DEFAULT_LIMIT_S,
    keyless: bool = False,
    options: Callable[[Market, Job], Any] | None = None,
    probe: Prober | None = None,
) -> Plan:
    """Ask every market that takes part, side by side, and rank what fits.

    `providers` are all that are installed; `credit` holds known balances by provider; `options` makes a
    provider's own job table for its query (default: the raw table); `probe` stands in for the network
    where an interactive job has round trips measured. A market that fails or is slower than `limit_s` is
    told in `notes`. Raises ConfigError for names of providers that aren't installed and PluginError where
    an exclude or adjust hook fails.
    """
    client = Client.of(settings, job, upload_bytes=upload_bytes, throughput=throughput)
    markets, notes = taking_part(job, settings, providers, keyless=keyless)
    wants = Wants.of(job, settings, gpu_override)
    asker = Asker(job, wants, client.max_hours, options)
    credits = Credits(markets if credit is None else (), runtime, limit_s)
    answers = ask(markets, asker.query, runtime=runtime, limit_s=limit_s)
    ranker = Ranker(job, wants, client, history)
    credit = credits.known() if credit is None else credit
    for market, answer in zip(markets, answers, strict=True):
        ranker.add(market, answer, credit.get(market.name))
    ranking, rtts = ranker.ranking(), tuple[Rtt, ...]()
    if is_interactive(job):
        ranking, rtts = nearest_first(ranking, job.placement.client_location, runtime, probe)
    return Plan(
        ranked=ranking,
        notes=(*notes, *_useless_throughput(job, throughput), *(n for a in answers for n in notes_of(a))),
        left_out=dict(ranker.left_out),
        seen=sum(len(a.offers) for a in answers),
        asked=tuple(m.name for m in markets),
        failed=tuple(a.provider for a in answers if a.error is not None),
        price_ceiling=wants.max_usd_h,
        rtts=rtts,
    )


class Asker:
    """Makes each market's query."""

    def __init__(
        self, job: Job, wants: Wants, max_hours: float, options: Callable[[Market, Job], Any] | None
    ) -> None:
        self._job, self._wants, self._max_hours, self._options = job, wants, max_hours, options

    def query(self, market: Market, deadline: float) -> OfferQuery:
        """What `market` is asked; `deadline` is monotonic."""
        wants, job = self._wants, self._job
        return OfferQuery(
            deadline=deadline,
            gpu_count=wants.count,
            min_mem_gb=wants.min_mem_gb,
            min_compute_capability=wants.capability,
            max_usd_h=wants.max_usd_h,
            regions=wants.regions,
            cloud=wants.cloud,
            cuda_versions=wants.cuda,
            spot=wants.spot,
            image=wants.image,
            disk_gb=wants.disk_gb,
            tcp=wants.tcp,
            udp=wants.udp,
            max_hours=self._max_hours,
            options=self._options(market, job) if self._options else job.provider.get(market.name),
        )


def _useless_throughput(job: Job, throughput: float | None) -> tuple[str, ...]:
    if throughput is None or job.units.count:
        return ()
    return ("--throughput has no effect: the job sets no units.count",)
