"""Which offers a job can't use, each with the short reason under which it is counted. Pure.

Core filters every offer itself, whatever a market was asked: a plugin may answer with too much. What an
offer doesn't tell is held against it where the user set a filter on it (region, cloud, CUDA), and not
where a later check on the machine finds out (compute capability, free disk).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Final

import attrs

from gipper.gpus import capability_of, rank_among
from gipper.values.jobs import Job
from gipper.values.offers import Cloud, GpuModel, Offer
from gipper.values.settings import Settings

Check = Callable[[Offer], bool]
_GpuKey = tuple[str, float, tuple[int, int] | None]

# A known balance must hold this many times the expected cost.
CREDIT_FACTOR: Final = 1.2
_ROUNDING: Final = 1e-9

MEMORY, GPU, COUNT, REGION, PORTS = "memory", "gpu", "count", "region", "ports"
PRICE, CAPABILITY, CUDA, CLOUD, IMAGE = "price", "capability", "cuda", "cloud", "image"
DISK, SPOT, EXPECTED, CREDIT = "disk", "spot", "expected", "credit"
BAD_HOST, NONSENSE = "bad host", "nonsense"

# What a reason means, for the line that tells how many offers it took.
WORDS: Final = {
    MEMORY: "less GPU memory than gpu.min_mem_gb",
    GPU: "another GPU than gpu.only allows",
    COUNT: "another number of GPUs than gpu.count",
    REGION: "outside gpu.regions, or the place isn't told",
    PORTS: "can't publish a port of pod.ports, TCP or UDP",
    PRICE: "dearer than gpu.max_usd_per_h",
    CAPABILITY: "below gpu.min_compute_capability",
    CUDA: "older driver than gpu.cuda_versions needs, or not told",
    CLOUD: "not known to be in the secure cloud",
    IMAGE: "a virtual machine can't run pod.image",
    DISK: "less disk than pod.disk_gb",
    SPOT: "interruptible, and gpu.interruptible isn't set",
    EXPECTED: "expected cost above budget.max_usd",
    CREDIT: "the account's credit is under 1.2 times the expected cost",
    BAD_HOST: "the machine was bad the last two times",
    NONSENSE: "the market told figures that make no sense",
}


@attrs.frozen(kw_only=True)
class Wants:
    """What of a job and its settings decides about offers, with all defaults filled in."""

    count: int
    min_mem_gb: float
    gpus: tuple[str, ...]
    only: bool
    capability: tuple[int, int] | None
    max_usd_h: Decimal | None
    regions: tuple[str, ...]
    cloud: Cloud
    cuda: tuple[str, ...]
    spot: bool
    image: str | None
    disk_gb: float
    tcp: bool
    udp: bool
    max_usd: Decimal

    @classmethod
    def of(cls, job: Job, settings: Settings, gpu_override: str | None = None) -> Wants:
        """The job's own word first, then the settings'; `gpu_override` is `--gpu`."""
        gpu, pod, cap = job.gpu, job.pod, job.budget.max_usd
        kinds = protocols(pod.ports)
        return cls(
            count=gpu.count,
            min_mem_gb=gpu.min_mem_gb,
            gpus=(gpu_override,) if gpu_override else gpu.prefer,
            only=gpu.only or gpu_override is not None,
            capability=gpu.capability,
            max_usd_h=gpu.max_usd_per_h,
            regions=tuple(r.upper() for r in _either(gpu.regions, settings.regions)),
            cloud=gpu.cloud or settings.cloud,
            cuda=_either(gpu.cuda_versions, settings.cuda_versions),
            spot=gpu.interruptible,
            image=pod.image,
            disk_gb=settings.container_disk_gb if pod.disk_gb is None else pod.disk_gb,
            tcp="tcp" in kinds,
            udp="udp" in kinds,
            max_usd=settings.default_job_cap_usd if cap is None else cap,
        )


class Filter:
    """The checks of one job. Answers that depend on the GPU alone are kept per GPU."""

    def __init__(self, wants: Wants) -> None:
        self.wants = wants
        self._checks = checks(wants)
        self._gpus: dict[_GpuKey | None, tuple[str | None, int]] = {}

    def judge(self, offer: Offer) -> tuple[str | None, int]:
        """(why this one offer must be left out or None, rank of its GPU)."""
        left_out = Counter[str]()
        _, ranks = self.split((offer,), left_out)
        return next(iter(left_out), None), ranks[0] if ranks else 0

    def split(self, offers: Sequence[Offer], left_out: Counter[str]) -> tuple[list[Offer], list[int]]:
        """(offers that fit, rank of each one's GPU); the others are counted in `left_out` by reason.

        Rank 0 is the GPU that the job prefers most; those that it doesn't name share the last rank.
        """
        fitting, ranks = list[Offer](), list[int]()
        count, of, tests = self.wants.count, self._of, self._checks
        for offer in offers:
            reason, rank = of(offer.gpu) if offer.gpu_count == count else (COUNT, 0)
            if reason is None:
                for why, ruled_out in tests:
                    if ruled_out(offer):
                        reason = why
                        break
            if reason is None:
                fitting.append(offer)
                ranks.append(rank)
            else:
                left_out[reason] += 1
        return fitting, ranks

    def _of(self, gpu: GpuModel | None) -> tuple[str | None, int]:
        key = None if gpu is None else (gpu.name, gpu.memory_gb, gpu.compute_capability)
        found = self._gpus.get(key)
        if found is None:
            found = self._gpus[key] = self._judge_gpu(gpu)
        return found

    def _judge_gpu(self, gpu: GpuModel | None) -> tuple[str | None, int]:
        wants = self.wants
        if wants.count == 0:
            return None, 0
        if gpu is None or gpu.memory_gb < wants.min_mem_gb:
            return MEMORY, 0
        rank = rank_among(wants.gpus, gpu)
        if rank is None and wants.only and wants.gpus:
            return GPU, 0
        have = capability_of(gpu)
        if wants.capability and have and have < wants.capability:
            return CAPABILITY, 0
        return None, len(wants.gpus) if rank is None else rank


def checks(wants: Wants) -> Sequence[tuple[str, Check]]:
    """The checks that this job needs, as (reason, true where the offer is ruled out)."""
    found: list[tuple[str, Check]] = [(DISK, lambda o: o.disk_gb is not None and o.disk_gb < wants.disk_gb)]
    if not wants.spot:
        found.append((SPOT, lambda o: o.spot))
    if wants.max_usd_h is not None:
        ceiling = wants.max_usd_h
        found.append((PRICE, lambda o: o.usd_h > ceiling))
    return [*found, *_place_checks(wants), *_host_checks(wants)]


def _place_checks(wants: Wants) -> list[tuple[str, Check]]:
    found: list[tuple[str, Check]] = []
    if wants.regions:
        allowed = frozenset(wants.regions)
        found.append((REGION, lambda o: o.region is None or o.region.upper() not in allowed))
    if wants.cloud == "SECURE":
        found.append((CLOUD, lambda o: o.cloud != "SECURE"))
    return found


def _host_checks(wants: Wants) -> list[tuple[str, Check]]:
    found: list[tuple[str, Check]] = []
    if wants.udp or wants.tcp:
        found.append((PORTS, lambda o: (wants.udp and not o.udp) or (wants.tcp and not o.tcp)))
    if wants.image is not None:
        found.append((IMAGE, lambda o: o.kind == "vm"))
    if wants.cuda:
        floor = min(version(v) for v in wants.cuda)
        found.append((CUDA, lambda o: o.cuda is None or version(o.cuda) < floor))
    return found


def affordable(max_usd: float, credit: float | None) -> float:
    """The highest expected cost that may still be rented. An unknown credit limits nothing."""
    return (max_usd if credit is None else min(max_usd, credit / CREDIT_FACTOR)) + _ROUNDING


def money_reason(expected_usd: float, max_usd: float) -> str:
    """Why an offer that isn't affordable is left out."""
    return EXPECTED if expected_usd > max_usd + _ROUNDING else CREDIT


def protocols(ports: Sequence[str]) -> frozenset[str]:
    """Which of tcp and udp `pod.ports` asks for; a port without a protocol is tcp."""
    return frozenset("udp" if p.casefold().endswith("/udp") else "tcp" for p in ports)


def version(text: str) -> tuple[int, ...]:
    """A CUDA version as numbers; what isn't one sorts before every version.

    Newer drivers run what older CUDA built, so the lowest version listed is the floor.
    """
    parts = text.strip().split(".")
    return tuple(int(p) for p in parts) if all(p.isdecimal() for p in parts) else ()


def _either(own: tuple[str, ...] | None, default: tuple[str, ...]) -> tuple[str, ...]:
    return default if own is None else own
