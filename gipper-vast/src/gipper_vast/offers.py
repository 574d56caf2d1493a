"""One offer of the market as gipper's `Offer`, or why it is left out. Pure.

Every condition that the market was asked for is looked at again: its filters are known not to be applied
always. Rates are Mb/s, fees dollars per GB, memory the market's MB.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import attrs

from gipper.api import GpuModel, Offer, OfferQuery, country_code, gpu_model, memory_as_sold, usd, wire
from gipper_vast.info import NAME
from gipper_vast.tables import Hosts, VastJob

# The market's least disk, by its API pages of August 2026.
LEAST_DISK_GB: Final = 8.0
# A month of the market's storage prices has 30 days.
_MONTH_H: Final = 720
# Start, checks, set-up and collecting come on top of the command's own hours.
_AROUND_S: Final = 2 * 3600.0
# One direct port is SSH's own.
_PORTS_LEAST: Final = 2
_FAR_SHARE: Final = Decimal("1.02")
_FAR_USD_H: Final = Decimal("0.01")


@attrs.frozen(kw_only=True)
class Wanted:
    """What a search is for."""

    query: OfferQuery
    hosts: Hosts
    job: VastJob
    spot: bool = False

    @property
    def disk_gb(self) -> float:
        """The disk to price in and to rent."""
        return disk_to_rent(self.query.disk_gb)


def disk_to_rent(disk_gb: float) -> float:
    """The disk that the market rents for a wish of `disk_gb`."""
    return max(LEAST_DISK_GB, disk_gb)


def offer_of(row: Mapping[str, Any], wanted: Wanted) -> Offer | str:
    """The offer, or the reason under which it is counted as left out."""
    ask = wire.ident(row.get("ask_contract_id")) or wire.ident(row.get("id"))
    if ask is None:
        return "no id"
    why = _unusable(row) or _unwanted(row, wanted)
    if why is not None:
        return why
    price = _price(row, wanted)
    return price if isinstance(price, str) else _offer(row, ask, price, wanted)


@attrs.frozen(kw_only=True)
class Price:
    """Dollars an hour: in all, for the GPUs alone, and the bid (None on demand)."""

    usd_h: Decimal
    gpu_usd_h: Decimal
    bid: Decimal | None = None


def _unusable(row: Mapping[str, Any]) -> str | None:
    if wire.flag(row.get("rentable")) is False or wire.flag(row.get("rented")) is True:
        return "taken"
    if wire.flag(row.get("external")) is True:
        return "another market's"
    if (wire.text(row.get("resource_type")) or "gpu") != "gpu":
        return "not a container with GPUs"
    if (wire.text(row.get("gpu_arch")) or "nvidia").casefold() != "nvidia":
        return "not NVIDIA's GPU"
    if wire.flag(row.get("gpu_display_active")) is True:
        return "somebody's screen runs on the GPU"
    return None


def _unwanted(row: Mapping[str, Any], wanted: Wanted) -> str | None:
    hosts = wanted.hosts
    verified = wire.text(row.get("verification"))
    if hosts.verified and verified is not None and verified.casefold() != "verified":
        return "host not verified"
    if hosts.datacenter and wire.whole(row.get("hosting_type")) != 1:
        return "not a datacentre's"
    told = _reliability(row)
    if hosts.floor_set and told is None:
        return "reliability not told"
    if told is not None and told < hosts.floor:
        return f"reliability under {hosts.floor:g}"
    last_s = wire.number(row.get("duration"))
    if last_s is not None and last_s < wanted.query.max_hours * 3600 + _AROUND_S:
        return "its contract ends too early"
    return None


def _reliability(row: Mapping[str, Any]) -> float | None:
    told = wire.number(row.get("reliability2"))
    found = told if told is not None else wire.number(row.get("reliability"))
    return found if found is not None and 0 <= found <= 1 else None


def _price(row: Mapping[str, Any], wanted: Wanted) -> Price | str:
    disk = _disk_usd_h(row, wanted.disk_gb)
    if wanted.spot:
        return _bid_price(row, disk, wanted.job.bid_usd_h)
    total = wire.money(row.get("dph_total"))
    if not total:
        return "price not told"
    base = wire.money(row.get("dph_base"))
    gpu = base if base is not None else max(Decimal(0), total - (disk or 0))
    summed = gpu + (disk or 0)
    # An answer for another disk than the one asked for: what will be charged counts.
    far = summed > total * _FAR_SHARE and summed - total > _FAR_USD_H
    return Price(usd_h=usd(summed) if far else total, gpu_usd_h=usd(min(gpu, max(total, summed))))


def _bid_price(row: Mapping[str, Any], disk: Decimal | None, bid: Decimal | None) -> Price | str:
    least = wire.money(row.get("min_bid"))
    if not least:
        return "least bid not told"
    if bid is not None and bid < least:
        return "least bid above bid_usd_h"
    paid = least if bid is None else usd(bid)
    if disk is None:
        told = wire.money(row.get("dph_total")) or least
        disk = max(Decimal(0), told - least)
    return Price(usd_h=usd(paid + disk), gpu_usd_h=paid, bid=paid)


def _disk_usd_h(row: Mapping[str, Any], disk_gb: float) -> Decimal | None:
    month = wire.money(row.get("storage_cost"))
    return None if month is None else usd(month * Decimal(repr(disk_gb)) / _MONTH_H)


def _offer(row: Mapping[str, Any], ask: str, price: Price, wanted: Wanted) -> Offer:
    direct = (wire.whole(row.get("direct_port_count")) or 0) >= _PORTS_LEAST
    place = wire.text(row.get("geolocation"))
    return Offer(
        provider=NAME,
        id=f"{ask}-bid" if price.bid is not None else ask,
        usd_h=price.usd_h,
        gpu=_gpu(row),
        gpu_count=wire.whole(row.get("num_gpus")) or 0,
        cloud="SECURE" if wire.whole(row.get("hosting_type")) == 1 else "COMMUNITY",
        region=country_code(place),
        where=place or "",
        host_id=wire.ident(row.get("machine_id")),
        disk_gb=wire.number(row.get("disk_space")),
        memory_gb=_memory_gb(row),
        cpus=wire.positive(row.get("cpu_cores_effective")),
        driver=wire.text(row.get("driver_version")),
        cuda=_cuda(row.get("cuda_max_good")),
        down_mbps=wire.positive(row.get("inet_down")),
        up_mbps=wire.positive(row.get("inet_up")),
        download_usd_per_gb=wire.money(row.get("inet_down_cost")),
        upload_usd_per_gb=wire.money(row.get("inet_up_cost")),
        dlperf=wire.positive(row.get("dlperf")),
        reliability=_reliability(row),
        udp=direct,
        tcp=direct,
        spot=price.bid is not None,
        address=_address(row.get("public_ipaddr")),
        raw=_raw(ask, price, wanted),
    )


def _raw(ask: str, price: Price, wanted: Wanted) -> dict[str, Any]:
    return {
        "ask": ask,
        "bid": None if price.bid is None else str(price.bid),
        "gpu_usd_h": str(price.gpu_usd_h),
        "disk_gb": wanted.disk_gb,
    }


def _gpu(row: Mapping[str, Any]) -> GpuModel | None:
    name = wire.text(row.get("gpu_name"))
    if name is None:
        return None
    count = wire.whole(row.get("num_gpus")) or 1
    total = wire.positive(row.get("gpu_total_ram"))
    each = wire.positive(row.get("gpu_ram")) or (total / count if total else None)
    found = gpu_model(name, memory_as_sold(each) if each else None)
    told = _capability(row.get("compute_cap"))
    return attrs.evolve(found, compute_capability=told) if told else found


def _capability(value: object) -> tuple[int, int] | None:
    """890 is 8.9, 1200 is 12.0."""
    told = wire.whole(value)
    return (told // 100, told % 100 // 10) if told is not None and 100 <= told <= 9990 else None


def _cuda(value: object) -> str | None:
    # As text it keeps its zero: as a number, 12.10 would be 12.1.
    told = wire.text(value)
    parts = told.split(".") if told else []
    if len(parts) == 2 and all(p.isdecimal() and len(p) <= 3 for p in parts):
        return told
    found = wire.positive(value)
    return f"{found:.1f}" if found is not None and found < 100 else None


def _memory_gb(row: Mapping[str, Any]) -> float | None:
    """This offer's share of the whole machine's memory."""
    whole = wire.positive(row.get("cpu_ram"))
    mine, all_cores = wire.positive(row.get("cpu_cores_effective")), wire.positive(row.get("cpu_cores"))
    share = mine / all_cores if mine and all_cores else wire.positive(row.get("gpu_frac"))
    return round(whole / 1000 * min(1.0, share), 3) if whole and share else None


def _address(value: object) -> str | None:
    try:
        found = ipaddress.ip_address(wire.text(value) or "")
    except ValueError:
        return None
    odd = found.is_unspecified or found.is_multicast or found.is_loopback or found.is_link_local
    return None if odd else str(found)
