"""Charges by UTC day, account and invoices, as the market's API tells of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs

from emulators.meter import DAY, windows
from emulators.vast.contracts import Contract
from emulators.vast.market import Market


def user(market: Market) -> dict[str, Any]:
    """The account; it holds the key, as the service's answer does."""
    return {
        "id": 1, "email": "me@example.org", "username": "me", "credit": float(market.credit_left()), "balance": 0,
        "balance_threshold": 0.0, "balance_threshold_enabled": False, "can_pay": True, "has_billing": True,
        "billed_expected": 0.0, "total_spend": 0.0, "host_agreement_accepted": False, "ssh_key": None,
        "api_key": market.key,
    }  # fmt: skip


def charges(market: Market, query: str) -> tuple[int, Any]:
    """One page of charges."""
    asked = {k: v[-1] for k, v in parse_qs(query).items()}
    day = (json.loads(asked.get("select_filters", "{}")) or {}).get("day") or {}
    if "gte" not in day or "lte" not in day:
        return 400, {"success": False, "msg": "Both gte and lte must be given for day"}
    since, until = (datetime.fromtimestamp(float(day[k]), UTC) for k in ("gte", "lte"))
    rows = [r for c in market.contracts.values() if (r := _row(market, c, since, until)) is not None]
    limit = min(500, int(asked.get("limit", 100)))
    start = int(asked.get("after_token") or 0)
    page = rows[start : start + limit]
    after = str(start + limit) if start + limit < len(rows) else None
    return 200, {
        "success": True,
        "count": len(page),
        "total": len(rows),
        "next_token": after,
        "results": page,
    }


def _row(market: Market, contract: Contract, since: datetime, until: datetime) -> dict[str, Any] | None:
    seen = market.runtime.now() - timedelta(seconds=market.knobs.bills_lag_s)
    items = [
        item for day in windows(since, until, DAY) for item in _items(contract, *day, since, until, seen)
    ]
    if not items:
        return None
    amount = sum((Decimal(str(i["amount"])) for i in items), Decimal(0))
    return {
        "start": int(since.timestamp()), "end": int(until.timestamp()), "type": "instance",
        "source": f"instance-{contract.id}", "description": f"Instance {contract.id} Charges",
        "amount": float(amount), "metadata": {"label": contract.label} if contract.label else {}, "items": items,
    }  # fmt: skip


def _items(
    contract: Contract, day: datetime, after: datetime, since: datetime, until: datetime, seen: datetime
) -> list[dict[str, Any]]:
    low, high = max(day, since), min(after, until)
    found = []
    for line in contract.lines():
        seconds = line.seconds(low, high, seen)
        if seconds > 0:
            hours = (seconds / 3600).quantize(Decimal("0.001"))
            found.append(_item(line.kind, line.within(low, high, seen), low, high,
                               f"{hours} hours at ${line.usd_h:.3f}/hour"))  # fmt: skip
    if contract.running is not None and low <= contract.running < high and contract.running <= seen:
        found += [_item(kind, usd, low, high, "bytes") for kind, usd in contract.traffic_usd().items() if usd]
    return found


def _item(kind: str, usd: Decimal, since: datetime, until: datetime, text: str) -> dict[str, Any]:
    return {
        "type": kind, "description": text, "amount": float(usd.quantize(Decimal("0.001"))),
        "start": int(since.timestamp()), "end": int(until.timestamp()), "source": None, "metadata": {}, "items": [],
    }  # fmt: skip


def invoices(market: Market, query: str) -> tuple[int, Any]:
    """Account-level payments; nothing about single machines."""
    when: Mapping[str, Any] = json.loads(parse_qs(query).get("select_filters", ["{}"])[-1]).get("when") or {}
    if "gte" not in when or "lte" not in when:
        return 200, {"success": False, "msg": "when needs gte and lte"}
    paid = {
        "type": "credit",
        "amount": float(market.credit),
        "description": "Credit",
        "when": int(when["gte"]),
    }
    return 200, {"success": True, "count": 1, "total": 1, "next_token": None, "results": [paid]}


def old_invoices(market: Market) -> tuple[int, Any]:
    """The older form: everything as text."""
    made = [
        {"type": "charge", "description": f"Instance {c.id} GPU charge", "quantity": "1.0", "rate": "0.3",
         "amount": f"{market.metered(c):.4f}", "timestamp": c.created.timestamp(), "instance_id": c.id}
        for c in market.contracts.values()
    ]  # fmt: skip
    return 200, {
        "invoices": made,
        "current": {"charges": "0.0", "service_fee": 0, "total": "0.0", "credit": "0.0"},
    }
