"""Receipts folded to one record for each machine ever rented: all that its bill is judged by. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

import attrs

from gipper.money import ZERO
from gipper.values.receipts import (
    PodCreate,
    PodIntent,
    PodReady,
    PodReappeared,
    PodTerminate,
    PodTerminated,
    Receipt,
    Spend,
    SpendBilled,
    parse_stamp,
)

Key = tuple[str, str]


@attrs.frozen(kw_only=True)
class Evidence:
    """A receipt as a claim names it."""

    seq: int
    id: str
    kind: str
    ts: datetime

    @classmethod
    def of(cls, receipt: Receipt) -> Evidence:
        """What names `receipt`."""
        return cls(seq=receipt.seq, id=receipt.id, kind=receipt.kind, ts=receipt.ts)


@attrs.frozen(kw_only=True)
class Recorded:
    """A bill as the ledger holds it; `detail` is dollars by kind of charge."""

    at: datetime
    usd: Decimal
    detail: Mapping[str, Decimal]
    receipt: Evidence


@attrs.frozen(kw_only=True)
class Computed:
    """What the receipts say of a machine's cost: `usd` for `seconds` at `usd_h`."""

    at: datetime
    usd: Decimal
    seconds: float
    usd_h: Decimal
    upper_bound: bool
    gpu: str | None


@attrs.define(kw_only=True)
class Rented:
    """One machine. `usd_h` is the offer's rate, `begun` the intent to rent it (else its creation).

    `gone`: when the last look of its proof began; None while it isn't proved gone. `asked`: when its end was
    first accepted. `ready_s`: seconds until SSH answered; None = it never did.
    """

    provider: str
    pod: str
    name: str
    run: str | None
    job: str
    begun: datetime
    created: datetime
    usd_h: Decimal
    gpus: int | None = None
    ready_s: float | None = None
    asked: datetime | None = None
    gone: datetime | None = None
    computed: Computed | None = None
    bills: list[Recorded] = attrs.field(factory=list)
    receipts: list[Evidence] = attrs.field(factory=list)

    @property
    def key(self) -> Key:
        """Provider and machine id."""
        return self.provider, self.pod

    @property
    def billed(self) -> Recorded | None:
        """The fullest bill: each is fuller than the one before, a smaller one saw less of the machine."""
        return max(self.bills, key=lambda bill: bill.usd, default=None)

    @property
    def dying_s(self) -> float:
        """Seconds between the accepted order to end and the proof: a market may charge for them."""
        if self.asked is None or self.gone is None:
            return 0.0
        return max(0.0, (self.gone - self.asked) / timedelta(seconds=1))

    def rests_on(self, *kinds: str) -> tuple[Evidence, ...]:
        """The receipts of `kinds`, in order."""
        return tuple(e for e in self.receipts if e.kind in kinds)


@attrs.define
class Rentals:
    """All machines by provider and id; `intents` by the machine's name."""

    machines: dict[Key, Rented] = attrs.field(factory=dict)
    intents: dict[str, Receipt] = attrs.field(factory=dict)

    @classmethod
    def of(cls, receipts: Iterable[Receipt]) -> Rentals:
        """What `receipts` (in order) amount to; kinds that don't matter here are passed over."""
        found = cls()
        for receipt in receipts:
            handler = _HANDLERS.get(receipt.kind)
            if handler is not None:
                handler(found, receipt)
        return found

    def at(self, provider: str) -> list[Rented]:
        """The provider's machines, oldest first."""
        return [m for m in self.machines.values() if m.provider == provider]

    def get(self, provider: str, pod: str) -> Rented | None:
        """The machine, or None where the receipts don't know it."""
        return self.machines.get((provider, pod))


def _key(r: Receipt) -> Key:
    return str(r["provider"]), str(r["pod"])


def _noted(found: Rentals, r: Receipt) -> Rented | None:
    machine = found.machines.get(_key(r))
    if machine is not None:
        machine.receipts.append(Evidence.of(r))
    return machine


def _intent(found: Rentals, r: Receipt) -> None:
    found.intents[str(r["name"])] = r


def _create(found: Rentals, r: Receipt) -> None:
    known = found.machines.get(_key(r))
    if known is not None and known.name == r["name"]:
        known.receipts.append(Evidence.of(r))
        return
    intent = found.intents.get(str(r["name"]))
    machine = found.machines[_key(r)] = _machine(r, intent)
    machine.receipts += [Evidence.of(seen) for seen in (intent, r) if seen is not None]


def _machine(r: Receipt, intent: Receipt | None) -> Rented:
    begun = r.ts if intent is None else intent.ts
    return Rented(
        provider=str(r["provider"]), pod=str(r["pod"]), name=str(r["name"]), run=r.run,
        job=r.refs.get("name", ""), begun=begun, created=begun if r["adopted"] else r.ts,
        usd_h=r["usd_h"] if intent is None else intent["usd_h"],
        gpus=None if intent is None else int(intent["gpu_count"]),
    )  # fmt: skip


def _ready(found: Rentals, r: Receipt) -> None:
    machine = _noted(found, r)
    if machine is not None and machine.ready_s is None:
        machine.ready_s = float(r["seconds"])


def _terminate(found: Rentals, r: Receipt) -> None:
    machine = _noted(found, r)
    if machine is not None and r["answered"] is not None:
        machine.asked = machine.asked or parse_stamp(r["answered"])


def _terminated(found: Rentals, r: Receipt) -> None:
    machine = _noted(found, r)
    if machine is not None:
        machine.gone = max(map(parse_stamp, (r["described"], *r["listings"])))


def _reappeared(found: Rentals, r: Receipt) -> None:
    machine = _noted(found, r)
    if machine is not None:
        # Its proof has fallen: what was billed since then is owed until it is proved gone again.
        machine.gone = None


def _spend(found: Rentals, r: Receipt) -> None:
    machine = _noted(found, r)
    if machine is not None:
        machine.computed = Computed(
            at=r.ts, usd=r["usd"], seconds=float(r["seconds"]), usd_h=r["usd_h"],
            upper_bound=r["basis"] == "upper bound", gpu=r.payload.get("gpu"),
        )  # fmt: skip


def _billed(found: Rentals, r: Receipt) -> None:
    machine = _noted(found, r)
    if machine is not None:
        machine.bills.append(
            Recorded(at=r.ts, usd=r["usd"], detail=r["detail"], receipt=Evidence.of(r)),
        )


_HANDLERS: Final[Mapping[str, Callable[[Rentals, Receipt], None]]] = {
    PodIntent.kind: _intent,
    PodCreate.kind: _create,
    PodReady.kind: _ready,
    PodTerminate.kind: _terminate,
    PodTerminated.kind: _terminated,
    PodReappeared.kind: _reappeared,
    Spend.kind: _spend,
    SpendBilled.kind: _billed,
}
KINDS: Final = frozenset(_HANDLERS)


def total(amounts: Iterable[Decimal]) -> Decimal:
    """The sum of dollars; 0 dollars for none."""
    return sum(amounts, ZERO)
