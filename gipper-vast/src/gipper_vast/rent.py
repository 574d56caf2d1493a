"""Renting: one create, sent once, and what its answer means.

Whatever the status says: an answer that carries `new_contract` made something (a bid that is too low does).
"""

from __future__ import annotations

from collections.abc import Mapping
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
    usd,
    wire,
)
from gipper_vast import pacing
from gipper_vast.client import Ask, Client
from gipper_vast.errors import Reply, failure, meaning
from gipper_vast.info import IMAGE, NAME
from gipper_vast.memory import Memory, Rented
from gipper_vast.offers import LEAST_DISK_GB, disk_to_rent
from gipper_vast.onstart import onstart
from gipper_vast.search import PAGE, rows_of, search_ask
from gipper_vast.tables import job_of, settings_of

# Limits of the market's API pages, August 2026.
MOST_PORTS: Final = 64
_ENV_NAME_MOST: Final = 256
_ENV_MOST: Final = 32768
_RECHECK_S: Final = 15.0
_DEARER_SHARE: Final = Decimal("1.02")
_DEARER_USD_H: Final = Decimal("0.01")

_GONE: Final = ("no_such_ask", "is not available", "no longer available", "no longer exists")
_FULL: Final = ("currently unavailable", "no capacity", "cannot start now", "can't start now")
_MONEY: Final = (
    "insufficient_credit", "insufficient credit", "insufficient fund", "insufficient balance", "lacks credit",
    "spend_rate", "spend rate", "spending limit", "see the billing page", "billing page", "403/3586",
)  # fmt: skip
_OFFERS_OWN: Final = ("no_ssh_key_for_vm",)


def rent(
    context: ProviderContext, client: Client, memory: Memory, offer: Offer, request: RentRequest
) -> Machine:
    """The hook's contract: a Machine, or OfferGone, NoCapacity, Refused, Doubtful."""
    path, body = _prepared(context, offer, request)
    _check_price(context, client, offer)
    try:
        reply = client.reply(_create(path, body))
    except HttpUnsent as error:
        raise NoCapacity(f"vast: the create was not sent: {error.message}", hint=error.hint) from error
    except (KeyMissing, ConfigError) as error:
        raise Refused(error.message, kind="account", hint=error.hint) from error
    except ProviderError as error:
        raise Doubtful(f"vast: the create was not answered: {error.message}") from error
    return _judged(reply, memory, offer, request)


def _create(path: str, body: Mapping[str, Any]) -> Ask:
    return Ask(
        what="the create", endpoint=pacing.CREATE, method="PUT", path=path, scope="instance_write", body=body,
        tries=1, timeout_s=60.0,
    )  # fmt: skip


def _prepared(context: ProviderContext, offer: Offer, request: RentRequest) -> tuple[str, Mapping[str, Any]]:
    """Path and body of the create; nothing was asked yet, so every failure is a refusal."""
    ask = wire.ident(offer.raw.get("ask"))
    if ask is None:
        raise Refused("vast: the offer doesn't say which one it is", kind="offer")
    try:
        return f"/api/v0/asks/{ask}/", create_body(context, offer, request)
    except Refused:
        raise
    except GipperError as error:
        raise Refused(error.message, kind="account", hint=error.hint) from error


def create_body(context: ProviderContext, offer: Offer, request: RentRequest) -> dict[str, Any]:
    """The create's body: no null, no unknown key, `env` an object, a price only for a bid."""
    job, settings = job_of(request.options), settings_of(context.settings)
    body: dict[str, Any] = {
        "client_id": "me",
        "disk": disk_to_rent(request.disk_gb),
        "label": request.name,
        "runtype": "ssh_direc ssh_proxy",
        "env": _env(request),
        "onstart": onstart(request, context.base_url()),
        # Else a machine whose GPU was just taken is made stopped, and its disk bills.
        "cancel_unavail": True,
        "target_state": "running",
    }
    if job.template is not None:
        body["template_hash_id"] = job.template
    # What stands in the body wins over the template: a mere default must not.
    image = request.image or (None if job.template else settings.image or IMAGE)
    if image is not None:
        body["image"] = image
    if offer.spot:
        body["price"] = float(_bid(offer))
    return body


def _bid(offer: Offer) -> Decimal:
    bid = wire.money(offer.raw.get("bid"))
    if not bid:
        raise Refused("vast: the interruptible offer has no bid", kind="offer")
    return bid


def _env(request: RentRequest) -> dict[str, str]:
    ports = {f"-p {p.inside}:{p.inside}{'/udp' if p.protocol == 'udp' else ''}": "1" for p in request.ports}
    # SSH's own port is one of them.
    if len(ports) >= MOST_PORTS:
        raise Refused(f"vast: at most {MOST_PORTS - 1} ports can be published", kind="request")
    odd = [name for name in request.env if name.startswith("-") or len(name) > _ENV_NAME_MOST]
    if odd:
        raise Refused(f"vast: no variable can be called {odd[0][:60]!r}", kind="request")
    env = {**request.env, **ports}
    if sum(len(name) + len(value) for name, value in env.items()) > _ENV_MOST:
        raise Refused(
            f"vast: pod.env holds more than {_ENV_MOST} characters", kind="request", hint="use an input file"
        )
    return env


def _check_price(context: ProviderContext, client: Client, offer: Offer) -> None:
    """Look at the offer once more: there is no ceiling in a create. A look that fails is none; core
    compares the machine's own price later."""
    deadline = context.runtime.monotonic() + _RECHECK_S
    disk = wire.positive(offer.raw.get("disk_gb")) or LEAST_DISK_GB
    body = {
        "ask_contract_id": {"eq": int(str(offer.raw.get("ask")))},
        "type": "bid" if offer.spot else "on-demand",
        "limit": PAGE,
        "allocated_storage": disk,
    }
    try:
        rows = rows_of(client.good(search_ask(body, deadline)))
    except GipperError:
        return
    wanted = str(offer.raw.get("ask"))
    row = next((r for r in rows if wire.ident(r.get("ask_contract_id") or r.get("id")) == wanted), None)
    if row is None:
        raise OfferGone(f"vast: offer {wanted} is no longer listed")
    _compare(row, offer)


def _compare(row: Mapping[str, Any], offer: Offer) -> None:
    if wire.flag(row.get("rentable")) is False or wire.flag(row.get("rented")) is True:
        raise OfferGone(f"vast: offer {offer.id} was taken")
    if offer.spot:
        least = wire.money(row.get("min_bid"))
        if least is not None and least > _bid(offer):
            raise OfferGone(
                f"vast: offer {offer.id} now asks for a bid of ${least}/h, ours is ${_bid(offer)}/h"
            )
        return
    now = wire.money(row.get("dph_total"))
    if now and now > offer.usd_h * _DEARER_SHARE and now - offer.usd_h > _DEARER_USD_H:
        raise OfferGone(f"vast: offer {offer.id} now costs ${now}/h, it was ${usd(offer.usd_h)}/h")


def _judged(reply: Reply, memory: Memory, offer: Offer, request: RentRequest) -> Machine:
    made = wire.ident(reply.body.get("new_contract"))
    if made is None:
        raise _refusal(reply, offer)
    fault = None if reply.good else f"the create failed, but made a machine: {reply.said or reply.status}"
    memory.keep(made, Rented(spot=offer.spot, fault=fault))
    return Machine(
        provider=NAME,
        id=made,
        name=request.name,
        state=MachineState.STARTING if fault is None else MachineState.ERROR,
        host_id=offer.host_id,
        fault=fault,
    )


def _refusal(reply: Reply, offer: Offer) -> GipperError:
    """Which of the four words a create without a machine is."""
    told = f"vast: offer {offer.id}: {reply.said or f'HTTP {reply.status}'}"
    if reply.good or (200 <= reply.status < 300 and not reply.is_json):
        return Doubtful("vast: the create was answered without saying which machine was made")
    if meaning(reply) == "often":
        return NoCapacity("vast: creates were asked for too often; nothing was made")
    if reply.says(*_GONE) or reply.status == 410:
        return OfferGone(told)
    if reply.says(*_FULL):
        return NoCapacity(told)
    if reply.says(*_MONEY):
        hint = "look at credit and limits in Vast's console: Billing"
        return Refused(told, kind="account", hint=hint)
    if reply.says(*_OFFERS_OWN):
        return Refused(told, kind="offer")
    return _refused(reply, told)


def _refused(reply: Reply, told: str) -> GipperError:
    if meaning(reply) in ("key", "scope", "two_factor"):
        known = failure(reply, "the create", "instance_write")
        return Refused(known.message, kind="account", hint=known.hint)
    if not reply.is_json or reply.status == 408 or reply.status < 400:
        return Doubtful(f"vast: the create's answer makes no sense (HTTP {reply.status})")
    if reply.status == 404:
        return OfferGone(told)
    return Refused(told, kind="request", hint="see image, env, ports, disk and [provider.vast] of the job")
