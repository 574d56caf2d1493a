"""Which markets take part in a plan, in which order, and why the others don't."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from gipper.errors import ConfigError
from gipper.market import Market
from gipper.values.jobs import Job
from gipper.values.settings import Settings

M = TypeVar("M", bound=Market)


def taking_part(
    job: Job, settings: Settings, installed: Sequence[M], *, keyless: bool = False
) -> tuple[tuple[M, ...], tuple[str, ...]]:
    """(markets to ask, notes on those that are not).

    The job's `gpu.providers` in their order, else the settings', else all installed that needn't be
    named. `keyless` takes in markets that list offers without a key. Raises ConfigError where names
    were given and none of them is installed.
    """
    named = job.gpu.providers if job.gpu.providers is not None else settings.providers
    chosen, notes = _named(named, installed) if named is not None else (_unnamed(installed), [])
    taken: list[M] = []
    for market in chosen:
        why = _why_not(market, job, keyless)
        if why is None:
            taken.append(market)
        else:
            notes.append(f"{market.name}: {why}")
    return tuple(taken), tuple(notes)


def _unnamed(installed: Sequence[M]) -> list[M]:
    return sorted((m for m in installed if not m.info.named_only), key=lambda m: m.name)


def _named(names: Sequence[str], installed: Sequence[M]) -> tuple[list[M], list[str]]:
    by_name = {m.name: m for m in installed}
    wanted = list(dict.fromkeys(names))
    missing = [n for n in wanted if n not in by_name]
    if missing and len(missing) == len(wanted):
        packages = " ".join(f"gipper-{n}" for n in missing)
        raise ConfigError(
            f"no provider of that name is installed: {', '.join(missing)}", hint=f"pip install {packages}"
        )
    notes = [f"{n}: not installed (pip install gipper-{n})" for n in missing]
    return [by_name[n] for n in wanted if n in by_name], notes


def _why_not(market: Market, job: Job, keyless: bool) -> str | None:
    if job.gpu.count == 0 and not market.info.cpu:
        return "skipped, it lists no machines without a GPU"
    if market.has_key() or (keyless and market.info.keyless_offers):
        return None
    return f"skipped, {market.info.key_name or 'its key'} is not set"
