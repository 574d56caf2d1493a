"""The market's catalogue as offers: both clouds side by side, countries by the market's own filter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import attrs

from gipper.api import GpuModel, Listing, Offer, OfferQuery, ProviderError, gpu_model, usd, wire
from gipper_runpod import graphql
from gipper_runpod.client import Ask, Client
from gipper_runpod.info import NAME
from gipper_runpod.tables import Options

# Dollars for a GB of container disk and month of 730 hours (the market's pricing page, August 2026).
DISK_USD_GB_MONTH: Final = Decimal("0.10")
MONTH_H: Final = 730
# Smaller disks were refused as "no capacity" where 20 GB were placed at once (a user, September 2026).
LEAST_DISK_GB: Final = 20
_LEVELS: Final = ("HIGH", "MEDIUM", "LOW")
_SHOWN: Final = 3
NO_SPOT: Final = "runpod: its present API has no interruptible pods: on-demand offers only"


@attrs.frozen(kw_only=True)
class Place:
    """What one question to the catalogue is about."""

    cloud: str
    country: str | None = None


def list_offers(
    client: Client, query: OfferQuery, options: Options, clouds: Sequence[str], *, keyed: bool
) -> Listing[Offer]:
    """One offer for each GPU type, cloud and (where asked for) country with stock. Raises ProviderError.

    Without a key the older API is asked, which knows no countries and no data centres.
    """
    found: list[Offer] = []
    left_out: Counter[str] = Counter()
    for place in _places(query, clouds):
        for row in _rows(client, query, options, place, keyed=keyed):
            offer = offer_of(row, query, options, place)
            if isinstance(offer, str):
                left_out[offer] += 1
            else:
                found.append(offer)
    notes = [f"runpod: {n} offer(s) left out: {why}" for why, n in sorted(left_out.items())]
    if query.spot:
        notes.insert(0, NO_SPOT)
    return Listing(items=tuple(found), notes=tuple(notes))


def _places(query: OfferQuery, clouds: Sequence[str]) -> Iterator[Place]:
    for cloud in clouds:
        for country in query.regions or (None,):
            yield Place(cloud=cloud, country=None if country is None else country.upper())


def _rows(
    client: Client, query: OfferQuery, options: Options, place: Place, *, keyed: bool
) -> list[Mapping[str, Any]]:
    if not keyed:
        return graphql.catalog(client, query.gpu_count, place.cloud, query.deadline)
    params = {
        "include": "AVAILABILITY",
        "product": "POD",
        "count": str(query.gpu_count),
        "cloud": place.cloud,
    }
    if place.country is not None:
        params["countryCodes"] = place.country
    if query.cuda_versions:
        params["cudaVersions"] = ",".join(query.cuda_versions)
    elif options.min_cuda is not None:
        params["minCudaVersion"] = options.min_cuda
    answer = client.good(Ask(
        what="the catalogue of GPUs", method="GET", path="/v2/catalog/gpus", params=params, read=True,
        deadline=query.deadline,
    ))  # fmt: skip
    rows = answer.get("gpus")
    if not isinstance(rows, list):
        raise ProviderError("runpod: the catalogue was answered without a list of GPUs")
    return [wire.mapping(row) for row in rows]


def offer_of(row: Mapping[str, Any], query: OfferQuery, options: Options, place: Place) -> Offer | str:
    """The offer, or the reason under which it is counted as left out. Pure."""
    ident = row.get("id")
    if not isinstance(ident, str) or not ident.strip() or ident == "unknown":
        return "no GPU that it names"
    if (wire.text(row.get("manufacturer")) or "NVIDIA").casefold() != "nvidia":
        return "not NVIDIA's GPU"
    kind = place.cloud.casefold()
    if wire.flag(row.get(kind)) is not True:
        return f"not in the {kind} cloud"
    price = wire.money(wire.mapping(row.get("price")).get(kind))
    if not price:
        return "price not told"
    level = (wire.text(row.get("availability")) or "NONE").upper()
    if level not in _LEVELS:
        return "out of stock"
    centers = _centers(row, options)
    if centers is None:
        return "not in the data centres asked for"
    return _offer(row, ident, price, level, centers, query, options, place)


def _centers(row: Mapping[str, Any], options: Options) -> tuple[str, ...] | None:
    """Data centres with stock; of those that the user names only, None where none of them has any."""
    listed = row.get("dataCenters")
    rows = [wire.mapping(d) for d in listed] if isinstance(listed, list) else []
    stocked = (d for d in rows if (wire.text(d.get("availability")) or "").upper() in _LEVELS)
    found = tuple(t for t in (wire.text(d.get("id")) for d in stocked) if t)
    if not options.data_centers:
        return found
    return tuple(c for c in found if c in options.data_centers) or None


def _offer(
    row: Mapping[str, Any], ident: str, price: Decimal, level: str, centers: tuple[str, ...],
    query: OfferQuery, options: Options, place: Place,
) -> Offer:  # fmt: skip
    disk = disk_to_rent(query.disk_gb)
    restricted = place.country is not None or bool(options.data_centers)
    return Offer(
        provider=NAME,
        id="/".join(filter(None, (ident, place.cloud.casefold(), place.country))),
        usd_h=usd(price * query.gpu_count + disk * DISK_USD_GB_MONTH / MONTH_H),
        gpu=_gpu(row, ident),
        gpu_count=query.gpu_count,
        cloud="SECURE" if place.cloud == "SECURE" else "COMMUNITY",
        region=place.country,
        where=_where(centers, level, place),
        cuda=_cuda(row, query),
        download_usd_per_gb=Decimal(0),
        upload_usd_per_gb=Decimal(0),
        raw={
            "gpu": ident, "cloud": place.cloud, "centers": list(centers) if restricted else [],
            "cuda": list(query.cuda_versions), "min_cuda": options.min_cuda,
        },
    )  # fmt: skip


def disk_to_rent(disk_gb: float) -> int:
    """Whole GB of container disk for a wish of `disk_gb`."""
    return max(LEAST_DISK_GB, int(-(-disk_gb // 1)))


def _where(centers: tuple[str, ...], level: str, place: Place) -> str:
    more = f" +{len(centers) - _SHOWN}" if len(centers) > _SHOWN else ""
    named = ", ".join(centers[:_SHOWN]) + more
    return " ".join(filter(None, (place.country, named, f"({level.lower()} stock)")))


def _gpu(row: Mapping[str, Any], ident: str) -> GpuModel:
    # The id says form factor and slices; the display name is for people and drops them.
    return gpu_model(ident, wire.positive(row.get("memory")))


def _cuda(row: Mapping[str, Any], query: OfferQuery) -> str | None:
    listed = row.get("cudaVersions")
    rows = [wire.mapping(v) for v in listed] if isinstance(listed, list) else []
    there = {t for v in rows if wire.flag(v.get("available")) and (t := wire.text(v.get("version")))}
    if query.cuda_versions:
        return next((v for v in query.cuda_versions if v in there), None)
    return max(there, key=_version, default=None)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in text.split("."))
