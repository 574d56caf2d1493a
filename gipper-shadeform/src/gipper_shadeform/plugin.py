"""The provider's hooks, each handed on to the module that knows.

Accounts and bills have no hook here: the market tells of neither over its API.
"""

from __future__ import annotations

from gipper.api import (
    CheckResult,
    Diagnosis,
    Job,
    KeyCheck,
    Listing,
    Machine,
    Offer,
    OfferQuery,
    ProviderContext,
    ProviderError,
    ProviderInfo,
    Remote,
    RentRequest,
    Watchdog,
    hookimpl,
)
from gipper_shadeform import catalog, instances, preflight, rent, status, watchdog
from gipper_shadeform.client import Client
from gipper_shadeform.info import provider_info
from gipper_shadeform.memory import Memory
from gipper_shadeform.tables import options_of


class ShadeformProvider:
    """Shadeform. Building it reads no key and opens nothing."""

    def __init__(self, context: ProviderContext) -> None:
        self._context = context
        self._client = Client(context)
        self._memory = Memory()

    @staticmethod
    @hookimpl
    def gipper_provider() -> ProviderInfo:
        """See the hook of the same name, as for all methods here."""
        return provider_info()

    @hookimpl
    def gipper_list_offers(self, query: OfferQuery) -> Listing[Offer]:
        options = options_of(self._context.settings, query.options)
        now = self._context.runtime.monotonic()
        return catalog.list_offers(
            self._client, query, options, lambda offer: self._memory.is_sold_out(offer, now)
        )

    @hookimpl
    def gipper_rent(self, offer: Offer, request: RentRequest) -> Machine:
        return rent.rent(self._context, self._client, self._memory, offer, request)

    @hookimpl
    def gipper_describe(self, machine_id: str) -> Machine | None:
        now = self._context.runtime.monotonic()
        return instances.describe(self._client, self._memory, now, machine_id, here=self._here)

    @hookimpl
    def gipper_list_ours(self) -> Listing[Machine]:
        return instances.list_ours(self._client, here=self._here)

    @hookimpl
    def gipper_terminate(self, machine_id: str) -> None:
        instances.terminate(self._client, self._memory, machine_id)

    @hookimpl
    def gipper_watchdog(self) -> Watchdog | None:
        return watchdog.watchdog()

    @hookimpl
    def gipper_diagnose(self, machine_id: str) -> Diagnosis | None:
        row = instances.read_row(self._client, machine_id)
        return None if row is None else status.diagnosis(row)

    @hookimpl
    def gipper_check_key(self) -> KeyCheck:
        # Every key of this market may do everything: one question tells all.
        try:
            instances.list_ours(self._client, here=self._here)
        except ProviderError as error:
            return KeyCheck(ok=False, problem=error.message + (f" ({error.hint})" if error.hint else ""))
        return KeyCheck(ok=True)

    @hookimpl
    def gipper_preflight(self, remote: Remote, job: Job, machine: Machine) -> CheckResult:
        return preflight.preflight(remote, job, machine)

    @property
    def _here(self) -> bool:
        """Whether the API is on this computer, so that machines may be, too."""
        return self._context.base_url().startswith("http://")
