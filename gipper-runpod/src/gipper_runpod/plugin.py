"""The provider's hooks, each handed on to the module that knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import attrs

from gipper.api import (
    Account,
    Bill,
    CostAdjustment,
    Diagnosis,
    Job,
    KeyCheck,
    Listing,
    Machine,
    MachineState,
    Offer,
    OfferQuery,
    Phases,
    ProviderContext,
    ProviderError,
    ProviderInfo,
    RentRequest,
    Watchdog,
    hookimpl,
)
from gipper_runpod import account, bills, catalog, costs, graphql, logs, pods, rent, volumes, watchdog
from gipper_runpod.client import Client
from gipper_runpod.info import NAME, provider_info
from gipper_runpod.memory import Memory
from gipper_runpod.tables import Options, options_of


class RunpodProvider:
    """Runpod. Building it reads no key and opens nothing."""

    def __init__(self, context: ProviderContext) -> None:
        self._context = context
        self._client = Client(context)
        self._memory = Memory()
        self._volumes: dict[str, volumes.Volume] = {}

    @staticmethod
    @hookimpl
    def gipper_provider() -> ProviderInfo:
        """See the hook of the same name, as for all methods here."""
        return provider_info()

    @hookimpl
    def gipper_list_offers(self, query: OfferQuery) -> Listing[Offer]:
        options = self._options(query.options)
        clouds = ("SECURE",) if query.cloud == "SECURE" or options.volume else ("SECURE", "COMMUNITY")
        if options.volume is not None:
            volume = volumes.volume_of(self._client, options.volume, query.deadline)
            self._volumes[volume.id] = volume
            options = attrs.evolve(options, data_centers=(volume.center,))
        return catalog.list_offers(self._client, query, options, clouds, keyed=self._client.has_key())

    @hookimpl
    def gipper_rent(self, offer: Offer, request: RentRequest) -> Machine:
        return rent.rent(self._client, self._options(request.options), offer, request, here=self._here)

    @hookimpl
    def gipper_describe(self, machine_id: str) -> Machine | None:
        runtime = self._context.runtime
        found = pods.describe(self._client, self._memory, runtime, machine_id, here=self._here)
        if found is None or found.state is not MachineState.RUNNING:
            return found
        return attrs.evolve(found, host_id=self._host(machine_id))

    @hookimpl
    def gipper_list_ours(self) -> Listing[Machine]:
        return pods.list_ours(self._client, here=self._here)

    @hookimpl
    def gipper_terminate(self, machine_id: str) -> None:
        pods.terminate(self._client, machine_id)

    @hookimpl
    def gipper_watchdog(self) -> Watchdog | None:
        return watchdog.watchdog(self._context.base_url())

    @hookimpl
    def gipper_diagnose(self, machine_id: str) -> Diagnosis | None:
        return logs.diagnose(self._context, self._client, machine_id)

    @hookimpl
    def gipper_billed(self, since: datetime, until: datetime) -> Sequence[Bill] | None:
        return bills.billed(self._client, since, until)

    @hookimpl
    def gipper_account(self) -> Account | None:
        return account.account(self._client)

    @hookimpl
    def gipper_check_key(self) -> KeyCheck:
        return account.check_key(self._client, self._context.runtime.now(), here=self._here)

    @hookimpl
    def gipper_adjust_costs(
        self, offers: Sequence[Offer], job: Job, phases: Mapping[str, Phases]
    ) -> Mapping[str, Sequence[CostAdjustment]] | None:
        known = {**dict.fromkeys(self._volumes), **self._volumes}
        sizes = [v.size_gb for v in known.values() if v is not None and job.provider.get(NAME)]
        return costs.adjustments(offers, phases, sizes[-1] if sizes else None)

    @property
    def _here(self) -> bool:
        """Whether the API is on this computer, so that pods may be, too."""
        return self._context.base_url().startswith("http://")

    def _options(self, job: object) -> Options:
        return options_of(self._context.settings, job)

    def _host(self, pod: str) -> str | None:
        """The physical host, asked for once."""
        asked, host = self._memory.host(pod)
        if not asked:
            try:
                host = graphql.host_of(self._client, pod)
            except ProviderError:
                host = None
            self._memory.keep_host(pod, host)
        return host
