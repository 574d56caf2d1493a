"""Decides whether the GPUs are what was offered, idle, and enough for the job. Pure functions.

Each returns the reason against the machine, or None.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gipper.api import GpuModel, GpuName, Job, Machine, known_gpu, memory_as_sold, parse_gpu_name
from gipper.builtin.checks.gpu_answer import BUSY_PERCENT, Card, version

# The driver keeps some hundred MiB of an idle card, more on a big one.
IDLE_MIB: Final = 1024.0
IDLE_SHARE: Final = 0.02
# Error correction and firmware take up to a sixteenth; a 288 GB card shows 269 GiB.
SHOWN_AT_LEAST: Final = 0.92
_OTHER_CARD: Final = frozenset({"ti", "super", "d", "laptop", "mobile", "ada", "pro"})
# A sharing daemon that some hosts run for every container, and that computes nothing by itself.
_HARMLESS: Final = "nvidia-cuda-mps"


def not_as_offered(cards: Sequence[Card], machine: Machine, count: int) -> str | None:
    """Fewer cards than offered, another model, or less memory."""
    if len(cards) < count:
        return f"{count} GPU(s) were offered, nvidia-smi names {len(cards)}"
    if machine.gpu is None:
        return None
    for card in cards:
        reason = _other_model(card, machine.gpu) or _less_memory(card, machine.gpu)
        if reason is not None:
            return reason
    return None


def busy(cards: Sequence[Card], apps: Sequence[str]) -> str | None:
    """Memory or processors in use, or a process that computes."""
    for card in cards:
        if card.used is not None and card.used > max(IDLE_MIB, IDLE_SHARE * (card.memory or 0.0)):
            return f"GPU {card.index} is busy: {card.used:g} MiB of its memory are in use{_also(card)}"
        if card.use is not None and card.use > BUSY_PERCENT:
            return f"GPU {card.index} is busy: {card.use:g} % in use"
    foreign = [app for app in apps if _HARMLESS not in app]
    return f"the GPU is busy: somebody else's process computes on it ({foreign[0]})" if foreign else None


def unsuitable(cards: Sequence[Card], job: Job, machine: Machine) -> str | None:
    """Below the job's floor of compute capability, or of memory where the offer didn't tell it."""
    floor = job.gpu.capability
    for card in cards:
        if floor is not None and card.capability is not None and card.capability < floor:
            return (
                f"GPU {card.index} ({card.name}) has compute capability {version(card.capability)}, "
                f"the job needs {version(floor)}"
            )
        told = machine.gpu is not None and machine.gpu.memory_gb > 0
        if not told and _short_of(card, job.gpu.min_mem_gb):
            return (
                f"GPU {card.index} ({card.name}) has {_size(card)}, the job needs {job.gpu.min_mem_gb:g} GB"
            )
    return None


def same_card(offered: GpuName, reported: GpuName, *, both_known: bool) -> bool:
    """Whether two names can mean one card: same words; form factor and edition only where both tell.

    Where the table lacks one of them, further words (a board code, a share of a card) may follow.
    """
    if offered.words != reported.words:
        more = set(offered.words) ^ set(reported.words)
        nested = set(offered.words) <= set(reported.words) or set(reported.words) <= set(offered.words)
        return not both_known and nested and not more & _OTHER_CARD
    pairs = ((offered.form, reported.form), (offered.edition, reported.edition))
    return all(one is None or other is None or one == other for one, other in pairs)


def _other_model(card: Card, offered: GpuModel) -> str | None:
    names = (offered.name, card.name)
    if not all(parse_gpu_name(name).words for name in names):
        return None
    both = all(known_gpu(name) is not None for name in names)
    if same_card(parse_gpu_name(offered.name), parse_gpu_name(card.name), both_known=both):
        return None
    return f"{offered.name} was offered, GPU {card.index} is {card.name} with {_size(card)}"


def _less_memory(card: Card, offered: GpuModel) -> str | None:
    if not _short_of(card, offered.memory_gb):
        return None
    return f"{offered.memory_gb:g} GB a GPU were offered, GPU {card.index} ({card.name}) has {_size(card)}"


def _short_of(card: Card, wanted_gb: float) -> bool:
    return card.memory is not None and card.memory / 1024 < wanted_gb * SHOWN_AT_LEAST


def _size(card: Card) -> str:
    return "unknown memory" if card.memory is None else f"{memory_as_sold(card.memory):g} GB"


def _also(card: Card) -> str:
    return f", {card.use:g} % in use" if card.use else ""
