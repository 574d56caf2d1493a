"""What the service refuses before it looks for a machine."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

_CREATE = {
    "cloud": str, "region": str, "shade_instance_type": str, "shade_cloud": bool, "name": str, "os": str,
    "rental_type": str, "template_id": str, "launch_configuration": dict, "volume_ids": list, "ssh_key_id": str,
    "auto_delete": dict, "alert": dict, "volume_mount": dict, "tags": list, "envs": list,
}  # fmt: skip
_UPDATE = {"name": str, "auto_delete": dict, "alert": dict, "tags": list}
# shade_cloud is missing here: clients that leave it out are served.
_NEEDED = ("cloud", "region", "shade_instance_type", "name")
_RENTALS = ("on_demand", "spot")


def create_fault(body: Any) -> str | None:
    """Why a create's body is refused; None where it is fine."""
    if not isinstance(body, dict):
        return "the body must be a JSON object"
    missing = [name for name in _NEEDED if not body.get(name)]
    if missing:
        return f"{missing[0]} is required"
    wrong = wrong_types(body, _CREATE)
    return wrong or _rules(body)


def update_fault(body: Any) -> str | None:
    """Why an update's body is refused; null deletes a value and is fine."""
    if not isinstance(body, dict):
        return "the body must be a JSON object"
    given = {k: v for k, v in body.items() if v is not None}
    if body.get("name", "-") is None:
        return "name can't be deleted"
    return wrong_types(given, _UPDATE) or thresholds_fault(given) or strings_fault(given.get("tags"), "tags")


def key_fault(body: Any) -> str | None:
    """Why a new SSH key is refused."""
    if not isinstance(body, dict):
        return "the body must be a JSON object"
    wrong = next(
        (n for n in ("name", "public_key") if not isinstance(body.get(n), str) or not body[n].strip()), None
    )
    return None if wrong is None else f"{wrong} is required"


def wrong_types(body: dict[str, Any], known: dict[str, type]) -> str | None:
    """A field of another type than is documented; unknown ones are ignored."""
    for name, kind in known.items():
        if name in body and (
            not isinstance(body[name], kind) or (kind is int and isinstance(body[name], bool))
        ):
            return f"{name} must be {kind.__name__}"
    return None


def _rules(body: dict[str, Any]) -> str | None:
    if body.get("rental_type", "on_demand") not in _RENTALS:
        return f"rental_type must be one of {', '.join(_RENTALS)}"
    if len(body.get("volume_ids", [])) > 1:
        return "at most one volume can be attached"
    launch = body.get("launch_configuration")
    if launch is not None and launch.get("type") not in ("docker", "script"):
        return "launch_configuration.type must be docker or script"
    envs = body.get("envs", [])
    if not all(
        isinstance(e, dict) and isinstance(e.get("name"), str) and isinstance(e.get("value"), str)
        for e in envs
    ):
        return "envs must be pairs of name and value"
    return (
        thresholds_fault(body)
        or strings_fault(body.get("tags"), "tags")
        or strings_fault(body.get("volume_ids"), "volume_ids")
    )


def strings_fault(value: Any, name: str) -> str | None:
    """Why a list isn't one of texts."""
    return None if all(isinstance(one, str) for one in value or []) else f"{name} must be a list of strings"


def thresholds_fault(body: dict[str, Any]) -> str | None:
    """Why `auto_delete` or `alert` isn't understood."""
    for name in ("auto_delete", "alert"):
        told = body.get(name) or {}
        if told.get("date_threshold") is not None and not _is_moment(told["date_threshold"]):
            return f"{name}.date_threshold must be an RFC 3339 time"
        if told.get("spend_threshold") is not None and not _is_money(told["spend_threshold"]):
            return f"{name}.spend_threshold must be dollars as a string"
    return None


def _is_moment(value: Any) -> bool:
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _is_money(value: Any) -> bool:
    try:
        return isinstance(value, str) and Decimal(value).is_finite() and 0 <= Decimal(value) < 10**9
    except InvalidOperation:
        return False
