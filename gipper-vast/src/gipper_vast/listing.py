"""The account's machines, all pages or an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gipper.api import Listing, Machine, ProviderError, wire
from gipper_vast import pacing
from gipper_vast.client import Ask, Client, compact
from gipper_vast.instances import machine_of

# The market cuts longer pages to this (API pages, August 2026).
PAGE: Final = 25
MOST_PAGES: Final = 400
_WHAT: Final = "the list of machines"


def list_ours(client: Client) -> Listing[Machine]:
    """Every machine of the account. Raises ProviderError rather than leave one out."""
    rows: dict[str, Mapping[str, Any]] = {}
    tokens: list[str] = []
    while True:
        answer = client.good(_ask(tokens[-1] if tokens else None))
        for row in _rows(answer):
            rows[_id(row)] = row
        token = answer.get("next_token")
        if token is None:
            _compare(answer, len(rows))
            return Listing(items=tuple(machine_of(row, key) for key, row in rows.items()))
        if not isinstance(token, str) or not token or token in tokens or len(tokens) >= MOST_PAGES:
            raise ProviderError(f"vast: {_WHAT} can't be read to its end: its pages lead nowhere")
        tokens.append(token)


def first_page(client: Client) -> None:
    """Ask for one page, to see whether the key may. Raises ProviderError."""
    _rows(client.good(_ask(None)))


def _ask(token: str | None) -> Ask:
    params = {
        "select_filters": compact({}),
        "order_by": compact([{"col": "id", "dir": "asc"}]),
        "limit": str(PAGE),
    }
    if token is not None:
        params["after_token"] = token
    return Ask(
        what=_WHAT, endpoint=pacing.LIST, method="GET", path="/api/v1/instances/", scope="instance_read",
        params=params, read=True,
    )  # fmt: skip


def _rows(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    rows = answer.get("instances")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ProviderError(f"vast: {_WHAT} was answered without a list")
    return rows


def _id(row: Mapping[str, Any]) -> str:
    found = wire.ident(row.get("id"))
    if found is None:
        raise ProviderError(f"vast: {_WHAT} holds a machine without an id")
    return found


def _compare(answer: Mapping[str, Any], seen: int) -> None:
    total = wire.whole(answer.get("total_instances"))
    if total is not None and seen < total:
        raise ProviderError(f"vast: {_WHAT} is not whole: {seen} of {total} were shown")
