"""What a box's words mean. Pure; a box is believed nothing that isn't of the right shape."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Final

import attrs

from gipper.api import GpuModel, Port, ProviderError, gpu_model, memory_as_sold, usd
from gipper_ssh.scripts import is_name
from gipper_ssh.talk import Answer

_GB: Final = 10**9
_PORT: Final = re.compile(r"(tcp|udp):([0-9]{1,5})")


@attrs.frozen(kw_only=True)
class Held:
    """A lease that a box has. `left_s` is by the box's clock, 0 = over; `box` as its renter calls it."""

    name: str
    left_s: int
    token: str
    box: str
    created: datetime | None = None
    usd_h: Decimal | None = None
    ports: tuple[Port, ...] = ()


@attrs.frozen(kw_only=True)
class Card:
    """A GPU by nvidia-smi's index."""

    index: int
    model: GpuModel
    driver: str


@attrs.frozen(kw_only=True)
class Facts:
    """What a box has: 10^9 bytes of free disk under the home folder and of memory in all; None = not told."""

    cards: tuple[Card, ...] = ()
    no_gpus: str | None = None
    disk_gb: float | None = None
    memory_gb: float | None = None
    cpus: float | None = None
    lacks: tuple[str, ...] = ()


def held(answer: Answer) -> Held | None:
    """The box's lease, None where it has none. Raises ProviderError where it can't tell."""
    name = answer.first("lease")
    if name == "none":
        return None
    left = _whole(answer.first("left"))
    if name is None or not is_name(name) or left is None:
        raise ProviderError(answer.first("fault") or "its answer about its lease makes no sense")
    return Held(
        name=name,
        left_s=left,
        token=answer.first("token") or "",
        box=answer.first("box") or "",
        created=_moment(answer.first("created")),
        usd_h=_dollars(answer.first("usd_h")),
        ports=_ports(answer.first("ports")),
    )


def facts(answer: Answer) -> Facts:
    """What the box has; unknown where it doesn't say, or says nonsense."""
    disk, memory, cpus = (_whole(answer.first(key)) for key in ("disk", "memory", "cpus"))
    cards = tuple(card for row in answer.every("gpu") if (card := _card(row)) is not None)
    return Facts(
        cards=cards,
        no_gpus=answer.first("no_gpus") or (None if cards else "nvidia-smi names no GPU"),
        disk_gb=None if disk is None else disk * 1024 / _GB,
        memory_gb=None if memory is None else memory * 1024 / _GB,
        cpus=None if cpus is None else float(cpus),
        lacks=answer.every("lacks"),
    )


def same_cards(cards: Sequence[Card]) -> tuple[Card, ...]:
    """The largest group of cards of one model: a job gets GPUs that are alike."""
    count = Counter(card.model for card in cards)
    most = max(count, key=lambda model: count[model], default=None)
    return tuple(card for card in cards if card.model == most)


def _card(row: str) -> Card | None:
    cells = [cell.strip() for cell in row.split(",")]
    index, mib = (_whole(cells[0]), _whole(cells[2])) if len(cells) == 5 else (None, None)
    if index is None or not mib or not cells[1]:
        return None
    model = gpu_model(cells[1], float(memory_as_sold(float(mib))))
    major, _, minor = cells[4].partition(".")
    if (told := (_whole(major), _whole(minor))) and told[0] is not None and told[1] is not None:
        model = attrs.evolve(model, compute_capability=(told[0], told[1]))
    return Card(index=index, model=model, driver=cells[3])


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 16 else None


def _moment(text: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment if moment.utcoffset() is not None else None


def _dollars(text: str | None) -> Decimal | None:
    try:
        return usd(text or "nan")
    except (ValueError, InvalidOperation):
        return None


def _ports(text: str | None) -> tuple[Port, ...]:
    found = (match for word in (text or "").split(",") if (match := _PORT.fullmatch(word)))
    return tuple(Port(inside=int(m[2]), protocol="tcp" if m[1] == "tcp" else "udp") for m in found)
