"""What planning answers: ranked offers whose estimates are built when asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from decimal import Decimal
from typing import Any, Final, Protocol, overload

import attrs

from gipper.costs import CostModel
from gipper.estimate_wire import estimate
from gipper.filters import WORDS
from gipper.market import Market
from gipper.values.estimates import CostAdjustment, Estimate, Phases
from gipper.values.jobs import Job
from gipper.values.offers import Offer
from gipper.values.receipts import Rtt


class PlanningProvider(Market, Protocol):
    """The part of a provider's handle that planning needs."""

    def exclude_offers(self, offers: Sequence[Offer], job: Job) -> Mapping[str, Sequence[tuple[str, str]]]:
        """Offer ids to leave out, each with (plugin, reason) of all hooks. Raises PluginError."""

    def adjust_costs(
        self, offers: Sequence[Offer], job: Job, phases: Mapping[str, Phases]
    ) -> Mapping[str, Sequence[CostAdjustment]]:
        """Adjustments by offer id, of all hooks. Raises PluginError."""


class RankedOffer(Mapping[str, Any]):
    """An offer with its place in the plan.

    As a mapping it answers to the offer's fields (`r["usd_h"]`), to `provider`, `score`, `has_key` and
    `estimate`. `handle` is the provider that lists it. Immutable; the estimate is built at first use.
    """

    __slots__ = ("_adjustments", "_estimate", "_model", "_rtt", "handle", "has_key", "offer", "score")

    def __init__(
        self, handle: PlanningProvider, model: CostModel, offer: Offer, adjustments: Sequence[CostAdjustment]
    ) -> None:
        self.offer = offer
        self.handle = handle
        self.has_key = handle.has_key()
        self.score = model.figures(offer, adjustments).score
        self._model = model
        self._adjustments = adjustments
        self._rtt: tuple[float | None, str | None] = (None, None)
        self._estimate: Estimate | None = None

    def with_rtt(self, ms: float | None, basis: str | None) -> RankedOffer:
        """The same offer, its estimate with the round trip in milliseconds and where that comes from."""
        changed = copy(self)
        changed._rtt, changed._estimate = (ms, basis), None
        return changed

    def __repr__(self) -> str:
        return f"<{self.provider} offer {self.offer.id}: ${self.offer.usd_h}/h, score {self.score:.3f}>"

    @property
    def provider(self) -> str:
        """The provider's name."""
        return self.offer.provider

    @property
    def estimate(self) -> Estimate:
        """The whole estimate; from the same figures that ranked the offer."""
        if self._estimate is None:
            made = estimate(self._model, self.offer, self._adjustments)
            ms, basis = self._rtt
            flat = {**made.flat, "measured_rtt_ms": ms}
            self._estimate = attrs.evolve(made, rtt_ms=ms, rtt_basis=basis, flat=flat)
        return self._estimate

    # Two offers are the same only if they are one: comparing contents would build both estimates.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __getitem__(self, key: str) -> Any:
        if key in _OWN:
            return getattr(self, key)
        if key in _OFFER:
            return getattr(self.offer, key)
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        yield from (*_OFFER, *_OWN)

    def __len__(self) -> int:
        return len(_OFFER) + len(_OWN)


class Ranking(Sequence[RankedOffer]):
    """Ranked offers, best first; each `RankedOffer` is made when it is first looked at.

    `make` builds the one with a number, `offer` tells its offer alone. `groups` are numbers in rank
    order, one group for each preferred GPU and one for the rest, markets without a key behind all others.
    """

    def __init__(
        self,
        make: Callable[[int], RankedOffer],
        groups: Sequence[Sequence[int]],
        offer: Callable[[int], Offer],
    ) -> None:
        self._make = make
        self._groups = groups
        self._offer = offer
        self._order = [number for group in groups for number in group]
        self._made: dict[int, RankedOffer] = {}

    def offers(self) -> Iterator[Offer]:
        """The offers alone, best first: quick, however many there are."""
        return map(self._offer, self._order)

    def reordered(
        self, key: Callable[[Offer], tuple[float, float]], change: Callable[[RankedOffer], RankedOffer]
    ) -> Ranking:
        """Each group sorted by `key`, as it was where keys are equal; `change` is made to every offer."""
        groups = [sorted(group, key=lambda number: key(self._offer(number))) for group in self._groups]
        return Ranking(lambda number: change(self._get(number)), groups, self._offer)

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, index: int) -> RankedOffer: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[RankedOffer, ...]: ...
    def __getitem__(self, index: int | slice) -> RankedOffer | tuple[RankedOffer, ...]:
        if isinstance(index, slice):
            return tuple(self._get(number) for number in self._order[index])
        return self._get(self._order[index])

    def _get(self, number: int) -> RankedOffer:
        if number not in self._made:
            self._made[number] = self._make(number)
        return self._made[number]


_OWN: Final = ("score", "has_key", "estimate")
_OFFER: Final = tuple(f.name for f in attrs.fields(Offer))


@attrs.frozen(kw_only=True)
class Plan:
    """All that asking the markets gave.

    `left_out` counts offers by reason. `asked` are the markets that were asked, `failed` those of them
    that had no answer. `price_ceiling` is the job's `gpu.max_usd_per_h`, None where it sets none. `rtts`
    are round trips that were measured for it, as a run's receipts.
    """

    ranked: Sequence[RankedOffer]
    notes: tuple[str, ...] = ()
    left_out: Mapping[str, int] = attrs.field(factory=dict)
    seen: int = 0
    asked: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    price_ceiling: Decimal | None = None
    rtts: tuple[Rtt, ...] = ()

    @property
    def all_failed(self) -> bool:
        """True where markets were asked and none answered."""
        return bool(self.asked) and set(self.asked) == set(self.failed)

    def left_out_lines(self) -> tuple[str, ...]:
        """One line per reason, most offers first."""
        counted = sorted(self.left_out.items(), key=lambda item: (-item[1], item[0]))
        return tuple(f"{n} offer(s) left out: {WORDS.get(reason, reason)}" for reason, n in counted)
