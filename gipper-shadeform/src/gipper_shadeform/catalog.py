"""The market's types of machine as offers: one for each region that has it, on demand and as spot apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, Literal

import attrs

from gipper.api import (
    GpuModel,
    KeyMissing,
    Listing,
    Offer,
    OfferQuery,
    ProviderError,
    gpu_model,
    parse_gpu_name,
    usd,
    wire,
)
from gipper_shadeform import images
from gipper_shadeform.client import Ask, Client
from gipper_shadeform.errors import failure, meaning
from gipper_shadeform.info import KEY_NAME, NAME
from gipper_shadeform.places import country_of
from gipper_shadeform.tables import Options

_WHAT: Final = "the types of machines"
# Boards of one name in two forms: only there the form is part of the name for people.
_FORMS: Final = frozenset({("a100",), ("h100",), ("h200",), ("v100",), ("p100",), ("b200",)})
_ARM: Final = re.compile(r"g[hb]\d+", re.IGNORECASE)
_OTHERS: Final = re.compile(r"gaudi|mi\d{2,3}|cpu|tpu", re.IGNORECASE)
# Clouds with data centres of their own; a name that isn't here (unnamed partners, marketplaces, new ones)
# is not known to be one.
DATA_CENTRES: Final = frozenset({
    "aws", "azure", "boostrun", "crusoe", "datacrunch", "denvr", "digitalocean", "horizon", "hotaisle",
    "hyperstack", "imwt", "lambdalabs", "latitude", "massedcompute", "nebius", "oblivus", "paperspace",
    "scaleway", "verda", "voltagepark", "vultr", "whitefiber",
})  # fmt: skip
LAYERS: Final = (
    "shadeform: the watchdog on a machine powers it off, which ends the work and not the bill; what ends the "
    "bill is deleting it: this client, the reaper, or the market's own timer an hour after the machine's end"
)


@attrs.frozen(kw_only=True)
class Place:
    """One way to get a type: a region (`exact` as the market spells it), and on demand or spot.

    `usd_h` is for the whole machine.
    """

    region: str
    exact: object
    display: str | None
    spot: bool
    usd_h: Decimal | None

    def key(self, cloud: str, kind: str) -> str:
        """The offer's id."""
        return "/".join((cloud, self.region, kind, *(("spot",) if self.spot else ())))


def list_offers(
    client: Client, query: OfferQuery, options: Options, sold_out: Callable[[str], bool]
) -> Listing[Offer]:
    """Everything that can be rented now. `sold_out`: ids that were empty just now. Raises ProviderError."""
    found: dict[str, Offer] = {}
    left_out: Counter[str] = Counter()
    for row in rows(client, {"available": "true", "sort": "price"}, query.deadline):
        for one in offers_of(row, query, options):
            if isinstance(one, str):
                left_out[one] += 1
            elif sold_out(one.id):
                left_out["found empty within the last 10 minutes"] += 1
            else:
                found.setdefault(one.id, one)
    notes = [f"shadeform: {n} offer(s) left out: {why}" for why, n in sorted(left_out.items())]
    return Listing(items=tuple(found.values()), notes=(*notes, *([LAYERS] if found else [])))


def rows(client: Client, params: Mapping[str, str], deadline: float | None) -> list[Mapping[str, Any]]:
    """The market's types; asked without a key where there is none. Raises ProviderError, KeyMissing."""
    keyed = client.has_key()
    reply = client.reply(Ask(
        what=_WHAT, method="GET", path="/instances/types", params=params, key_needed=False, deadline=deadline
    ))  # fmt: skip
    if not keyed and meaning(reply) in ("key", "scope"):
        raise KeyMissing(
            f"shadeform: it shows no offers without a key, and {KEY_NAME} is not set "
            "(environment or configured .env; see GIPPER_ENV)"
        )
    if not reply.good:
        raise failure(reply, _WHAT)
    listed = reply.body.get("instance_types")
    if not isinstance(listed, list):
        raise ProviderError(f"shadeform: {_WHAT} were answered without a list")
    return [wire.mapping(row) for row in listed]


def offers_of(row: Mapping[str, Any], query: OfferQuery, options: Options) -> Iterator[Offer | str]:
    """The row's offers, or the reasons under which it is counted as left out. Pure."""
    cloud, kind = wire.text(row.get("cloud")), wire.text(row.get("shade_instance_type"))
    if cloud is None or kind is None:
        yield "no type that it names"
        return
    why = _unfit(row, cloud, options)
    if why is not None:
        yield why
        return
    image = _image(row, options)
    if image is None:
        yield f"no image {options.os}" if options.os else "no image that brings a driver"
        return
    for place in places(row):
        if place.spot and not query.spot:
            continue
        if not place.usd_h:
            yield "price not told"
        else:
            yield _offer(row, cloud, kind, place, place.usd_h, image)


def places(row: Mapping[str, Any]) -> list[Place]:
    """Where the type can be had now, on demand and spot apart."""
    listed = row.get("availability")
    entries = [wire.mapping(e) for e in listed] if isinstance(listed, list) else []
    open_ = (e for e in entries if wire.flag(e.get("available")) is True and wire.text(e.get("region")))
    return [_place(row, entry) for entry in open_]


def _place(row: Mapping[str, Any], entry: Mapping[str, Any]) -> Place:
    spot = (wire.text(entry.get("rental_type")) or "on_demand").casefold() != "on_demand"
    # Spot entries say dollars; the type's own price is in cents, and on demand.
    price = wire.money(entry.get("hourly_price")) if spot else cents(row.get("hourly_price"))
    return Place(
        region=wire.text(entry.get("region")) or "", exact=entry.get("region"),
        display=wire.text(entry.get("display_name")), spot=spot,
        usd_h=price or None,
    )  # fmt: skip


def cents(value: object) -> Decimal | None:
    """Cents as dollars."""
    found = wire.money(value)
    return None if found is None else usd(found / 100)


def _unfit(row: Mapping[str, Any], cloud: str, options: Options) -> str | None:
    gpu = wire.text(_told(row, "gpu_type")) or ""
    maker = (wire.text(_told(row, "gpu_manufacturer")) or "nvidia").casefold()
    if not options.takes(cloud):
        return "another cloud than [provider.shadeform] allows"
    if not wire.whole(_told(row, "num_gpus")) or not gpu or maker != "nvidia" or _OTHERS.match(gpu):
        return "no NVIDIA GPU"
    deployment = (wire.text(row.get("deployment_type")) or "vm").casefold()
    if deployment != "vm":
        return f"not a virtual machine ({deployment})"
    if _ARM.fullmatch(gpu) and not options.arm:
        return "an ARM processor (arm = true in [provider.shadeform] takes it in)"
    return None


def _image(row: Mapping[str, Any], options: Options) -> images.Image | None:
    listed = _told(row, "os_options")
    if not isinstance(listed, list):
        # Not told: the cloud's own choice, unless the user wants a certain one.
        return images.Image(name=options.os or "")
    return images.chosen((t for t in map(wire.text, listed) if t), options.os)


def _offer(
    row: Mapping[str, Any], cloud: str, kind: str, place: Place, usd_h: Decimal, image: images.Image
) -> Offer:
    return Offer(
        provider=NAME,
        id=place.key(cloud, kind),
        usd_h=usd_h,
        gpu=gpu_of(row),
        gpu_count=wire.whole(_told(row, "num_gpus")) or 0,
        kind="vm",
        cloud=_kind_of(cloud),
        region=country_of(place.region, place.display),
        where=f"{place.display or place.region} ({cloud})",
        # No physical host is ever told: its cloud and region stand for it.
        host_id=f"{cloud}/{place.region}",
        disk_gb=wire.positive(_told(row, "storage_in_gb")),
        memory_gb=wire.positive(_told(row, "memory_in_gb")),
        cpus=wire.positive(_told(row, "vcpus")),
        cuda=image.cuda,
        udp=True,
        tcp=True,
        spot=place.spot,
        # The market's own spelling, blanks and all: another one would look sold out to the create.
        raw={
            "cloud": row.get("cloud"), "type": row.get("shade_instance_type"), "region": place.exact,
            "spot": place.spot, "os": image.name or None,
        },
    )  # fmt: skip


def gpu_of(row: Mapping[str, Any]) -> GpuModel:
    """The GPU; its form comes from how it is connected, where the board is sold in more than one."""
    name = wire.text(_told(row, "gpu_type")) or ""
    link = re.match(r"sxm|pcie", (wire.text(_told(row, "interconnect")) or "").casefold())
    words = parse_gpu_name(name)
    if link and words.words in _FORMS and words.form in (None, "sxm"):
        name = f"{name} {link[0].upper() if link[0] == 'sxm' else 'PCIe'}"
    return gpu_model(name, wire.positive(_told(row, "vram_per_gpu_in_gb")))


def _kind_of(cloud: str) -> Literal["SECURE"] | None:
    return "SECURE" if cloud.casefold() in DATA_CENTRES else None


def _told(row: Mapping[str, Any], field: str) -> object:
    """A field of the configuration, else the copy that stands beside it."""
    inner = wire.mapping(row.get("configuration")).get(field)
    return row.get(field) if inner is None else inner
