"""Writing down what went around gipper: which machine it was about, and the receipt. Pure."""

from __future__ import annotations

from datetime import datetime

import attrs

from gipper.custody.clean import without_secrets
from gipper.custody.stays import HAPPENED, Trail
from gipper.errors import ConfigError
from gipper.redact import Redactor
from gipper.values.receipts import CustodyNote, stamp

LONGEST = 4000


@attrs.frozen(kw_only=True)
class Noted:
    """A receipt, ready to be written; `hidden`: what looked like a secret was left out."""

    payload: CustodyNote
    run: str | None
    refs: dict[str, str]
    hidden: bool


def noted(
    trail: Trail, redactor: Redactor, *, run: str | None, provider: str | None, pod: str | None, text: str,
    by: str, at: datetime | None, now: datetime,
) -> Noted:  # fmt: skip
    """The note for one machine, or for a run or provider as a whole where `pod` is None and can't be told.

    Raises ConfigError for an empty or overlong text, a moment to come, and a run or machine that the ledger
    doesn't know or that leaves open which provider is meant.
    """
    told = text.strip()
    if not told or len(told) > LONGEST:
        raise ConfigError(
            f"the note is {'empty' if not told else f'over {LONGEST:,} characters'}: nothing was recorded",
            hint='gipper custody record RUN "opened a shell and pasted a token"',
        )
    if at is not None and at > now:
        raise ConfigError(
            "--at lies in the future: nothing was recorded", hint="say when it happened, in UTC"
        )
    market, machine = _about(trail, run, provider, pod)
    shown = without_secrets(told, redactor)
    refs = {"name": trail.runs[run].job} if run in trail.runs and run is not None else {}
    if at is not None:
        refs[HAPPENED] = stamp(at)
    payload = CustodyNote(provider=market, pod=machine, text=shown, by=without_secrets(by, redactor))
    return Noted(payload=payload, run=run, refs=refs, hidden=shown != told)


def _about(trail: Trail, run: str | None, provider: str | None, pod: str | None) -> tuple[str, str | None]:
    fitting = [
        s for s in trail.stays.values()
        if run in (None, s.run) and provider in (None, s.provider) and pod in (None, s.pod)
    ]  # fmt: skip
    named = run is not None or pod is not None
    if run is not None and run not in trail.runs and not fitting:
        raise ConfigError(
            f"the ledger has no run {run!r}: nothing was recorded", hint="gipper pod cost lists runs"
        )
    if named and len(fitting) == 1:
        return fitting[0].provider, fitting[0].pod
    markets = {s.provider for s in fitting} if named else set()
    if provider is not None:
        # A machine that the ledger doesn't know is what this command is for, too.
        return provider, pod
    if len(markets) == 1 and pod is None:
        return markets.pop(), None
    raise ConfigError(
        "which provider's machine is meant can't be told: nothing was recorded",
        hint='gipper custody record --provider NAME --machine ID "what was done"',
    )
