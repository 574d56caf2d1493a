"""How often a run may try again, and with which offer. Pure bookkeeping."""

from __future__ import annotations

from typing import Final

import attrs

from gipper.errors import BadHost, Doubtful, GipperError, NoCapacity, OfferGone, Refused, Unsuitable
from gipper.planning_values import RankedOffer

MAX_REPLACEMENTS: Final = 3
MAX_RACES: Final = 10
MAX_RACE_S: Final = 600.0


@attrs.define
class Tries:
    """Offers in order, and what went wrong so far. `began` and `now` are monotonic seconds."""

    offers: tuple[RankedOffer, ...]
    began: float
    replaced: int = 0
    races: int = 0
    causes: list[str] = attrs.field(factory=list)
    _used: set[tuple[str, str]] = attrs.field(factory=set)
    _closed: set[str] = attrs.field(factory=set)
    _bad_hosts: set[tuple[str, str]] = attrs.field(factory=set)
    _at: int = 0

    def next(self, now: float) -> RankedOffer | None:
        """The next offer worth a try; None where the offers or the bounds are used up."""
        if self.replaced > MAX_REPLACEMENTS or self.races >= MAX_RACES:
            return None
        if self.races and now - self.began > MAX_RACE_S:
            return None
        while self._at < len(self.offers):
            ranked = self.offers[self._at]
            self._at += 1
            offer = ranked.offer
            if offer.provider not in self._closed and (offer.provider, offer.host_id) not in self._bad_hosts:
                return ranked
        return None

    def failed(self, ranked: RankedOffer, error: GipperError, text: str) -> None:
        """Note how the try of `ranked` ended: it decides what is tried next."""
        offer = ranked.offer
        self.causes.append(f"{offer.provider} {offer.id}: {text}")
        if isinstance(error, Refused) and error.kind in ("account", "request"):
            self._closed.add(offer.provider)
        elif isinstance(error, (OfferGone, NoCapacity, Doubtful, Refused)):
            self.races += 1
        else:
            self.replaced += 1
            if offer.host_id is not None and isinstance(error, (BadHost, Unsuitable)):
                self._bad_hosts.add((offer.provider, offer.host_id))
