"""The provider's hooks, each handed on to the module that knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from gipper.api import (
    Account,
    Bill,
    CostAdjustment,
    Diagnosis,
    KeyCheck,
    Listing,
    Machine,
    Offer,
    OfferQuery,
    Phases,
    ProviderContext,
    ProviderInfo,
    RentRequest,
    Watchdog,
    hookimpl,
)
from gipper_vast import account, bills, costs, instances, listing, logs, onstart, rent, search
from gipper_vast.client import Client
from gipper_vast.info import provider_info
from gipper_vast.memory import Memory
from gipper_vast.offers import Wanted
from gipper_vast.pacing import Gate
from gipper_vast.tables import hosts_of, job_of, settings_of


class VastProvider:
    """Vast.ai. Building it reads no key and opens nothing; one instance's calls share one pace."""

    def __init__(self, context: ProviderContext) -> None:
        self._context = context
        self._client = Client(context, Gate(context.runtime))
        self._memory = Memory()

    @staticmethod
    @hookimpl
    def gipper_provider() -> ProviderInfo:
        """See the hook of the same name, as for all methods here."""
        return provider_info()

    @hookimpl
    def gipper_list_offers(self, query: OfferQuery) -> Listing[Offer]:
        job = job_of(query.options)
        hosts = hosts_of(settings_of(self._context.settings), job, secure=query.cloud == "SECURE")
        kinds = (False, True) if query.spot else (False,)
        wanted = [Wanted(query=query, hosts=hosts, job=job, spot=spot) for spot in kinds]
        return search.list_offers(self._client, wanted)

    @hookimpl
    def gipper_rent(self, offer: Offer, request: RentRequest) -> Machine:
        return rent.rent(self._context, self._client, self._memory, offer, request)

    @hookimpl
    def gipper_describe(self, machine_id: str) -> Machine | None:
        return instances.describe(self._client, self._memory, self._context.runtime, machine_id)

    @hookimpl
    def gipper_list_ours(self) -> Listing[Machine]:
        return listing.list_ours(self._client)

    @hookimpl
    def gipper_terminate(self, machine_id: str) -> None:
        instances.terminate(self._client, machine_id)

    @hookimpl
    def gipper_authorize(self, machine: Machine, public_key: str) -> None:
        instances.authorize(self._client, machine.id, public_key)

    @hookimpl
    def gipper_watchdog(self) -> Watchdog | None:
        return onstart.watchdog(self._context.base_url())

    @hookimpl
    def gipper_diagnose(self, machine_id: str) -> Diagnosis | None:
        return logs.diagnose(self._context, self._client, self._memory, machine_id)

    @hookimpl
    def gipper_billed(self, since: datetime, until: datetime) -> Sequence[Bill] | None:
        return bills.billed(self._client, since, until)

    @hookimpl
    def gipper_account(self) -> Account | None:
        return account.account(self._client)

    @hookimpl
    def gipper_check_key(self) -> KeyCheck:
        return account.check_key(self._client, self._context.runtime.now())

    @hookimpl
    def gipper_adjust_costs(
        self, offers: Sequence[Offer], phases: Mapping[str, Phases]
    ) -> Mapping[str, Sequence[CostAdjustment]] | None:
        return costs.adjustments(offers, phases)
