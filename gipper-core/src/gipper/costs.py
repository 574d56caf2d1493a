"""What a whole run on an offer takes and costs. Pure: no clock, no network, no provider's name.

    wall     = ready + setup + upload + fetch + compute + download                     seconds
    expected = wall/3600 * usd_h * factors * billing_factor + bandwidth + extra dollars
    risk     = p_fail * (failure_cost + (ready + 60 s)/3600 * (usd_h + hour_value))    dollars
    score    = expected + risk + hour_value * wall/3600                                dollars

`CostModel` is the only path to these figures: ranking takes its floats (`figures`), and what is shown is
built from the same floats (`gipper.estimate_wire.estimate`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from gipper.cost_client import Client
from gipper.cost_history import History, Sourced, p_fail
from gipper.gpus import model_name, same_model
from gipper.values.estimates import CostAdjustment, Objective, Phases
from gipper.values.jobs import Job, Placement
from gipper.values.offers import GpuModel, Offer
from gipper.values.plugins import ProviderInfo

MBIT_PER_GB: Final = 8000.0
LEAST_MBPS: Final = 0.001  # a link is never so slow that times stop being finite
DEFAULT_READY_S: Final = 180.0
DEFAULT_SETUP_S: Final = 120.0
DEFAULT_COMPUTE_S: Final = 1800.0
# Seconds that a bad host costs beyond its wait: noticing it, and ending it.
FAILURE_EXTRA_S: Final = 60.0
HOUR_VALUE_OF_TIME: Final = 50.0


class Where(NamedTuple):
    """What history says of a machine in its country: the same for many offers. Rates are 0 where it
    says nothing; `*_source` are None then."""

    ready_s: float
    ready_source: str
    p_fail: float
    down_mbps: float
    down_source: str | None
    up_mbps: float
    up_source: str | None


class Figures(NamedTuple):
    """All floats of one offer, in the order in which they are made. Rates are Mb/s, `*_host` the host's
    own side and the others what a transfer with the client gets."""

    usd_h: float
    ready_s: float
    upload_s: float
    fetch_s: float
    compute_s: float
    download_s: float
    wall_s: float
    rental_usd: float
    bandwidth_usd: float
    expected_usd: float
    p_fail: float
    risk_usd: float
    score: float
    down_mbps: float
    down_host_mbps: float
    up_mbps: float
    up_host_mbps: float


class CostModel:
    """The cost model for one job on one provider. Figures that offers share are worked out once."""

    def __init__(self, job: Job, info: ProviderInfo, client: Client, history: History) -> None:
        self.job, self.info, self.client, self.history = job, info, client, history
        place = job.placement
        self.objective: Objective = "latency" if place.profile == "interactive" else place.objective
        self.hour_value = hour_value(self.objective, client.hour_value_usd)
        self.setup = setup_s(job, info, history)
        self.upload_gb = upload_gb(place, client)
        self.fetch_gb = place.setup_download_gb or 0.0
        self.download_gb = place.download_gb or 0.0
        self.billing = history.billing_factor(info.name) or Sourced(1.0, "no bills yet")
        self.links = Links(place)
        self._into_gb = self.upload_gb.value + self.fetch_gb
        self._constants = (
            self.setup.value,
            self.upload_gb.value * MBIT_PER_GB,
            self.fetch_gb * MBIT_PER_GB,
            self.download_gb * MBIT_PER_GB,
            self.hour_value,
            self.billing.value,
            client.failure_cost_usd,
            self.links.up_cap,
            self.links.down_cap,
        )
        self._hosts = history.hosts(info.name)
        self._where: dict[tuple[str | None, str | None], Where] = {}
        self._compute: dict[tuple[str, float] | None, Sourced] = {}
        self._bandwidths: dict[tuple[Decimal | None, Decimal | None], float] = {}

    def where(self, offer: Offer) -> Where:
        """History of the offer's machine, or of its provider and country where the machine is new."""
        host = offer.host_id
        key = (host if host in self._hosts else None, offer.region)
        return self._where.get(key) or self._look_up(*key)

    def _look_up(self, host: str | None, region: str | None) -> Where:
        name, history, usual = self.info.name, self.history, self.info.ready_s
        ready = _first(
            history.ready_s(name, host),
            Sourced(usual, "the provider's usual time") if usual > 0 else None,
            Sourced(DEFAULT_READY_S, "a guess"),
        )
        down = _measured(history.link_mbps(name, host, region, "down"))
        up = _measured(history.link_mbps(name, host, region, "up"))
        found = Where(*ready, p_fail(history.failures(name, host)), *down, *up)
        self._where[host, region] = found
        return found

    def compute(self, gpu: GpuModel | None) -> Sourced:
        """Seconds of the command itself on `gpu`."""
        key = None if gpu is None else (gpu.name, gpu.memory_gb)
        if key not in self._compute:
            self._compute[key] = compute_s(self.job, self.client, self.history, gpu)
        return self._compute[key]

    def phases(self, offer: Offer) -> Phases:
        """Predicted seconds of each phase."""
        return phases_of(self, self.figures(offer))

    def figures(self, offer: Offer, adjustments: Sequence[CostAdjustment] = ()) -> Figures:
        """Everything about `offer`, by name."""
        return Figures(*self.floats(offer, adjustments))

    def floats(self, offer: Offer, adjustments: Sequence[CostAdjustment] = ()) -> tuple[float, ...]:
        """The fields of `Figures` without their names."""
        ready, _, p_bad, down_host, _, up_host, _ = self.where(offer)
        usd_h, compute = float(offer.usd_h), self.compute(offer.gpu).value
        setup, into_mb, fetch_mb, home_mb, hour, billing, failure, up_cap, down_cap = self._constants
        down_host = down_host or self.links.told(offer.down_mbps)
        up_host = up_host or self.links.told(offer.up_mbps)
        down = down_host if down_host < up_cap else up_cap
        up = up_host if up_host < down_cap else down_cap
        upload_s, fetch_s, download_s = into_mb / down, fetch_mb / down_host, home_mb / up
        wall = ready + setup + upload_s + fetch_s + compute + download_s
        rental = wall / 3600 * usd_h
        bandwidth = self._bandwidth(offer)
        factor, extra = _sums(adjustments) if adjustments else (1.0, 0.0)
        expected = rental * factor * billing + bandwidth + extra
        if expected < 0:
            expected = 0.0
        wait_h = (ready + FAILURE_EXTRA_S) / 3600
        risk = p_bad * (failure + wait_h * (usd_h + hour))
        score = expected + risk + hour * wall / 3600
        return (
            usd_h, ready, upload_s, fetch_s, compute, download_s, wall, rental, bandwidth,
            expected, p_bad, risk, score, down, down_host, up, up_host,
        )  # fmt: skip

    def totals(
        self, offers: Sequence[Offer], adjustments: Mapping[str, Sequence[CostAdjustment]]
    ) -> tuple[list[float], list[float]]:
        """(expected_usd, score) of tens of thousands of offers, a list each: all that ranking needs.

        The same operations in the same order as `floats`, so that they give the same floats to the last
        bit; without its tuples and calls, and with what offers share looked up in place.
        """
        setup, into_mb, fetch_mb, home_mb, hour, billing, failure, up_cap, down_cap = self._constants
        told, computes, bandwidths = self.links.told, self._compute.get, self._bandwidths.get
        places, hosts, share, given = self._where.get, self._hosts, self.links.share, adjustments.get
        totals, scores = list[float](), list[float]()
        for offer in offers:
            host, gpu, usd_h = offer.host_id, offer.gpu, float(offer.usd_h)
            where = places((host if host in hosts else None, offer.region)) or self.where(offer)
            ready, _, p_bad, down_host, _, up_host, _ = where
            compute = computes(None if gpu is None else (gpu.name, gpu.memory_gb)) or self.compute(gpu)
            if not down_host:
                rate = offer.down_mbps
                down_host = rate * share if rate and rate * share > LEAST_MBPS else told(rate)
            if not up_host:
                rate = offer.up_mbps
                up_host = rate * share if rate and rate * share > LEAST_MBPS else told(rate)
            down = down_host if down_host < up_cap else up_cap
            up = up_host if up_host < down_cap else down_cap
            wall = ready + setup + into_mb / down + fetch_mb / down_host + compute[0] + home_mb / up
            expected = wall / 3600 * usd_h
            bandwidth = bandwidths((offer.download_usd_per_gb, offer.upload_usd_per_gb))
            if bandwidth is None:
                bandwidth = self._bandwidth(offer)
            extra = given(offer.id)
            if extra:
                factor, more = _sums(extra)
                expected = expected * factor * billing + bandwidth + more
            else:
                expected = expected * billing + bandwidth
            if expected < 0:
                expected = 0.0
            risk = p_bad * (failure + (ready + FAILURE_EXTRA_S) / 3600 * (usd_h + hour))
            totals.append(expected)
            scores.append(expected + risk + hour * wall / 3600)
        return totals, scores

    def _bandwidth(self, offer: Offer) -> float:
        fees = (offer.download_usd_per_gb, offer.upload_usd_per_gb)
        found = self._bandwidths.get(fees)
        return self._priced(*fees) if found is None else found

    def _priced(self, down: Decimal | None, up: Decimal | None) -> float:
        # Few pairs of fees are asked by many offers, and looking one up takes a tenth of converting it.
        in_usd, out_usd = float(down or 0), float(up or 0)
        if not (0 <= in_usd < math.inf and 0 <= out_usd < math.inf):
            raise ValueError(f"fees of {down} and {up} dollars a GB")
        usd = self._into_gb * in_usd + self.download_gb * out_usd
        self._bandwidths[down, up] = usd
        return usd


class Links:
    """Rates of transfers, from what is measured, advertised or assumed, and the client's own caps."""

    def __init__(self, place: Placement) -> None:
        self.share = place.transfer_efficiency
        self.fallback = max(place.fallback_mbps * self.share, LEAST_MBPS)
        self.up_cap = self._cap(place.client_upload_mbps)
        self.down_cap = self._cap(place.client_download_mbps)

    def _cap(self, mbps: float | None) -> float:
        return math.inf if mbps is None else max(mbps * self.share, LEAST_MBPS)

    def told(self, advertised: float | None) -> float:
        """Mb/s of one direction of a host that was never measured."""
        if advertised is None or advertised <= 0:
            return self.fallback
        rate = advertised * self.share
        return rate if rate > LEAST_MBPS else LEAST_MBPS


def link_source(measured: str | None, advertised: float | None) -> str:
    """Where the rate of one direction of a host comes from."""
    if measured is not None:
        return measured
    return "advertised x efficiency" if advertised and advertised > 0 else "fallback x efficiency"


def hour_value(objective: Objective, settings_value: float) -> float:
    """Dollars that an hour of waiting is worth under `objective`."""
    return {"cost": 0.0, "time": HOUR_VALUE_OF_TIME}.get(objective, settings_value)


def upload_gb(place: Placement, client: Client) -> Sourced:
    """GB that go up: as the job says, else the counted inputs, else nothing."""
    counted = client.upload_bytes
    return _first(
        _given(place.upload_gb, "placement.upload_gb"),
        Sourced(counted / 1e9, "size of the inputs") if counted is not None else None,
        Sourced(0.0, "inputs not counted"),
    )


def setup_s(job: Job, info: ProviderInfo, history: History) -> Sourced:
    """Seconds between the upload and the command, from the best source that there is.

    What past runs of the workload took comes before the flat 120 s, which is learnt from nothing. It is 0
    where a job has no `run.setup` and the provider's machines get no bootstrap: nothing runs then, and
    120 s would outweigh a job of seconds, in its dollars and in its score.
    """
    own = job.run.setup is not None
    return _first(
        _given(job.placement.setup_s, "placement.setup_s"),
        history.setup_s(job.workload or job.name) if own else None,
        Sourced(0.0, "no run.setup") if not own and not info.bootstrap else None,
        Sourced(DEFAULT_SETUP_S, "usual set-up time"),
    )


def compute_s(job: Job, client: Client, history: History, gpu: GpuModel | None) -> Sourced:
    """Seconds of the command, from the best source that there is."""
    units, speed = job.units.count, client.throughput
    longest = min(DEFAULT_COMPUTE_S, client.max_hours * 3600)
    name = model_name(gpu.name) if gpu else "cpu"
    return _first(
        _by_gpu(job.placement, gpu),
        Sourced(units / speed, "units.count / throughput") if units and speed else None,
        _given(job.placement.compute_s, "placement.compute_s"),
        history.compute_s(job.workload or job.name, name),
        Sourced(longest, "a guess: 30 min or max_hours"),
    )


def phases_of(model: CostModel, figures: Figures) -> Phases:
    """The phases in `figures` as the value that hooks and receipts see."""
    return Phases(
        ready=figures.ready_s,
        setup=model.setup.value,
        upload=figures.upload_s,
        fetch=figures.fetch_s,
        compute=figures.compute_s,
        download=figures.download_s,
    )


def bandwidth_known(offer: Offer) -> bool:
    """True where the offer tells both traffic fees (0 is told, None is not)."""
    return offer.download_usd_per_gb is not None and offer.upload_usd_per_gb is not None


def _by_gpu(place: Placement, gpu: GpuModel | None) -> Sourced | None:
    if gpu is None:
        return None
    for name, seconds in place.compute_s_by_gpu.items():
        if same_model(name, gpu):
            return Sourced(seconds, f"placement.compute_s_by_gpu[{name}]")
    return None


def _measured(seen: Sourced | None) -> tuple[float, str | None]:
    return (0.0, None) if seen is None or seen.value < LEAST_MBPS else (seen.value, seen.source)


def _given(value: float | None, source: str) -> Sourced | None:
    return None if value is None else Sourced(value, source)


def _first(*candidates: Sourced | None) -> Sourced:
    return next(c for c in candidates if c is not None)


def _sums(adjustments: Sequence[CostAdjustment]) -> tuple[float, float]:
    factor, extra = 1.0, 0.0
    for adjustment in adjustments:
        factor *= adjustment.factor
        extra += adjustment.usd
    return factor, extra
