"""Checks what providers answer, before core believes any of it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeVar

import attrs

from gipper.http_urls import is_this_computer
from gipper.plugins.blame import shown
from gipper.values.bills import Account, Bill
from gipper.values.machines import Machine, MachineState
from gipper.values.offers import Listing, Offer

T = TypeVar("T")


class BadAnswer(Exception):
    """An answer that the hook's contract doesn't allow; the text completes "gipper_x ..."."""


def offers(answer: object, provider: str) -> Listing[Offer]:
    """The sensible offers of a listing; the others are dropped, counted by reason in a note.

    Raises BadAnswer where it isn't a listing at all.
    """
    items, notes = _listed(answer)
    kept: dict[str, Offer] = {}
    dropped: Counter[str] = Counter()
    for item in items:
        fault = _offer_fault(item, provider, kept)
        if fault is None:
            kept[item.id] = item
        else:
            dropped[fault] += 1
    return Listing(items=tuple(kept.values()), notes=(*notes, *_notes(provider, dropped)))


def _offer_fault(item: object, provider: str, kept: Mapping[str, Offer]) -> str | None:
    if not isinstance(item, Offer):
        return "not an offer"
    price = item.usd_h
    # A Decimal that isn't finite can't be compared; is_finite comes first.
    if not isinstance(price, Decimal) or not price.is_finite() or price < 0:
        return "price is no amount of dollars"
    if not isinstance(item.id, str) or not item.id:
        return "no id"
    if item.provider != provider:
        return "another provider's"
    return "id given twice" if item.id in kept else None


def _notes(provider: str, dropped: Counter[str]) -> list[str]:
    return [f"{provider}: {n} offer(s) left out: {why}" for why, n in sorted(dropped.items())]


def machines(answer: object, provider: str) -> Listing[Machine]:
    """A complete listing. Raises BadAnswer for anything else: a doubtful listing proves nothing."""
    items, notes = _listed(answer)
    return Listing(items=tuple(machine(m, provider) for m in items), notes=notes)


def _listed(answer: object) -> tuple[Sequence[Any], tuple[str, ...]]:
    """A listing's items and notes; a lazy one is refused: it could still fail, or end early."""
    if not isinstance(answer, Listing):
        raise BadAnswer(f"returned {shown(answer)} instead of a Listing")
    items: object = answer.items
    notes: object = answer.notes
    if not isinstance(items, (tuple, list)) or not isinstance(notes, (tuple, list)):
        raise BadAnswer(f"returned a Listing of {shown(items)} with notes {shown(notes)}")
    return items, tuple(str(n) for n in notes)


def machine(answer: object, provider: str, wanted: str | None = None) -> Machine:
    """A machine of this provider (and of id `wanted`); a price that is no price becomes unknown."""
    if not isinstance(answer, Machine):
        raise BadAnswer(f"returned {shown(answer)} instead of a Machine")
    if answer.provider != provider or not isinstance(answer.id, str) or not answer.id:
        raise BadAnswer(f"returned a machine of provider {answer.provider!r} with id {answer.id!r}")
    if wanted is not None and answer.id != wanted:
        raise BadAnswer(f"returned machine {answer.id!r} when asked about {wanted!r}")
    if not isinstance(answer.state, MachineState) or not isinstance(answer.name, str):
        raise BadAnswer(f"returned machine {answer.id} with state {answer.state!r}, name {answer.name!r}")
    return priced(answer)


def priced(found: Machine) -> Machine:
    """`found`, its price unknown where what stands there is no price."""
    return found if _is_price(found.usd_h) else attrs.evolve(found, usd_h=None)


def elsewhere(found: Machine) -> Machine:
    """`found` without addresses that are this computer's own."""
    kept = tuple(a for a in found.addresses if not is_this_computer(a.host))
    return found if kept == found.addresses else attrs.evolve(found, addresses=kept)


def _is_price(value: object) -> bool:
    return value is None or (isinstance(value, Decimal) and value.is_finite() and value >= 0)


def bills(answer: object) -> tuple[Bill, ...] | None:
    """Bills with finite dollars and aware times; None where the market has none."""
    if answer is None:
        return None
    found = sequence(answer, Bill)
    for bill in found:
        if not isinstance(bill.usd, Decimal) or not bill.usd.is_finite():
            raise BadAnswer(f"returned a bill of {bill.usd!r} dollars")
        if not bill.machine_id or not (_aware(bill.since) and _aware(bill.until)):
            raise BadAnswer("returned a bill without a machine's id or with times that aren't aware")
    return found


def _aware(moment: object) -> bool:
    return isinstance(moment, datetime) and moment.utcoffset() is not None


def account(answer: object) -> Account | None:
    """Known figures are finite dollars; unknown ones stay None."""
    found = one(answer, Account)
    for field in attrs.fields(Account):
        value = getattr(found, field.name, None)
        if value is not None and not (isinstance(value, Decimal) and value.is_finite()):
            raise BadAnswer(f"returned an account with {field.name} {value!r}")
    return found


def one(answer: object, kind: type[T]) -> T | None:
    """A `kind`, or None."""
    if answer is not None and not isinstance(answer, kind):
        raise BadAnswer(f"returned {shown(answer)} instead of {kind.__name__}")
    return answer


def sequence(answer: object, kind: type[T]) -> tuple[T, ...]:
    """A sequence of `kind`; None counts as empty."""
    if answer is None:
        return ()
    if not isinstance(answer, Sequence) or isinstance(answer, str):
        raise BadAnswer(f"returned {shown(answer)} instead of a sequence of {kind.__name__}")
    return tuple(_each(answer, kind))


def _each(items: Iterable[object], kind: type[T]) -> Iterable[T]:
    for item in items:
        if not isinstance(item, kind):
            raise BadAnswer(f"returned {shown(item)} among its {kind.__name__}s")
        yield item
