"""Itemised charges by UTC days, all pages or an error.

One row for each contract, clipped to the window, to three decimals; a day's figures grow until it has ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from gipper.api import Bill, ProviderError, wire
from gipper_vast import pacing
from gipper_vast.client import Ask, Client, compact

PAGE: Final = 100
MOST_PAGES: Final = 400
_WHAT: Final = "the charges"
_SOURCE: Final = re.compile(r"instance-(\d{1,20})")
# What a row says beyond its items, above the rounding of a handful of them.
_REST: Final = Decimal("0.005")


def billed(client: Client, since: datetime, until: datetime) -> list[Bill]:
    """Every machine's lines for the whole UTC days from `since` to `until`. Raises ProviderError."""
    first, last = _midnight(since), _midnight(until + timedelta(days=1) - timedelta(microseconds=1))
    rows: list[Mapping[str, Any]] = []
    tokens: list[str] = []
    while True:
        answer = client.good(charges_ask(first, last, tokens[-1] if tokens else None))
        rows += _rows(answer)
        token = answer.get("next_token")
        if token is None:
            _compare(answer, len(rows))
            return [bill for row in rows for bill in _bills(row, first, last)]
        if not isinstance(token, str) or not token or token in tokens or len(tokens) >= MOST_PAGES:
            raise ProviderError(f"vast: {_WHAT} can't be read to their end: their pages lead nowhere")
        tokens.append(token)


def charges_ask(first: datetime, last: datetime, token: str | None = None) -> Ask:
    """One page of charges."""
    window = {"gte": int(first.timestamp()), "lte": int(last.timestamp())}
    params = {
        "select_filters": compact({"day": window, "type": {"in": ["instance"]}}),
        "latest_first": "false",
        "limit": str(PAGE),
        "format": "table",
    }
    if token is not None:
        params["after_token"] = token
    return Ask(
        what=_WHAT, endpoint=pacing.CHARGES, method="GET", path="/api/v0/charges/", scope="billing_read",
        params=params, read=True,
    )  # fmt: skip


def _midnight(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _rows(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    rows = answer.get("results")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ProviderError(f"vast: {_WHAT} were answered without a list")
    return rows


def _compare(answer: Mapping[str, Any], seen: int) -> None:
    total = wire.whole(answer.get("total"))
    if total is not None and seen < total:
        raise ProviderError(f"vast: {_WHAT} are not whole: {seen} of {total} were shown")


def _bills(row: Mapping[str, Any], first: datetime, last: datetime) -> Iterator[Bill]:
    source = _SOURCE.fullmatch(wire.text(row.get("source")) or "")
    if source is None:
        # Another product of the market: not a machine's.
        return
    window = _window(row, first, last)
    summed = Decimal(0)
    for item in row["items"] if isinstance(row.get("items"), list) else []:
        bill = _bill(source[1], wire.mapping(item), window)
        summed += bill.usd
        yield bill
    total = wire.signed_money(row.get("amount"))
    if total is None and not summed:
        raise ProviderError(f"vast: {_WHAT} of machine {source[1]} hold no amount")
    if total is not None and abs(total - summed) > _REST:
        yield Bill(
            machine_id=source[1], kind="other", usd=total - summed, since=window[0], until=window[1],
            text="not itemised",
        )  # fmt: skip


def _bill(machine_id: str, item: Mapping[str, Any], window: tuple[datetime, datetime]) -> Bill:
    amount = wire.signed_money(item.get("amount"))
    if amount is None:
        raise ProviderError(f"vast: {_WHAT} of machine {machine_id} hold an item without an amount")
    since, until = _window(item, *window)
    kind = wire.text(item.get("type")) or ""
    return Bill(
        machine_id=machine_id,
        kind="gpu" if kind == "gpu" else "disk" if kind == "disk" else _other(kind),
        usd=amount,
        since=since,
        until=until,
        text=wire.text(item.get("description")) or "",
    )


def _other(kind: str) -> Any:
    return "bandwidth" if kind in ("bwd", "bwu") else "other"


def _window(row: Mapping[str, Any], first: datetime, last: datetime) -> tuple[datetime, datetime]:
    since, until = wire.moment(row.get("start")), wire.moment(row.get("end"))
    return (since, until) if since and until and since <= until else (first, last)
