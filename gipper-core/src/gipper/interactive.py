"""Jobs that a person sits in front of: the round trip comes before the score."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import islice
from typing import Final

from gipper.estimate_wire import distance_km, position
from gipper.planning_values import RankedOffer, Ranking
from gipper.rtt import Prober, RoundTrip, measure
from gipper.runtime import Runtime
from gipper.values.jobs import Job
from gipper.values.offers import Offer
from gipper.values.receipts import Rtt

# How many of the best offers are probed: each is a packet to a stranger's machine.
PROBED: Final = 8
_MEASURED, _DISTANT, _UNKNOWN = 0.0, 1.0, 2.0

Place = tuple[float, float]


def is_interactive(job: Job) -> bool:
    """True where the job asks for a short way: either of its two keys says so."""
    return job.placement.profile == "interactive" or job.placement.objective == "latency"


def nearest_first(
    ranking: Ranking, here: Place | None, runtime: Runtime, probe: Prober | None = None
) -> tuple[Ranking, tuple[Rtt, ...]]:
    """`ranking` by round trip and what was measured for it, among GPUs that are equally preferred.

    The best offers that carry an address are probed. Measured ones come first, then those whose distance
    from `here` is known, then the rest; those that are alike keep the order of their scores.
    """
    probed = tuple(islice((offer for offer in ranking.offers() if offer.address), PROBED))
    trips = measure([str(offer.address) for offer in probed], runtime, probe=probe)
    nearness = Nearness(trips, here)
    rtts = tuple(
        Rtt(provider=o.provider, offer=o.id, ms=trip.ms, basis=trip.basis)
        for o in probed
        if (trip := trips.get(str(o.address))) is not None
    )
    return ranking.reordered(nearness.key, nearness.told), rtts


class Nearness:
    """How near offers are: measured, else from where they stand."""

    def __init__(self, trips: Mapping[str, RoundTrip], here: Place | None) -> None:
        self._trips, self._here = trips, here

    def key(self, offer: Offer) -> tuple[float, float]:
        """Sorts the nearest first."""
        if (trip := self._trip(offer)) is not None:
            return _MEASURED, trip.ms
        km = distance_km(self._here, position(offer))
        return (_UNKNOWN, 0.0) if km is None or not math.isfinite(km) else (_DISTANT, km)

    def told(self, ranked: RankedOffer) -> RankedOffer:
        """The ranked offer, its estimate saying how near it is and how that is known."""
        if (trip := self._trip(ranked.offer)) is not None:
            return ranked.with_rtt(trip.ms, trip.basis)
        kind, km = self.key(ranked.offer)
        return ranked.with_rtt(None, f"distance, {km:.0f} km" if kind == _DISTANT else "unknown")

    def _trip(self, offer: Offer) -> RoundTrip | None:
        return self._trips.get(offer.address) if offer.address else None
