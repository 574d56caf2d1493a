"""How the API words a machine, a type and a key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from hashlib import sha256
from typing import Any

from emulators.shadeform.market import Instance, Market, SshKey

WAITING = "Instance created, waiting on provider to spin up instance"
# How often the estimate of the cost follows.
ESTIMATE_S = 60
_INFO_ONLY = ("volume_ids", "ssh_key_id", "auto_delete", "alert", "volume_mount", "envs")


def status_of(made: Instance, market: Market) -> str:
    """Where it stands."""
    knobs, age = market.knobs, (market.runtime.now() - made.created).total_seconds()
    if made.deleting is not None:
        return "deleted" if market.gone(made) else "deleting"
    if made.failed is not None:
        return "error"
    if made.active is not None:
        return "active"
    if knobs.stuck is not None:
        return knobs.stuck
    if age < knobs.creating_s:
        return "creating"
    return "pending_provider" if age < knobs.creating_s + knobs.provider_s else "pending"


def instance_row(made: Instance, market: Market, *, info: bool) -> dict[str, Any]:
    """One machine, as list (and, with more fields, info) tell of it."""
    status = status_of(made, market)
    row = {
        "id": made.id, "cloud": made.body["cloud"], "region": made.body["region"],
        "shade_instance_type": made.body["shade_instance_type"],
        "cloud_instance_type": made.kind["cloud_instance_type"], "cloud_assigned_id": f"c-{made.id[:8]}",
        "shade_cloud": made.body.get("shade_cloud", True), "name": made.name,
        "configuration": _configuration(made), "ip": _ip(made, market, status), "ssh_user": market.knobs.ssh_user,
        "ssh_port": _ssh_port(made, market, status), "status": status,
        "status_details": made.details or {"pending_provider": WAITING}.get(status, ""),
        "cost_estimate": _estimate(made, market), "hourly_price": _cents(made),
        "launch_configuration": made.body.get("launch_configuration"), "tags": made.body.get("tags"),
        "port_mappings": [{"internal_port": i, "external_port": o} for i, o in market.knobs.port_mappings.items()],
        "active_at": _moment(made.active), "created_at": _moment(made.created),
        "deleted_at": _moment(made.deleting) if status == "deleted" else None,
        "boot_time": made.kind.get("boot_time", {}),
    }  # fmt: skip
    if market.knobs.terms:
        ending = None
        if made.details == "preempted" and made.deleting is not None:
            ending = _moment(made.deleting + timedelta(minutes=2))
        row["rental_terms"] = {
            "rental_type": made.body.get("rental_type", "on_demand"), "hourly_price": _dollars(made.usd_h),
            "ending_at": ending,
        }  # fmt: skip
    return row if not info else {**row, **_only_in_info(made)}


def _only_in_info(made: Instance) -> dict[str, Any]:
    given = {name: made.body.get(name) for name in _INFO_ONLY}
    return {
        **given,
        "auto_delete": dict(made.auto_delete),
        "volume_ids": given["volume_ids"] or [],
        "envs": given["envs"] or [],
    }


def _configuration(made: Instance) -> dict[str, Any]:
    told = {k: v for k, v in made.kind["configuration"].items() if k != "os_options"}
    return {**told, "os": made.body.get("os") or made.kind["configuration"]["os_options"][0]}


def _ip(made: Instance, market: Market, status: str) -> str | None:
    if status != "active" or made.active is None:
        return None
    if (market.runtime.now() - made.active).total_seconds() < market.knobs.address_s:
        return None
    return market.knobs.address or market.host


def _ssh_port(made: Instance, market: Market, status: str) -> int | None:
    """Null as a rule, even when active; a machine that is real here has a port of its own."""
    if market.knobs.ssh_port is not None:
        return market.knobs.ssh_port
    real = getattr(made.lodging, "folder", None) is not None
    return made.lodging.ssh_port if status == "active" and real and made.lodging is not None else None


def _estimate(made: Instance, market: Market) -> str:
    if made.active is None:
        return "0"
    until = made.deleting or market.runtime.now()
    steps = int((until - made.active).total_seconds()) // ESTIMATE_S
    told = market.metered(made, made.active + timedelta(seconds=steps * ESTIMATE_S))
    return "0" if not told else f"{told:.4f}".rstrip("0").rstrip(".")


def _cents(made: Instance) -> int:
    """The type's own price where it is on demand, else what was agreed."""
    return int((made.usd_h * 100).quantize(Decimal(1), rounding=ROUND_HALF_UP))


def _dollars(value: Decimal) -> str:
    return f"{value:.4f}".rstrip("0").rstrip(".")


def _moment(when: datetime | None) -> str | None:
    return None if when is None else f"{when:%Y-%m-%dT%H:%M:%S.%f}Z"


def type_rows(kinds: Iterable[Mapping[str, Any]], asked: Mapping[str, str]) -> list[dict[str, Any]]:
    """The catalogue for a question."""
    rows = [row for row in (_pruned(kind, asked) for kind in kinds) if row is not None]
    if asked.get("sort") == "price":
        return sorted(
            rows, key=lambda row: (row["hourly_price"] or 0, row["cloud"], row["shade_instance_type"])
        )
    # Without an order there is none; the same one each time keeps tests the same.
    return sorted(
        rows, key=lambda row: sha256(f"{row['cloud']}{row['shade_instance_type']}".encode()).hexdigest()
    )


def _pruned(kind: Mapping[str, Any], asked: Mapping[str, str]) -> dict[str, Any] | None:
    configuration = kind["configuration"]
    facts = {
        "cloud": kind["cloud"], "shade_instance_type": kind["shade_instance_type"],
        "num_gpus": str(configuration["num_gpus"]), "gpu_type": configuration["gpu_type"],
    }  # fmt: skip
    if any(asked[name] != fact for name, fact in facts.items() if name in asked):
        return None
    places = [p for p in kind["availability"] if asked.get("region") in (None, p["region"])]
    if asked.get("available") == "true":
        places = [p for p in places if p["available"]]
    # A row is told whole unless the question takes all its places away.
    narrowed = "region" in asked or asked.get("available") == "true"
    return None if narrowed and not places else {**kind, "availability": places}


def key_row(key: SshKey) -> dict[str, Any]:
    """One SSH key; the private half of the market's own pairs comes along, undeclared."""
    row: dict[str, Any] = {
        "id": key.id,
        "name": key.name,
        "public_key": key.public,
        "is_default": key.is_default,
    }
    return row if key.private is None else {**row, "private_key": key.private}
