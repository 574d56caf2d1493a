"""Boxes as offers: what was probed, held against what the inventory says. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

import attrs

from gipper.api import Offer, OfferQuery, parse_gpu_name
from gipper_ssh.answers import Card, Facts, Held, same_cards
from gipper_ssh.info import PROVIDER
from gipper_ssh.inventory import Box

_MINUTE: Final = 60


@attrs.frozen(kw_only=True)
class Seen:
    """One look at a box."""

    held: Held | None
    facts: Facts


def offer(box: Box, seen: Seen, query: OfferQuery) -> Offer | str:
    """The box's offer for `query`, or why it has none."""
    cards = same_cards(seen.facts.cards)
    why = _unfit(box, seen, query, cards)
    if why is not None:
        return why
    chosen = cards[: query.gpu_count]
    facts = seen.facts
    return Offer(
        provider=PROVIDER,
        id=box.name,
        usd_h=box.usd_h,
        gpu=chosen[0].model if chosen else None,
        gpu_count=len(chosen),
        kind="vm",
        cloud="SECURE",
        region=box.country,
        where=box.where or " ".join(word for word in (box.name, box.country) if word),
        host_id=box.name,
        disk_gb=facts.disk_gb,
        memory_gb=facts.memory_gb,
        cpus=facts.cpus,
        driver=chosen[0].driver if chosen else None,
        down_mbps=box.down_mbps,
        up_mbps=box.up_mbps,
        download_usd_per_gb=Decimal(0),
        upload_usd_per_gb=Decimal(0),
        udp=True,
        address=box.address,
        raw={"visible": _visible(chosen, facts.cards)},
    )


def _unfit(box: Box, seen: Seen, query: OfferQuery, cards: Sequence[Card]) -> str | None:
    if seen.held is not None and seen.held.left_s > 0:
        return f"leased to {seen.held.name} for another {_span(seen.held.left_s)}"
    if seen.facts.lacks:
        return f"it lacks {', '.join(seen.facts.lacks)}"
    return _other_cards(box, seen.facts) or _too_few(query, cards, seen.facts)


def _other_cards(box: Box, facts: Facts) -> str | None:
    """A card that fell off the bus, or a box that isn't the one that was meant."""
    found = len(facts.cards)
    if box.gpus is not None and found != box.gpus:
        return f"the inventory says {box.gpus} GPU(s), nvidia-smi names {found}" + _why(facts)
    if box.gpu is not None:
        wanted = parse_gpu_name(box.gpu).words
        other = next(
            (c.model.name for c in facts.cards if parse_gpu_name(c.model.name).words != wanted), None
        )
        return None if other is None else f"the inventory says {box.gpu}, nvidia-smi names {other}"
    return None


def _too_few(query: OfferQuery, cards: Sequence[Card], facts: Facts) -> str | None:
    if query.gpu_count <= len(cards):
        return None
    return f"it has {len(cards)} GPU(s) of a kind, the job asks for {query.gpu_count}" + _why(facts)


def _why(facts: Facts) -> str:
    return f" ({facts.no_gpus})" if facts.no_gpus else ""


def _visible(chosen: Sequence[Card], cards: Sequence[Card]) -> str:
    """CUDA_VISIBLE_DEVICES for a job that gets some of the box's GPUs; "" where it gets all or none."""
    return ",".join(str(card.index) for card in chosen) if 0 < len(chosen) < len(cards) else ""


def _span(seconds: int) -> str:
    return f"{seconds} s" if seconds < 2 * _MINUTE else f"{seconds // _MINUTE} min"
