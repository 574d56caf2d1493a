"""Providers that break one sentence each, made from the correct toy provider by a mixin.

`WRONG` maps a sentence's id to mixins: each of them must be caught by that sentence's check.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from itertools import count
from typing import Any, Final

import attrs

from gipper.api import (
    Account,
    Bill,
    CostAdjustment,
    Doubtful,
    KeyMissing,
    Machine,
    MachineState,
    NoCapacity,
    OfferGone,
    ProviderError,
    Refused,
    Watchdog,
    hookimpl,
)
from gipper.values.offers import Listing

_TURN = count()


class OtherEachTime:
    """Describes itself anew at each call."""

    @staticmethod
    @hookimpl
    def gipper_provider() -> Any:
        raise NotImplementedError


class HidesTheKeysName:
    """Says only that there is no key."""

    def ask(self) -> None:
        try:
            super().ask()  # type: ignore[misc]
        except KeyMissing as error:
            raise ProviderError("no key") from error


class NothingOnOffer:
    @hookimpl
    def gipper_list_offers(self, query: Any) -> Any:
        super().gipper_list_offers(query)  # type: ignore[misc]
        return Listing(items=())


class NotANumber:
    @hookimpl
    def gipper_list_offers(self, query: Any) -> Any:
        listing = super().gipper_list_offers(query)  # type: ignore[misc]
        return Listing(items=(attrs.evolve(listing.items[0], usd_h=Decimal("NaN")), *listing.items[1:]))


class LongCountryNames:
    @hookimpl
    def gipper_list_offers(self, query: Any) -> Any:
        listing = super().gipper_list_offers(query)  # type: ignore[misc]
        return Listing(items=tuple(attrs.evolve(o, region="USA") for o in listing))


class CheaperDisks:
    @hookimpl
    def gipper_list_offers(self, query: Any) -> Any:
        listing = super().gipper_list_offers(query)  # type: ignore[misc]
        disk = Decimal(repr(query.disk_gb)) / 1000
        return Listing(items=tuple(attrs.evolve(o, usd_h=o.usd_h - disk) for o in listing))


class EmptyForAnError:
    """Takes every failure for an empty market."""

    @hookimpl
    def gipper_list_offers(self, query: Any) -> Any:
        try:
            return super().gipper_list_offers(query)  # type: ignore[misc]
        except ProviderError:
            return Listing(items=())


class ErrorForEmpty:
    @hookimpl
    def gipper_list_offers(self, query: Any) -> Any:
        listing = super().gipper_list_offers(query)  # type: ignore[misc]
        if not listing.items:
            raise ProviderError("toy: no offers")
        return listing


class AdjustsStrangers:
    @hookimpl
    def gipper_adjust_costs(self, offers: Any) -> Any:
        return {"another": [CostAdjustment(label="x", usd=1.0)]}


class NamelessAdjustment:
    @hookimpl
    def gipper_adjust_costs(self, offers: Any) -> Any:
        return {o.id: [CostAdjustment(label=" ", usd=1.0)] for o in offers}


class NamesItOtherwise:
    """Makes the machine under a name of its own and tells the one that was asked for."""

    @hookimpl
    def gipper_rent(self, offer: Any, request: Any) -> Any:
        other = attrs.evolve(request, name="mine")
        machine = super().gipper_rent(offer, other)  # type: ignore[misc]
        return attrs.evolve(machine, name=request.name)


class ListsWithoutNames:
    @hookimpl
    def gipper_list_ours(self) -> Any:
        listing = super().gipper_list_ours()  # type: ignore[misc]
        return Listing(items=tuple(attrs.evolve(m, name="") for m in listing))


class RentsTwice:
    @hookimpl
    def gipper_rent(self, offer: Any, request: Any) -> Any:
        super().gipper_rent(offer, request)  # type: ignore[misc]
        return super().gipper_rent(offer, request)  # type: ignore[misc]


class _Retold:
    """Tells one refusal as another."""

    was: type[Exception] = OfferGone
    told: Any = None

    @hookimpl
    def gipper_rent(self, offer: Any, request: Any) -> Any:
        try:
            return super().gipper_rent(offer, request)  # type: ignore[misc]
        except self.was as error:
            raise self.told() from error


class GoneIsDoubtful(_Retold):
    was, told = OfferGone, staticmethod(lambda: Doubtful("who knows"))


class FullIsGone(_Retold):
    was, told = NoCapacity, staticmethod(lambda: OfferGone("gone"))


class EveryRefusalIsTheAccounts(_Retold):
    was, told = Refused, staticmethod(lambda: Refused("no", kind="account"))


class EveryRefusalIsTheRequests(_Retold):
    was, told = Refused, staticmethod(lambda: Refused("no", kind="request"))


class RentsAndRefuses:
    """Makes a machine and says that the offer is gone."""

    @hookimpl
    def gipper_rent(self, offer: Any, request: Any) -> Any:
        try:
            return super().gipper_rent(offer, request)  # type: ignore[misc]
        except OfferGone:
            self.market.create(request.name, offer.usd_h)  # type: ignore[attr-defined]
            raise


class TriesAgain:
    """Repeats a create whose answer was lost."""

    @hookimpl
    def gipper_rent(self, offer: Any, request: Any) -> Any:
        try:
            return super().gipper_rent(offer, request)  # type: ignore[misc]
        except (Doubtful, RuntimeError):
            return super().gipper_rent(offer, request)  # type: ignore[misc]


class LostIsGone:
    """Takes a lost answer for a refusal."""

    @hookimpl
    def gipper_rent(self, offer: Any, request: Any) -> Any:
        try:
            return super().gipper_rent(offer, request)  # type: ignore[misc]
        except (Doubtful, RuntimeError) as error:
            raise OfferGone("no answer") from error


class MakesUpAMachine:
    @hookimpl
    def gipper_rent(self, offer: Any, request: Any) -> Any:
        try:
            return super().gipper_rent(offer, request)  # type: ignore[misc]
        except Doubtful:
            return Machine(provider="toy", id="toy-0", name=request.name)


class DescribesAnother:
    @hookimpl
    def gipper_describe(self, machine_id: str) -> Any:
        found = super().gipper_describe(machine_id)  # type: ignore[misc]
        return None if found is None else attrs.evolve(found, name="another")


class KnowsEveryId:
    @hookimpl
    def gipper_describe(self, machine_id: str) -> Any:
        found = super().gipper_describe(machine_id)  # type: ignore[misc]
        return found or Machine(provider="toy", id=machine_id, name="x")


class GoneForAnError:
    """Takes every failure for a machine that is gone."""

    @hookimpl
    def gipper_describe(self, machine_id: str) -> Any:
        try:
            return super().gipper_describe(machine_id)  # type: ignore[misc]
        except ProviderError:
            return None


class NoAddress:
    @hookimpl
    def gipper_describe(self, machine_id: str) -> Any:
        found = super().gipper_describe(machine_id)  # type: ignore[misc]
        return None if found is None else attrs.evolve(found, addresses=())


class LineEndInTheAddress:
    @hookimpl
    def gipper_describe(self, machine_id: str) -> Any:
        found = super().gipper_describe(machine_id)  # type: ignore[misc]
        if found is None:
            return None
        return attrs.evolve(
            found, addresses=tuple(attrs.evolve(a, host=f"{a.host}\n") for a in found.addresses)
        )


class NoPorts:
    @hookimpl
    def gipper_describe(self, machine_id: str) -> Any:
        found = super().gipper_describe(machine_id)  # type: ignore[misc]
        return None if found is None else attrs.evolve(found, ports=())


class PortsWithoutOutside:
    @hookimpl
    def gipper_describe(self, machine_id: str) -> Any:
        found = super().gipper_describe(machine_id)  # type: ignore[misc]
        if found is None:
            return None
        return attrs.evolve(found, ports=tuple(attrs.evolve(p, outside=None) for p in found.ports))


class LosesTheLast:
    @hookimpl
    def gipper_list_ours(self) -> Any:
        return Listing(items=super().gipper_list_ours().items[:-1])  # type: ignore[misc]


class EmptyListForAnError:
    @hookimpl
    def gipper_list_ours(self) -> Any:
        try:
            return super().gipper_list_ours()  # type: ignore[misc]
        except ProviderError:
            return Listing(items=())


class ListsAGhost:
    @hookimpl
    def gipper_list_ours(self) -> Any:
        ghost = Machine(provider="toy", id="ghost", name="ghost", state=MachineState.RUNNING)
        return Listing(items=(*super().gipper_list_ours().items, ghost))  # type: ignore[misc]


class ListsTheRunningOnly:
    @hookimpl
    def gipper_list_ours(self) -> Any:
        listing = super().gipper_list_ours()  # type: ignore[misc]
        return Listing(items=tuple(m for m in listing if m.state is MachineState.RUNNING))


class EndsNothing:
    @hookimpl
    def gipper_terminate(self, machine_id: str) -> None:
        self.ask()  # type: ignore[attr-defined]


class RemembersTheDead:
    """Answers from what it saw once."""

    seen: Any = None

    @hookimpl
    def gipper_describe(self, machine_id: str) -> Any:
        self.seen = super().gipper_describe(machine_id) or self.seen  # type: ignore[misc]
        return self.seen


class EndsOnce:
    """Wants to know what it ends."""

    @hookimpl
    def gipper_terminate(self, machine_id: str) -> None:
        machine = self.market.machines.get(machine_id)  # type: ignore[attr-defined]
        if machine is None or machine.ended is not None:
            raise ProviderError("toy: HTTP 404: no such machine")
        super().gipper_terminate(machine_id)  # type: ignore[misc]


class EndsEverything:
    @hookimpl
    def gipper_terminate(self, machine_id: str) -> None:
        for machine in list(self.market.machines):  # type: ignore[attr-defined]
            super().gipper_terminate(machine)  # type: ignore[misc]


class SwallowsAFailedEnd:
    @hookimpl
    def gipper_terminate(self, machine_id: str) -> None:
        try:
            super().gipper_terminate(machine_id)  # type: ignore[misc]
        except ProviderError:
            return


class LetsInOnce:
    let_in: Any = None

    @hookimpl
    def gipper_authorize(self, machine: Any, public_key: str) -> None:
        if self.let_in:
            raise ProviderError("toy: HTTP 409: the key is there already")
        self.let_in = public_key


class BrokenWatchdog:
    @hookimpl
    def gipper_watchdog(self, machine: Any) -> Any:
        return Watchdog(command="if true; then curl", reads=())


class WatchdogWithTheKey:
    @hookimpl
    def gipper_watchdog(self, machine: Any) -> Any:
        return Watchdog(command=f"curl -H 'Authorization: {self.context.secret()}' x", reads=())  # type: ignore[attr-defined]


class ShrinkingBills:
    @hookimpl
    def gipper_billed(self, since: Any, until: Any) -> Any:
        left = Decimal(100) - next(_TURN) % 50
        return [
            Bill(machine_id=m, kind="gpu", usd=left, since=since, until=until)
            for m in self.market.machines  # type: ignore[attr-defined]
        ]


class NeverBilled:
    @hookimpl
    def gipper_billed(self, since: Any, until: Any) -> Any:
        return []


class BillsTheWholePast:
    @hookimpl
    def gipper_billed(self, since: Any, until: Any) -> Any:
        old = since - timedelta(days=9)
        extra = Bill(machine_id="old", kind="gpu", usd=Decimal(1), since=old, until=since)
        return [*super().gipper_billed(since, until), extra]  # type: ignore[misc]


class FloatsForDollars:
    @hookimpl
    def gipper_account(self) -> Any:
        return Account(credit_usd=10.0)  # type: ignore[arg-type]


class ZeroForUnknown:
    @hookimpl
    def gipper_account(self) -> Any:
        try:
            return super().gipper_account()  # type: ignore[misc]
        except ProviderError:
            return Account(credit_usd=Decimal(0))


class QuotesTheKey:
    """Puts the key into its errors."""

    def ask(self) -> None:
        try:
            super().ask()  # type: ignore[misc]
        except ProviderError as error:
            raise ProviderError(f"{error.message} ({self.context.secret()})") from error  # type: ignore[attr-defined]


class KeyInTheAddress:
    """Sends the key in the URL."""

    def ask(self) -> None:
        super().ask()  # type: ignore[misc]
        self.market.leaks.append(f"query of GET /?api_key={self.context.secret()}")  # type: ignore[attr-defined]


WRONG: Final[Mapping[str, tuple[type, ...]]] = {
    "info-1": (OtherEachTime,),
    "info-2": (HidesTheKeysName,),
    "offers-1": (NothingOnOffer,),
    "offers-2": (NotANumber,),
    "offers-3": (LongCountryNames,),
    "offers-4": (CheaperDisks,),
    "offers-5": (EmptyForAnError,),
    "offers-6": (EmptyForAnError,),
    "offers-7": (ErrorForEmpty,),
    "offers-8": (EmptyForAnError,),
    "costs-1": (AdjustsStrangers, NamelessAdjustment),
    "rent-1": (NamesItOtherwise,),
    "rent-2": (ListsWithoutNames,),
    "rent-3": (RentsTwice,),
    "rent-4": (GoneIsDoubtful, RentsAndRefuses),
    "rent-5": (FullIsGone,),
    "rent-6": (EveryRefusalIsTheAccounts,),
    "rent-7": (EveryRefusalIsTheRequests,),
    "rent-8": (TriesAgain, LostIsGone),
    "rent-9": (TriesAgain, LostIsGone),
    "rent-10": (TriesAgain, MakesUpAMachine),
    "look-1": (DescribesAnother,),
    "look-2": (KnowsEveryId,),
    "look-3": (GoneForAnError,),
    "look-4": (GoneForAnError,),
    "look-5": (NoAddress, LineEndInTheAddress),
    "ports-1": (NoPorts, PortsWithoutOutside),
    "ports-2": (NoPorts, PortsWithoutOutside),
    "list-1": (LosesTheLast,),
    "list-2": (EmptyListForAnError,),
    "list-3": (EmptyListForAnError,),
    "list-4": (EmptyListForAnError,),
    "list-5": (ListsAGhost,),
    "list-6": (ListsTheRunningOnly,),
    "end-1": (EndsNothing,),
    "end-2": (RemembersTheDead,),
    "end-3": (EndsOnce,),
    "end-4": (EndsOnce,),
    "end-5": (EndsOnce,),
    "end-6": (EndsEverything,),
    "end-7": (SwallowsAFailedEnd,),
    "key-1": (LetsInOnce,),
    "watchdog-1": (BrokenWatchdog, WatchdogWithTheKey),
    "bills-1": (ShrinkingBills, NeverBilled),
    "bills-2": (BillsTheWholePast,),
    "account-1": (FloatsForDollars,),
    "account-2": (ZeroForUnknown,),
    "secret-1": (QuotesTheKey,),
    "secret-2": (KeyInTheAddress,),
}
