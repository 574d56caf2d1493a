"""`CrowdMarket`: a fake market of any number of hosts, whose true nature its offers don't tell.

    market = CrowdMarket(runtime, seed=7, hosts=40)
    offer = market.offers[0]
    rental = market.draw(offer.host_id, Load(compute_s=1800, upload_gb=2), key="job 1")

Everything follows from `seed`: two who rent the same host for the same `key` meet the same luck, so that
ways to choose can be compared. `truths` is what only an oracle may look at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from random import Random
from typing import Final

import attrs

from gipper.api import GpuModel, Offer
from gipper.testing.market import FakeMarket

# Model: memory, dollars an hour, seconds for what takes the first one second.
GPUS: Final[Mapping[str, tuple[float, float, float]]] = {
    "RTX 3090": (24, 0.22, 1.0),
    "RTX 4090": (24, 0.42, 0.60),
    "L40S": (48, 0.85, 0.50),
    "A100 PCIe": (80, 1.20, 0.42),
}
REGIONS: Final = ("US", "CA", "SE", "DE", "JP")
# Spread (of the logarithm) from rental to rental of one host, by phase.
SIGMA: Final[Mapping[str, float]] = {"ready": 0.35, "setup": 0.25, "link": 0.30, "compute": 0.12}
_MBIT_PER_GB: Final = 8000.0
_TOLD_SHARE: Final = 0.7  # hosts advertise what they have before overhead


@attrs.frozen(kw_only=True)
class Truth:
    """What a host really is. `model` is its GPU, times and rates are medians, `speed` multiplies seconds of
    computing."""

    model: str
    p_fail: float
    ready_s: float
    down_mbps: float
    up_mbps: float
    speed: float


@attrs.frozen(kw_only=True)
class Load:
    """What a job needs: `compute_s` on the first of `GPUS`, sizes in GB."""

    compute_s: float
    setup_s: float = 60.0
    upload_gb: float = 0.0
    fetch_gb: float = 0.0
    download_gb: float = 0.0


@attrs.frozen(kw_only=True)
class Rental:
    """How one rental goes: seconds by phase. A `broken` host is noticed when it should be ready."""

    broken: bool
    ready: float
    setup: float
    upload: float
    fetch: float
    compute: float
    download: float

    @property
    def wall_s(self) -> float:
        """Seconds until results are home, or until a broken host is given up."""
        if self.broken:
            return self.ready
        return self.ready + self.setup + self.upload + self.fetch + self.compute + self.download


@attrs.define
class CrowdMarket(FakeMarket):
    """A `FakeMarket` with `hosts` offers, one of each host, and the truth about each by its `host_id`.

    Cheap hosts break more often and have slower links, as markets of strangers do; what they advertise is
    roughly true.
    """

    seed: int = 0
    hosts: int = 40
    truths: dict[str, Truth] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        rng = Random(f"crowd {self.seed}")  # noqa: S311 - a simulation, no secret
        if not self.offers:
            self.offers = [self._host(rng, number) for number in range(self.hosts)]

    def _host(self, rng: Random, number: int) -> Offer:
        host, care = f"{self.name}-h{number}", rng.random()
        model, (memory, base, _) = rng.choice(list(GPUS.items()))
        link = 900 * (0.15 + care) * rng.lognormvariate(0, 0.7)
        truth = self.truths[host] = Truth(
            model=model,
            p_fail=min(0.9, 0.01 + 0.5 * (1 - care) ** 3),
            ready_s=150 * rng.lognormvariate(0, 0.5),
            down_mbps=link,
            up_mbps=link * rng.uniform(0.3, 1.0),
            speed=rng.lognormvariate(0, 0.08),
        )
        told = rng.lognormvariate(0, 0.2) / _TOLD_SHARE
        price = base * (0.75 + 0.4 * care) * rng.lognormvariate(0, 0.15)
        return self.offer(
            f"o{number}",
            usd_h=Decimal(f"{price:.4f}"),
            gpu=GpuModel(name=model, memory_gb=memory),
            host_id=host,
            region=rng.choice(REGIONS),
            down_mbps=truth.down_mbps * told,
            up_mbps=truth.up_mbps * told,
            download_usd_per_gb=Decimal("0.002"),
            upload_usd_per_gb=Decimal("0.004"),
        )

    def free(self, key: str, share: float = 0.6) -> list[Offer]:
        """The offers that are free when `key` asks: about `share` of them, never none."""
        rng = Random(f"free {self.seed} {key}")  # noqa: S311 - a simulation, no secret
        return [offer for offer in self.offers if rng.random() < share] or list(self.offers)

    def draw(self, host_id: str, load: Load, key: str) -> Rental:
        """How the rental of a host for `key` goes."""
        rng = Random(f"draw {self.seed} {host_id} {key}")  # noqa: S311 - a simulation, no secret
        luck = {phase: rng.lognormvariate(0, sigma) for phase, sigma in SIGMA.items()}
        return self._rental(host_id, load, luck, broken=rng.random() < self.truths[host_id].p_fail)

    def mean(self, host_id: str, load: Load) -> Rental:
        """The mean of each phase where the host isn't broken: what an oracle expects."""
        luck = {phase: math.exp(sigma * sigma / 2) for phase, sigma in SIGMA.items()}
        return self._rental(host_id, load, luck, broken=False)

    def _rental(self, host_id: str, load: Load, luck: Mapping[str, float], *, broken: bool) -> Rental:
        truth = self.truths[host_id]
        down, up = truth.down_mbps / luck["link"], truth.up_mbps / luck["link"]
        return Rental(
            broken=broken,
            ready=truth.ready_s * luck["ready"],
            setup=load.setup_s * luck["setup"],
            upload=load.upload_gb * _MBIT_PER_GB / down,
            fetch=load.fetch_gb * _MBIT_PER_GB / down,
            compute=compute_s(truth.model, load) * truth.speed * luck["compute"],
            download=load.download_gb * _MBIT_PER_GB / up,
        )


def compute_s(model: str, load: Load) -> float:
    """Seconds of computing on a model of `GPUS`: what somebody knows who tried it before."""
    return load.compute_s * GPUS[model][2]
