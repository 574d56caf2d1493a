"""Itemised charges in buckets of an hour, per pod; a bucket that isn't over yet still grows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from gipper.api import Bill, BillKind, ProviderError, wire
from gipper_runpod.client import Ask, Client

_WHAT: Final = "the charges of pods"
_KINDS: Final[tuple[tuple[str, BillKind], ...]] = (
    ("gpuAmount", "gpu"),
    ("cpuAmount", "other"),
    ("diskAmount", "disk"),
)
_HOUR: Final = timedelta(hours=1)


def billed(client: Client, since: datetime, until: datetime) -> list[Bill]:
    """Every pod's lines for the whole hours that touch the window. Raises ProviderError."""
    params = {"startTime": _text(_floor(since)), "endTime": _text(_ceiling(until)), "bucketSize": "hour"}
    answer = client.good(Ask(what=_WHAT, method="GET", path="/v2/billing/pods", params=params, read=True))
    records = answer.get("records")
    if not isinstance(records, list) or not all(isinstance(r, dict) for r in records):
        raise ProviderError(f"runpod: {_WHAT} were answered without a list")
    count = wire.whole(wire.mapping(answer.get("metadata")).get("recordCount"))
    if count is not None and len(records) < count:
        raise ProviderError(f"runpod: {_WHAT} are not whole: {len(records)} of {count} were shown")
    return [bill for record in records for bill in _bills(record)]


def _bills(record: Mapping[str, Any]) -> Iterator[Bill]:
    pod = wire.text(record.get("podId"))
    since, until = _moment(record.get("startTime")), _moment(record.get("endTime"))
    if pod is None or since is None or until is None:
        raise ProviderError(f"runpod: {_WHAT} hold a record without pod or time")
    summed = Decimal(0)
    for field, kind in _KINDS:
        amount = wire.signed_money(record.get(field))
        if amount:
            summed += amount
            yield Bill(machine_id=pod, kind=kind, usd=amount, since=since, until=until, text=field)
    total = wire.signed_money(record.get("totalAmount"))
    if total is None and not summed:
        raise ProviderError(f"runpod: {_WHAT} hold a record without an amount (pod {pod})")
    if total is not None and total != summed:
        yield Bill(
            machine_id=pod, kind="other", usd=total - summed, since=since, until=until, text="not itemised"
        )


def _floor(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def _ceiling(moment: datetime) -> datetime:
    low = _floor(moment)
    return low if low == moment else low + _HOUR


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _moment(value: object) -> datetime | None:
    told = wire.text(value)
    try:
        found = datetime.fromisoformat(told) if told else None
    except ValueError:
        return None
    return None if found is None or found.tzinfo is None else found.astimezone(UTC)
