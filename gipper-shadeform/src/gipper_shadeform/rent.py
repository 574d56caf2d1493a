"""Renting: the offer looked at again, our key known to the account, then one create, sent once."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from gipper.api import (
    ConfigError,
    Doubtful,
    GipperError,
    HttpUnsent,
    KeyMissing,
    Machine,
    MachineState,
    NoCapacity,
    Offer,
    OfferGone,
    ProviderContext,
    ProviderError,
    Refused,
    RentRequest,
    wire,
)
from gipper_shadeform import catalog, keys
from gipper_shadeform.client import Ask, Client
from gipper_shadeform.errors import Reply, meaning
from gipper_shadeform.info import NAME
from gipper_shadeform.memory import Memory

# As core gives a machine back that turns out dearer.
_DEARER: Final = (Decimal("1.02"), Decimal("0.01"))
_CREATE_S: Final = 180.0
PORT_TAG: Final = "gipper-port="


def rent(
    context: ProviderContext, client: Client, memory: Memory, offer: Offer, request: RentRequest
) -> Machine:
    """The hook's contract: a Machine, or OfferGone, NoCapacity, Refused, Doubtful."""
    if request.image is not None:
        raise Refused(
            "shadeform: its machines are virtual ones, which can't run a container's image",
            kind="request", hint="leave pod.image out, or name another provider",
        )  # fmt: skip
    body = create_body(offer, request, _key(context, client, offer, request))
    try:
        reply = client.reply(
            Ask(what="the create", method="POST", path="/instances/create", body=body, timeout_s=_CREATE_S)
        )
    except HttpUnsent as error:
        raise NoCapacity(f"shadeform: the create was not sent: {error.message}", hint=error.hint) from error
    except (KeyMissing, ConfigError) as error:
        raise Refused(error.message, kind="account", hint=error.hint) from error
    except ProviderError as error:
        raise Doubtful(f"shadeform: the create was not answered: {error.message}") from error
    if reply.good:
        return _made(reply, request)
    refusal = _refusal(reply, offer)
    if isinstance(refusal, NoCapacity) and meaning(reply) == "capacity":
        memory.sold_out(offer.id, context.runtime.monotonic())
    raise refusal


def _key(context: ProviderContext, client: Client, offer: Offer, request: RentRequest) -> str:
    """The offer is still there, and our key's id. Nothing was created yet: no error here leaves a doubt."""
    try:
        look_again(client, offer)
        return keys.key_id(context, client, request.public_key)
    except (KeyMissing, ConfigError) as error:
        raise Refused(error.message, kind="account", hint=error.hint) from error
    except (OfferGone, NoCapacity, Refused):
        raise
    except ProviderError as error:
        raise NoCapacity(f"{error.message}; nothing was rented", hint=error.hint) from error


def look_again(client: Client, offer: Offer) -> None:
    """Listings are minutes old: look at this one type once more, as a typo and a sold-out type are told alike
    by the create. Raises OfferGone, KeyMissing, ProviderError."""
    raw = offer.raw
    asked = {"cloud": str(raw.get("cloud")), "shade_instance_type": str(raw.get("type")), "available": "true"}
    found = [
        place
        for row in catalog.rows(client, asked, None)
        if (row.get("cloud"), row.get("shade_instance_type")) == (raw.get("cloud"), raw.get("type"))
        for place in catalog.places(row)
        if (place.exact, place.spot) == (raw.get("region"), raw.get("spot"))
    ]
    if not found:
        raise OfferGone(f"shadeform: {offer.id} is no longer in the catalogue, or not free")
    price = found[0].usd_h
    if price and price > offer.usd_h * _DEARER[0] and price - offer.usd_h > _DEARER[1]:
        raise OfferGone(f"shadeform: {offer.id} costs ${price}/h now, offered were ${offer.usd_h}/h")


def create_body(offer: Offer, request: RentRequest, key: str) -> dict[str, Any]:
    """The create's body. The market's timer is always set, and the key never left out: without one the
    account's default key gets in, whose other half the market may hold."""
    raw = offer.raw
    body: dict[str, Any] = {
        "cloud": raw.get("cloud"),
        "region": raw.get("region"),
        "shade_instance_type": raw.get("type"),
        "shade_cloud": True,
        "name": request.name,
        "rental_type": "spot" if raw.get("spot") else "on_demand",
        "ssh_key_id": key,
        "auto_delete": {"date_threshold": moment(request.timer_at)},
        "tags": tags(request),
    }
    if raw.get("os"):
        body["os"] = raw["os"]
    if request.env:
        body["envs"] = [{"name": name, "value": value} for name, value in request.env.items()]
    return body


def tags(request: RentRequest) -> list[str]:
    """What the list shows of a machine beside its name; its ports are told nowhere else."""
    ports = dict.fromkeys(f"{PORT_TAG}{p.inside}/{p.protocol}" for p in request.ports)
    return ["gipper", f"gipper-name={request.name}", *ports]


def moment(when: datetime) -> str:
    """A time as the market writes it."""
    return f"{when.astimezone(UTC):%Y-%m-%dT%H:%M:%S}+00:00"


def _made(reply: Reply, request: RentRequest) -> Machine:
    ident = wire.text(reply.body.get("id"))
    if ident is None:
        raise Doubtful("shadeform: the create was answered without saying which machine was made")
    return Machine(provider=NAME, id=ident, name=request.name, state=MachineState.PENDING)


def _refusal(reply: Reply, offer: Offer) -> GipperError:
    """Which of the four words a create without a machine is."""
    told = f"shadeform: {offer.id}: {reply.said or f'HTTP {reply.status}'}"
    kind = meaning(reply)
    if kind in ("capacity", "often"):
        return NoCapacity(told)
    if kind == "money":
        return Refused(told, kind="account", hint="look at the wallet in Shadeform's console: Billing")
    if kind in ("key", "scope", "quota"):
        hint = "look at key and limits of the account in Shadeform's console"
        return Refused(told, kind="account", hint=hint)
    if kind in ("conflict", "missing"):
        return Refused(told, kind="offer")
    if kind == "request":
        hint = "see pod.ports and [provider.shadeform] of the job"
        return Refused(told, kind="request", hint=hint)
    return Doubtful(f"shadeform: the create's answer makes no sense (HTTP {reply.status})")
