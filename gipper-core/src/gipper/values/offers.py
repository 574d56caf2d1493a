"""What markets offer: GPU models, offers, the query for them and the listing that answers it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Generic, Literal, TypeVar

import attrs

T = TypeVar("T")

Cloud = Literal["COMMUNITY", "SECURE"]
MachineKind = Literal["container", "vm", "process"]


@attrs.frozen(kw_only=True)
class GpuModel:
    """One kind of GPU. `memory_gb` is GB as sold (24 for 24,564 MiB), per GPU."""

    name: str
    memory_gb: float
    compute_capability: tuple[int, int] | None = None


@attrs.frozen(kw_only=True)
class Offer:
    """Something that can be rented now.

    `usd_h` is everything charged per hour while running at the job's disk size. Rates are the host's
    as advertised (Mb/s), fees are dollars per GB moved by the host; None = not told. `region` is an
    ISO 3166 alpha-2 code or None where unknown; `where` is what a person should read. `host_id` names
    the physical host where the market tells it, `raw` holds what the plugin needs at rent.
    """

    provider: str
    id: str
    usd_h: Decimal
    gpu: GpuModel | None = None
    gpu_count: int = 0
    kind: MachineKind = "container"
    cloud: Cloud | None = None
    region: str | None = None
    where: str = ""
    host_id: str | None = None
    disk_gb: float | None = None
    memory_gb: float | None = None
    cpus: float | None = None
    driver: str | None = None
    cuda: str | None = None
    down_mbps: float | None = None
    up_mbps: float | None = None
    download_usd_per_gb: Decimal | None = None
    upload_usd_per_gb: Decimal | None = None
    dlperf: float | None = None
    reliability: float | None = None
    udp: bool = False
    tcp: bool = True
    spot: bool = False
    address: str | None = None
    location: tuple[float, float] | None = None
    raw: Mapping[str, Any] = attrs.field(factory=dict, repr=False, eq=False)


@attrs.frozen(kw_only=True)
class OfferQuery:
    """What a job needs, for a market's own filters; core filters every offer again.

    `deadline` is on the runtime's monotonic clock. `options` is the provider's own job table.
    """

    deadline: float
    gpu_count: int = 1
    min_mem_gb: float = 0.0
    min_compute_capability: tuple[int, int] | None = None
    max_usd_h: Decimal | None = None
    regions: tuple[str, ...] = ()
    cloud: Cloud = "COMMUNITY"
    cuda_versions: tuple[str, ...] = ()
    spot: bool = False
    image: str | None = None
    disk_gb: float = 40.0
    tcp: bool = False
    udp: bool = False
    max_hours: float = 3.0
    options: Any = None


@attrs.frozen(kw_only=True)
class Listing(Generic[T]):
    """A complete answer; what was left out for a reason is told in `notes`, one line each."""

    items: tuple[T, ...]
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)
