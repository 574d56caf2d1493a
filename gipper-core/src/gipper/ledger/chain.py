"""How a receipt is written down and how each one vouches for the one before.

The hash of a receipt is SHA-256 over its UTF-8 JSON: keys sorted, no spaces, the eight envelope keys.
A row keeps `refs` and `payload` as exactly that JSON, so that the text to hash is put together from
the columns and no column can differ from what was hashed.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

import attrs

from gipper.errors import LedgerError
from gipper.money import wire
from gipper.values.receipts import PAYLOADS, Payload, Receipt, from_json, stamp, to_json

GENESIS: Final = "0" * 64
_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False, default=str
)
_STAMP: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z")


class Row(NamedTuple):
    """A receipt as it is stored: text, with `refs` and `payload` as canonical JSON."""

    seq: int
    id: str
    ts: str
    kind: str
    run: str | None
    refs: str
    payload: str
    prev: str


COLUMNS: Final = ", ".join(Row._fields)


@attrs.frozen(kw_only=True)
class Draft:
    """A receipt that has no place in the chain yet."""

    id: str
    ts: str
    kind: str
    run: str | None
    refs: str
    payload: str

    def at(self, seq: int, prev: str) -> Row:
        """The row for place `seq`, after the receipt whose hash is `prev`."""
        return Row(seq, self.id, self.ts, self.kind, self.run, self.refs, self.payload, prev)


def draft(payload: Payload, run: str | None, refs: Mapping[str, str] | None, now: datetime) -> Draft:
    """A new receipt with an id of 128 random bits, dated `now`."""
    return Draft(
        id=os.urandom(16).hex(),
        ts=stamp(now),
        kind=payload.kind,
        run=None if run is None else run.encode("utf-8", "backslashreplace").decode("utf-8"),
        refs=encode(dict(refs or {})),
        payload=encode(to_json(payload)),
    )


def encode(value: Any) -> str:
    """Canonical JSON of `value`.

    A lone surrogate (a file name that isn't UTF-8) becomes its escape; a float that JSON can't say
    becomes its name, and an object that it can't say its text: an odd receipt is worth more than none.
    """
    try:
        text = _ENCODER.encode(value)
    except ValueError:
        text = _ENCODER.encode(_finite(value))
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def canonical(row: Row) -> str:
    """The JSON over which the receipt's hash is made; also its line in an export."""
    return (
        f'{{"id":{encode(row.id)},"kind":{encode(row.kind)},"payload":{row.payload},"prev":{encode(row.prev)}'
        f',"refs":{row.refs},"run":{encode(row.run)},"seq":{row.seq},"ts":{encode(row.ts)}}}'
    )


def digest(row: Row) -> str:
    """The receipt's hash: what the next one's `prev` holds."""
    return hashlib.sha256(canonical(row).encode()).hexdigest()


def to_receipt(row: Row) -> Receipt:
    """`row` as a receipt. Raises ValueError where it can't be parsed."""
    try:
        payload, refs, moment = json.loads(row.payload), json.loads(row.refs), _moment(row.ts)
    except TypeError as error:
        raise ValueError(f"receipt {row.seq}: {error}") from error
    if not isinstance(payload, dict) or not isinstance(refs, dict):
        raise ValueError(  # noqa: TRY004 - one error for all that can't be parsed
            f"receipt {row.seq}: refs or payload is not an object"
        )
    return Receipt(
        id=row.id,
        seq=row.seq,
        ts=moment,
        kind=row.kind,
        run=row.run,
        refs=refs,
        payload=_restored(row.kind, payload),
        prev=row.prev,
    )


def from_receipt(receipt: Receipt) -> Row:
    """The inverse of `to_receipt`."""
    return Row(
        receipt.seq,
        receipt.id,
        stamp(receipt.ts),
        receipt.kind,
        receipt.run,
        encode(dict(receipt.refs)),
        encode(_with_wired_dollars(receipt.payload)),
        receipt.prev,
    )


def parse_draft(line: str) -> Draft:
    """A draft from one line of a spill file. Raises LedgerError where it isn't one."""
    try:
        data = json.loads(line)
        if _STAMP.fullmatch(data["ts"]) is None or not isinstance(data["payload"], dict):
            raise ValueError("no payload")
        return Draft(
            id=str(data["id"]),
            ts=data["ts"],
            kind=str(data["kind"]),
            run=data["run"],
            refs=encode(dict(data["refs"])),
            payload=encode(data["payload"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise LedgerError(f"not a spilled receipt: {line[:80]!r}") from error


def draft_line(item: Draft) -> str:
    """`item` as one JSON line, without a line end."""
    return (
        f'{{"id":{encode(item.id)},"kind":{encode(item.kind)},"payload":{item.payload}'
        f',"refs":{item.refs},"run":{encode(item.run)},"ts":{encode(item.ts)}}}'
    )


def _moment(text: str) -> datetime:
    # Ten times as fast as strptime, on a shape that can be nothing else than a stamp.
    if _STAMP.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a time")
    return datetime.fromisoformat(text)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if isinstance(value, Mapping):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value


def _restored(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    try:
        return from_json(kind, payload)
    except (ArithmeticError, ValueError, TypeError):
        # A kind of a later version may use the same key for something else.
        if kind in PAYLOADS:
            raise ValueError(f"a {kind} receipt holds an amount that is not one") from None
        return payload


def _with_wired_dollars(value: Any) -> Any:
    if isinstance(value, Decimal):
        return wire(value)
    if isinstance(value, Mapping):
        return {k: _with_wired_dollars(v) for k, v in value.items()}
    return value
