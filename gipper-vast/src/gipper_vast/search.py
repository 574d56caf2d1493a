"""The market's offers: few filters, page by page, and said out loud where something is left out.

The market shows at most 64 offers a search and has no pages: we order by price and ask again from the last
price on. It orders by the whole price but its price filter compares the GPUs' alone (seen by another
client in October 2026), so each page begins a margin below the last price.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import attrs

from gipper.api import Listing, Offer, ProviderError, wire
from gipper_vast import pacing
from gipper_vast.client import Ask, Client
from gipper_vast.offers import Wanted, offer_of

PAGE: Final = 64
# Ten searches a minute are allowed, and the rents that follow need some.
MOST_PAGES: Final = 6
# A month's dollars for a GB of disk that hardly any host exceeds.
_DEAR_DISK: Final = Decimal("0.6")
_MONTH_H: Final = 720
# The market's figure is below what a card is sold with.
_MEMORY_SLACK: Final = 0.9

Filters = Mapping[str, Mapping[str, Any]]


def list_offers(client: Client, wanted: Sequence[Wanted]) -> Listing[Offer]:
    """Offers for each of `wanted` (on demand, bids). Raises ProviderError where the first can't be asked."""
    found: dict[str, Offer] = {}
    left_out: Counter[str] = Counter()
    notes: list[str] = []
    for part in wanted:
        rows, told = _Search(client, part, MOST_PAGES // len(wanted)).run()
        notes += told
        for row in rows:
            offer = offer_of(row, part)
            if isinstance(offer, str):
                left_out[offer] += 1
            else:
                found[offer.id] = offer
    counted = (f"vast: {n} offer(s) left out: {why}" for why, n in sorted(left_out.items()))
    return Listing(items=tuple(found.values()), notes=(*notes, *counted))


def base_filters(wanted: Wanted) -> dict[str, Mapping[str, Any]]:
    """What the market's own clients send, too: harmless on every report that there is."""
    filters: dict[str, Mapping[str, Any]] = {
        "rentable": {"eq": True},
        "rented": {"eq": False},
        "external": {"eq": False},
        "num_gpus": {"eq": wanted.query.gpu_count},
    }
    if wanted.hosts.verified:
        filters["verified"] = {"eq": True}
    return filters


def narrowing_filters(wanted: Wanted) -> dict[str, Mapping[str, Any]]:
    """What keeps the cheap end of the market from filling all pages. Left out again where nothing comes:
    single filters are known to empty whole families of GPUs. CUDA's is never sent for that reason."""
    query, filters = wanted.query, dict[str, Mapping[str, Any]]()
    if query.min_mem_gb > 0:
        filters["gpu_ram"] = {"gte": int(query.min_mem_gb * 1000 * _MEMORY_SLACK)}
    if query.max_usd_h is not None:
        filters["dph_total"] = {"lte": float(query.max_usd_h)}
    if query.regions:
        filters["geolocation"] = {"in": [region.upper() for region in query.regions]}
    if wanted.hosts.datacenter:
        filters["datacenter"] = {"eq": True}
    filters["disk_space"] = {"gte": wanted.disk_gb}
    return filters


def search_body(wanted: Wanted, filters: Filters) -> dict[str, Any]:
    """The body of one search, cheapest first, priced with the job's disk."""
    return {
        **filters,
        "type": "bid" if wanted.spot else "on-demand",
        "order": [["dph_total", "asc"]],
        "limit": PAGE,
        "allocated_storage": wanted.disk_gb,
    }


def search_ask(body: Mapping[str, Any], deadline: float | None) -> Ask:
    """One search; it works without a key, too."""
    return Ask(
        what="the search for offers", endpoint=pacing.SEARCH, method="POST", path="/api/v0/bundles/",
        scope="misc", body=body, read=True, deadline=deadline, key_needed=False,
    )  # fmt: skip


def rows_of(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The offers of an answer. Raises ProviderError where there is no list."""
    rows = answer.get("offers")
    if not isinstance(rows, list):
        raise ProviderError("vast: the search for offers was answered without a list of offers")
    return [wire.mapping(row) for row in rows]


@attrs.define(kw_only=True)
class _Cursor:
    """From which price on the next page begins, and machines that it need not show again."""

    from_usd_h: Decimal | None = None
    seen_machines: tuple[int, ...] = ()


class _Search:
    def __init__(self, client: Client, wanted: Wanted, pages: int) -> None:
        self._client = client
        self._wanted = wanted
        self._pages = pages
        self._rows: dict[str, Mapping[str, Any]] = {}
        self._nameless = 0

    def run(self) -> tuple[list[Mapping[str, Any]], list[str]]:
        """All rows that could be had, and notes."""
        base = base_filters(self._wanted)
        narrow = {**base, **narrowing_filters(self._wanted)}
        page = self._page(narrow, _Cursor())
        if page or narrow == base:
            return self._all(narrow, page, [])
        page = self._page(base, _Cursor())
        names = ", ".join(sorted(narrow.keys() - base.keys()))
        note = f"vast: nothing came with the market's own filters ({names}); asked again without them"
        return self._all(base, page, [note] if page else [])

    def _all(
        self, filters: Filters, page: list[Mapping[str, Any]], notes: list[str]
    ) -> tuple[list[Mapping[str, Any]], list[str]]:
        cursor, asked = _Cursor(), 1
        self._take(page)
        while len(page) >= PAGE:
            if asked >= self._pages:
                notes.append(self._cut(f"after {asked} searches"))
                break
            cursor = self._next(cursor, page)
            before = len(self._rows)
            try:
                page = self._page(filters, cursor)
            except ProviderError as error:
                notes.append(self._cut(error.message))
                break
            asked += 1
            self._take(page)
            stuck = len(self._rows) == before and len(page) >= PAGE
            # More offers of about one price than a page holds: the rest shows without these machines.
            known = tuple(m for m in map(_machine, page) if m is not None) if stuck else ()
            if stuck and not set(known) - set(cursor.seen_machines):
                notes.append(self._cut("the market shows the same page again"))
                break
            cursor.seen_machines = tuple(dict.fromkeys((*cursor.seen_machines, *known)))
        return list(self._rows.values()), notes

    def _cut(self, why: str) -> str:
        kind = "interruptible offers" if self._wanted.spot else "offers"
        return f"vast: only the cheapest {len(self._rows)} {kind} were looked at: {why}"

    def _page(self, filters: Filters, cursor: _Cursor) -> list[Mapping[str, Any]]:
        sent = {key: dict(value) for key, value in filters.items()}
        if cursor.from_usd_h is not None:
            sent.setdefault("dph_total", {})["gte"] = float(cursor.from_usd_h)
        if cursor.seen_machines:
            sent["machine_id"] = {"notin": list(cursor.seen_machines)}
        ask = search_ask(search_body(self._wanted, sent), self._wanted.query.deadline)
        return rows_of(self._client.good(ask))

    def _take(self, page: list[Mapping[str, Any]]) -> None:
        for row in page:
            key = wire.ident(row.get("ask_contract_id")) or wire.ident(row.get("id"))
            if key is None:
                # Kept, so that it is counted as left out.
                self._nameless += 1
                key = f"nameless {self._nameless}"
            self._rows.setdefault(key, row)

    def _next(self, cursor: _Cursor, page: list[Mapping[str, Any]]) -> _Cursor:
        prices = [p for p in (wire.money(row.get("dph_total")) for row in page) if p is not None]
        last = max(prices, default=Decimal(0))
        start = max(Decimal(0), last - self._margin(page))
        if cursor.from_usd_h is not None:
            start = max(start, cursor.from_usd_h)
        return _Cursor(from_usd_h=start, seen_machines=cursor.seen_machines)

    def _margin(self, page: list[Mapping[str, Any]]) -> Decimal:
        usual = _DEAR_DISK * Decimal(repr(self._wanted.disk_gb)) / _MONTH_H
        gaps = (_gap(row) for row in page)
        return max(usual, *gaps) if page else usual


def _gap(row: Mapping[str, Any]) -> Decimal:
    total, gpus = wire.money(row.get("dph_total")), wire.money(row.get("dph_base"))
    return max(Decimal(0), total - gpus) if total is not None and gpus is not None else Decimal(0)


def _machine(row: Mapping[str, Any]) -> int | None:
    return wire.whole(row.get("machine_id"))
