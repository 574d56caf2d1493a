"""Renting: one create, sent once, and what its answer means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gipper.api import (
    ConfigError,
    Doubtful,
    GipperError,
    HttpUnsent,
    KeyMissing,
    Machine,
    NoCapacity,
    Offer,
    ProviderError,
    Refused,
    RentRequest,
    wire,
)
from gipper_runpod.catalog import disk_to_rent
from gipper_runpod.client import Ask, Client
from gipper_runpod.errors import Reply, failure, meaning
from gipper_runpod.info import IMAGE
from gipper_runpod.pods import machine_of
from gipper_runpod.tables import Options

# The market's limits, by its documentation of August 2026.
MOST_ENV: Final = 50
MOST_BODY: Final = 102_400
_VOLUME_AT: Final = "/workspace"


def rent(client: Client, options: Options, offer: Offer, request: RentRequest, *, here: bool) -> Machine:
    """The hook's contract: a Machine, or OfferGone, NoCapacity, Refused, Doubtful."""
    body = create_body(options, offer, request)
    try:
        reply = client.reply(
            Ask(what="the create", method="POST", path="/v2/pods", body=body, timeout_s=90.0)
        )
    except HttpUnsent as error:
        raise NoCapacity(f"runpod: the create was not sent: {error.message}", hint=error.hint) from error
    except (KeyMissing, ConfigError) as error:
        raise Refused(error.message, kind="account", hint=error.hint) from error
    except ProviderError as error:
        raise Doubtful(f"runpod: the create was not answered: {error.message}") from error
    if reply.good:
        return _made(reply, request, here=here)
    raise _refusal(reply, offer)


def create_body(options: Options, offer: Offer, request: RentRequest) -> dict[str, Any]:
    """The create's body: known fields only, since an unknown one is refused. Raises Refused."""
    raw = offer.raw
    gpu: dict[str, Any] = {"id": str(raw.get("gpu")), "count": offer.gpu_count}
    if raw.get("cuda"):
        gpu["allowedCudaVersions"] = list(raw["cuda"])
    elif raw.get("min_cuda"):
        gpu["minCudaVersion"] = str(raw["min_cuda"])
    body: dict[str, Any] = {
        "name": request.name,
        "image": request.image or options.image or IMAGE,
        "gpu": gpu,
        "cloud": str(raw.get("cloud", "SECURE")),
        # Left out, a machine is found first and the create refused then.
        "disk": disk_to_rent(request.disk_gb),
        "ports": _ports(request),
        "env": _env(request),
    }
    if raw.get("centers"):
        body["dataCenterIds"] = list(raw["centers"])
    if options.volume is not None:
        body["mounts"] = {"network": [{"volumeId": options.volume, "path": _VOLUME_AT}]}
    if options.registry is not None:
        body["registry"] = options.registry
    return body


def _ports(request: RentRequest) -> list[str]:
    if any(p.protocol == "udp" for p in request.ports):
        raise Refused(
            "runpod: it has no UDP ports", kind="request", hint="name another provider for this job"
        )
    return list(dict.fromkeys(["22/tcp", *(f"{p.inside}/tcp" for p in request.ports)]))


def _env(request: RentRequest) -> dict[str, str]:
    # A key in the request is the only one let in: keys of the account stay out of it.
    env = {**request.env, "PUBLIC_KEY": request.public_key}
    if len(env) > MOST_ENV or sum(len(k) + len(v) for k, v in env.items()) > MOST_BODY // 2:
        raise Refused(
            f"runpod: at most {MOST_ENV} variables of {MOST_BODY // 2} bytes in all can be set",
            kind="request",
            hint="use an input file",
        )
    return env


def _made(reply: Reply, request: RentRequest, *, here: bool) -> Machine:
    ident = wire.text(reply.body.get("id"))
    if ident is None:
        raise Doubtful("runpod: the create was answered without saying which pod was made")
    told: Mapping[str, Any] = {**reply.body, "name": request.name}
    return machine_of(told, ident, here=here)


def _refusal(reply: Reply, offer: Offer) -> GipperError:
    """Which of the four words a create without a pod is."""
    tail = f" (request {reply.request_id})" if reply.request_id else ""
    told = f"runpod: {offer.id}: {reply.said or f'HTTP {reply.status}'}{tail}"
    kind = meaning(reply)
    if kind in ("capacity", "often"):
        return NoCapacity(told)
    if kind == "money":
        return Refused(
            told, kind="account", hint="look at balance and spend limit in Runpod's console: Billing"
        )
    if kind == "key":
        known = failure(reply, "the create")
        return Refused(known.message, kind="account", hint=known.hint)
    if kind == "scope":
        # Also said of a pool that isn't open to this account: another offer may be.
        return Refused(told, kind="offer")
    if kind in ("request", "missing", "conflict") or (reply.is_json and 400 <= reply.status < 500):
        hint = "see image, env, ports, disk and [provider.runpod] of the job"
        return Refused(told, kind="request", hint=hint)
    return Doubtful(f"runpod: the create's answer makes no sense (HTTP {reply.status}){tail}")
