"""Asking markets for their charges, side by side, and recording what is new: billing's one way out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Final

import attrs

from gipper.billing import recording, traffic
from gipper.billing.audit import audit
from gipper.billing.findings import Finding
from gipper.billing.recording import Whole
from gipper.billing.rentals import KINDS, Key, Rentals
from gipper.errors import GipperError
from gipper.ledger.protocol import LedgerReader, LedgerStore
from gipper.plugins.handle import Provider
from gipper.runtime import Runtime, Task
from gipper.values.bills import Bill
from gipper.values.receipts import SpendBilled

LIMIT_S: Final = 300.0


@attrs.frozen(kw_only=True)
class Answer:
    """One market's charges since `since`. `bills` is None where it tells none, or couldn't be asked.

    `missing` is the name of a key that isn't set, `error` why the market couldn't be asked.
    """

    provider: str
    since: datetime
    bills: tuple[Bill, ...] | None = None
    missing: str | None = None
    error: str | None = None

    @property
    def asked(self) -> bool:
        """Whether the market was asked for bills at all."""
        return self.error is not None or self.bills is not None


@attrs.frozen(kw_only=True)
class Reconciled:
    """What a reconcile did: every market's answer, and the bills that were recorded with their last ones."""

    answers: tuple[Answer, ...]
    recorded: tuple[Whole, ...]
    before: Mapping[Key, Decimal]
    rentals: Rentals


@attrs.frozen(kw_only=True)
class Examined:
    """What an audit found, the most dollars first, and every market's answer."""

    answers: tuple[Answer, ...]
    findings: tuple[Finding, ...]
    rentals: Rentals


def ask(
    providers: Sequence[Provider],
    runtime: Runtime,
    since: Callable[[Provider], datetime],
    *,
    limit_s: float = LIMIT_S,
) -> list[Answer]:
    """Each provider's charges from `since` to now, in their order. One that fails stops no other."""
    until, deadline = runtime.now(), runtime.monotonic() + limit_s
    starts = {p.name: since(p) for p in providers}
    tasks = {
        p.name: runtime.spawn(f"bills of {p.name}", _question(p, starts[p.name], until))
        for p in providers
        if p.has_key() and p.implements("gipper_billed")
    }
    return [_answer(p, starts[p.name], tasks.get(p.name), runtime, deadline) for p in providers]


def _question(provider: Provider, since: datetime, until: datetime) -> Callable[[], tuple[Bill, ...] | None]:
    return lambda: provider.billed(since, until)


def _answer(
    provider: Provider,
    since: datetime,
    task: Task[tuple[Bill, ...] | None] | None,
    runtime: Runtime,
    deadline: float,
) -> Answer:
    if not provider.has_key():
        return Answer(provider=provider.name, since=since, missing=provider.key_name)
    if task is None:
        return Answer(provider=provider.name, since=since)
    if runtime.wait_any([task.done], deadline) is None:
        task.cancel()
        return Answer(provider=provider.name, since=since, error="no answer in time")
    try:
        return Answer(provider=provider.name, since=since, bills=task.result())
    except GipperError as error:
        return Answer(provider=provider.name, since=since, error=error.message)


def reconcile(
    providers: Sequence[Provider], ledger: LedgerStore, runtime: Runtime, *, days: int
) -> Reconciled:
    """Record what `providers` have billed since `days` + 1 UTC midnights ago, for machines of this ledger.

    Idempotent, in any order, beside other writers. Raises LedgerError; a market that fails is an `Answer`
    with an `error`.
    """
    first = recording.first_day(runtime.now(), days)
    horizon = first - recording.LOOK_BACK
    rentals = Rentals.of(ledger.read(since=horizon, kinds=KINDS))
    answers = ask(providers, runtime, lambda p: recording.since_of(rentals.at(p.name), first))
    if any(_strange(answer, rentals) for answer in answers):
        # A machine that was rented before the horizon, or one that isn't ours: only all receipts can say.
        rentals = Rentals.of(ledger.read(kinds=KINDS))
        answers = [_uncut(answer, providers, rentals, runtime) for answer in answers]
    found = {k: w for a in answers for k, w in recording.wholes(a.provider, a.bills or ()).items()}
    recorded, before = _record(ledger, found, rentals)
    return Reconciled(answers=tuple(answers), recorded=recorded, before=before, rentals=rentals)


def examine(providers: Sequence[Provider], ledger: LedgerReader, runtime: Runtime, *, days: int) -> Examined:
    """Charges since `days` + 1 UTC midnights ago that don't fit the receipts. Records nothing.

    Raises LedgerError; a market that fails is an `Answer` with an `error`.
    """
    first = recording.first_day(runtime.now(), days)
    answers = ask(providers, runtime, lambda _p: first)
    # After the bills: a machine that is rented meanwhile must not look like a stranger's.
    rentals = Rentals.of(ledger.read(kinds=KINDS))
    moved = traffic.traffic_of(ledger.read(since=first - recording.LOOK_BACK, kinds=traffic.KINDS))
    now = runtime.now()
    found = [f for a in answers for f in audit(a.provider, a.bills or (), rentals, moved, now)]
    found.sort(key=lambda f: -f.usd)
    return Examined(answers=tuple(answers), findings=tuple(found), rentals=rentals)


def _strange(answer: Answer, rentals: Rentals) -> bool:
    return any(rentals.get(answer.provider, bill.machine_id) is None for bill in answer.bills or ())


def _uncut(answer: Answer, providers: Sequence[Provider], rentals: Rentals, runtime: Runtime) -> Answer:
    found = recording.wholes(answer.provider, answer.bills or ())
    earlier = recording.cut_since(found, rentals, answer.since)
    if earlier is None:
        return answer
    return ask([p for p in providers if p.name == answer.provider], runtime, lambda _p: earlier)[0]


def _record(
    ledger: LedgerStore, found: Mapping[Key, Whole], rentals: Rentals
) -> tuple[tuple[Whole, ...], Mapping[Key, Decimal]]:
    oldest = min((m.begun for k, m in rentals.machines.items() if k in found), default=None)
    if oldest is None:
        return (), {}
    # Nothing to write is the usual answer, and needs no writer's lock.
    if not recording.fuller(found, rentals, _last(ledger, oldest)):
        return (), {}
    with ledger.transaction() as tx:
        before = _last(tx, oldest)
        new = recording.fuller(found, rentals, before)
        for whole in new:
            machine = rentals.machines[whole.provider, whole.pod]
            refs = {"name": machine.job} if machine.job else {}
            tx.append(recording.receipt_of(whole), run=machine.run, refs=refs)
    return tuple(new), before


def _last(reader: LedgerReader, since: datetime) -> dict[Key, Decimal]:
    return recording.last_bills(reader.read(since=since, kinds={SpendBilled.kind}))
