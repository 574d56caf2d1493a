"""Asking all markets side by side. One that is slow or fails is told of in a note and never waited for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import attrs

from gipper.errors import GipperError, Stopped
from gipper.runtime import Runtime, Task
from gipper.values.offers import Listing, Offer, OfferQuery
from gipper.values.plugins import ProviderInfo


class Market(Protocol):
    """The part of a provider's handle that listing needs."""

    @property
    def name(self) -> str:
        """The provider's name."""

    @property
    def info(self) -> ProviderInfo:
        """What the plugin says of itself."""

    def has_key(self) -> bool:
        """True where a key is set, or none is needed."""

    def list_offers(self, query: OfferQuery) -> Listing[Offer]:
        """As the hook of that name."""


@attrs.frozen(kw_only=True)
class MarketAnswer:
    """One market's answer. `error` is one line where it has none: failed, or too slow."""

    provider: str
    offers: tuple[Offer, ...] = ()
    notes: tuple[str, ...] = ()
    error: str | None = None
    hint: str | None = None


def ask(
    markets: Sequence[Market],
    query: Callable[[Market, float], OfferQuery],
    *,
    runtime: Runtime,
    limit_s: float,
) -> tuple[MarketAnswer, ...]:
    """Every market's answer, in the order of `markets`, after at most about `limit_s` seconds.

    `query` makes a market's query from it and the deadline (monotonic). A plugin's own errors become that
    market's `error`; Stopped and what isn't an Exception end the asking.
    """
    deadline = runtime.monotonic() + limit_s
    tasks = [_start(market, query(market, deadline), runtime) for market in markets]
    return tuple(
        _answer(market, task, runtime, deadline, limit_s) for market, task in zip(markets, tasks, strict=True)
    )


def all_failed(answers: Sequence[MarketAnswer]) -> bool:
    """True where markets were asked and not one answered."""
    return bool(answers) and all(a.error is not None for a in answers)


def notes_of(answer: MarketAnswer) -> tuple[str, ...]:
    """What to tell of one market, its name in front."""
    own = tuple(f"{answer.provider}: {note.removeprefix(f'{answer.provider}: ')}" for note in answer.notes)
    return own if answer.error is None else (*own, _failed(answer))


def _failed(answer: MarketAnswer) -> str:
    return f"{answer.provider}: {answer.error}" + (f"; {answer.hint}" if answer.hint else "")


def _start(market: Market, query: OfferQuery, runtime: Runtime) -> Task[Listing[Offer]]:
    return runtime.spawn(f"offers-{market.name}", lambda: market.list_offers(query))


def _answer(
    market: Market, task: Task[Listing[Offer]], runtime: Runtime, deadline: float, limit_s: float
) -> MarketAnswer:
    if runtime.wait_any([task.done], deadline) is None:
        task.cancel()
        return MarketAnswer(provider=market.name, error=f"did not answer within {limit_s:g} s")
    try:
        listing = task.result()
    except Stopped:
        raise
    except GipperError as error:
        return MarketAnswer(provider=market.name, error=_sorry(market, error.message), hint=error.hint)
    except Exception as error:  # noqa: BLE001 - any plugin's code may have run; the other markets go on
        text = f"{type(error).__name__}: {error}"
        return MarketAnswer(provider=market.name, error=_sorry(market, text))
    return _checked(market.name, listing)


def _checked(provider: str, listing: object) -> MarketAnswer:
    if not isinstance(listing, Listing):
        return MarketAnswer(provider=provider, error=f"could not list offers (got {type(listing).__name__})")
    return MarketAnswer(provider=provider, offers=listing.items, notes=listing.notes)


def _sorry(market: Market, text: str) -> str:
    # Error texts of sessions and plugins often begin with the provider's name, which the note has too.
    line = " ".join(text.split())[:300].removeprefix(f"{market.name}: ")
    return f"could not list offers ({line})"
