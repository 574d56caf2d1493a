"""The hooks that several plugins answer side by side: exclusions, cost adjustments, preflight checks.

Each implementation is called by itself, so that what it says, or breaks, bears its name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import attrs

from gipper.errors import PluginError
from gipper.plugins.answers import BadAnswer, sequence
from gipper.plugins.blame import Implementation, Redact, shown
from gipper.remote import Remote
from gipper.values.estimates import CostAdjustment, Phases
from gipper.values.jobs import Job
from gipper.values.machines import Machine
from gipper.values.offers import Offer
from gipper.values.plugins import CheckResult

Reasons = dict[str, tuple[tuple[str, str], ...]]


@attrs.frozen(kw_only=True)
class NamedCheck:
    """One plugin's preflight check. `call` raises BadHost or Unsuitable, and PluginError with blame."""

    name: str
    call: Callable[[Remote, Job, Machine], CheckResult | None]


def exclusions(asked: Sequence[Implementation], offers: Sequence[Offer], job: Job, redact: Redact) -> Reasons:
    """Offer ids to leave out, each with (plugin, reason) pairs. Raises PluginError."""
    reasons: dict[str, list[tuple[str, str]]] = {}
    given = {"offers": tuple(offers), "job": job}
    for one in asked:
        for offer_id, reason in _mapping(one, one.ask(given, redact, PluginError), redact).items():
            if not isinstance(reason, str) or not reason.strip():
                raise one.broke(f"gave {shown(reason)} as the reason for {offer_id!r}", redact, PluginError)
            reasons.setdefault(offer_id, []).append((one.origin.entry, redact(reason)))
    return {offer_id: tuple(pairs) for offer_id, pairs in reasons.items()}


def adjustments(
    asked: Sequence[Implementation],
    offers: Sequence[Offer],
    job: Job,
    phases: Mapping[str, Phases],
    redact: Redact,
) -> dict[str, tuple[CostAdjustment, ...]]:
    """Checked adjustments by offer id, in the order of the plugins. Raises PluginError."""
    found: dict[str, tuple[CostAdjustment, ...]] = {}
    given = {"offers": tuple(offers), "job": job, "phases": MappingProxyType(phases)}
    for one in asked:
        answer = _mapping(one, one.ask(given, redact, PluginError), redact)
        for offer_id, values in answer.items():
            found[offer_id] = (*found.get(offer_id, ()), *_adjusted(one, offer_id, values, redact))
    return found


def checks(asked: Sequence[Implementation], redact: Redact) -> tuple[NamedCheck, ...]:
    """One check for each implementation, named after its plugin, in the order given."""
    return tuple(NamedCheck(name=one.origin.entry, call=_check(one, redact)) for one in asked)


def _check(one: Implementation, redact: Redact) -> Callable[[Remote, Job, Machine], CheckResult | None]:
    def call(remote: Remote, job: Job, machine: Machine) -> CheckResult | None:
        answer = one.ask({"remote": remote, "job": job, "machine": machine}, redact, PluginError)
        if answer is None:
            return None
        if not isinstance(answer, CheckResult) or not _plain(answer):
            raise one.broke(f"returned {shown(answer)}, no sensible CheckResult", redact, PluginError)
        return answer

    return call


def _plain(result: CheckResult) -> bool:
    facts: object = result.facts
    env: object = result.env
    if not isinstance(facts, Mapping) or not isinstance(env, Mapping):
        return False
    return all(isinstance(k, str) and isinstance(v, str) for k, v in env.items())


def _mapping(one: Implementation, answer: object, redact: Redact) -> Mapping[str, Any]:
    if answer is None:
        return {}
    if not isinstance(answer, Mapping) or not all(isinstance(k, str) for k in answer):
        raise one.broke(f"returned {shown(answer)} instead of a mapping by offer id", redact, PluginError)
    return answer


def _adjusted(
    one: Implementation, offer_id: str, values: object, redact: Redact
) -> tuple[CostAdjustment, ...]:
    try:
        found = sequence(values, CostAdjustment)
    except BadAnswer as fault:
        raise one.broke(f"{fault} for offer {offer_id!r}", redact, PluginError) from fault
    for value in found:
        if not _sensible(value):
            raise one.broke(f"gave {shown(value)} for offer {offer_id!r}", redact, PluginError)
    return found


def _sensible(value: CostAdjustment) -> bool:
    label = isinstance(value.label, str) and value.label.strip() != ""
    return label and _number(value.usd) and _number(value.factor) and value.factor >= 0


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
