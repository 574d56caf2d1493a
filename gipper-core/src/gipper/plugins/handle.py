"""The handle of one provider: all of core talks to a market through these typed methods.

Every answer is checked before it is believed. What a plugin raises and isn't gipper's own becomes a
ProviderError (verbs) or a PluginError (other hooks) that names the plugin. KeyboardInterrupt passes
through everywhere but in `rent`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from gipper.context import ProviderContext
from gipper.errors import GipperError, KeyMissing, ProviderError
from gipper.http_clock import MarketTime
from gipper.plugins import answers, collect
from gipper.plugins.answers import BadAnswer
from gipper.plugins.blame import UPDATE, Redact, culprit, raised
from gipper.plugins.collect import NamedCheck, Reasons
from gipper.plugins.context import Keys
from gipper.plugins.handle_rent import settled
from gipper.plugins.manager import Parts, provider_manager
from gipper.plugins.parts import LoadedProvider, Origin, PluginSet
from gipper.values.bills import Account, Bill, Diagnosis, KeyCheck, Leftover, Watchdog
from gipper.values.estimates import CostAdjustment, Phases
from gipper.values.jobs import Job
from gipper.values.machines import Machine, RentRequest
from gipper.values.offers import Listing, Offer, OfferQuery
from gipper.values.plugins import ProviderInfo

T = TypeVar("T")


class Provider:
    """One provider. Its class is built, and its plugin manager made, at the first call that needs it.

    `on_this_computer`: whether a machine's address may be this computer's own; a market far away that says
    so would have us log in to ourselves. `plugins` gives the modules that take part, at that moment. Any
    call may then raise PluginError or ConfigError for a plugin that can't be used, and KeyMissing.
    """

    def __init__(
        self,
        loaded: LoadedProvider,
        context: ProviderContext,
        keys: Keys,
        *,
        plugins: Callable[[], PluginSet] = PluginSet,
        redact: Redact = str,
        on_this_computer: bool = True,
    ) -> None:
        self._loaded = loaded
        self._context = context
        self._keys = keys
        self._plugins = plugins
        self._redact = redact
        self._here = on_this_computer
        self._lock = threading.Lock()
        self._made: Parts | None = None

    def __repr__(self) -> str:
        return f"<provider {self.name}>"

    @property
    def info(self) -> ProviderInfo:
        """What the provider says of itself; needs no instance."""
        return self._loaded.info

    @property
    def origin(self) -> Origin:
        """Which distribution it comes from."""
        return self._loaded.origin

    @property
    def name(self) -> str:
        """As in ``--provider``."""
        return self.info.name

    @property
    def title(self) -> str:
        """As people write it."""
        return self.info.title

    @property
    def key_name(self) -> str | None:
        """The main key's name; None where the provider needs none."""
        return self.info.key_name

    @property
    def key_names(self) -> tuple[str, ...]:
        """All key names."""
        return self.info.key_names

    def has_key(self) -> bool:
        """Whether the main key is set; True where none is needed."""
        try:
            return self.key_name is None or bool(self._keys.require(self.key_name))
        except KeyMissing:
            return False

    def market_time(self) -> MarketTime:
        """The market's clock against ours, from its answers so far; ours where it doesn't tell."""
        told = getattr(self._context, "market_time", MarketTime)()
        return told if isinstance(told, MarketTime) else MarketTime()

    def implements(self, hook: str) -> bool:
        """Whether the provider's own class implements `hook`; needs no instance."""
        return hook in self._loaded.hooks

    def list_offers(self, query: OfferQuery) -> Listing[Offer]:
        """What the market offers, through the team's wrappers; nonsense is dropped with a counted note.

        Raises ProviderError.
        """
        parts = self._parts()
        try:
            answer = parts.manager.hook.gipper_list_offers(query=query)
        except GipperError:
            raise
        except Exception as error:
            raise ProviderError(self._told("gipper_list_offers", error), hint=UPDATE) from error
        return self._checked("gipper_list_offers", lambda: answers.offers(answer, self.name))

    def rent(self, offer: Offer, request: RentRequest) -> Machine:
        """Rent `offer`: the provider's own machine.

        Raises OfferGone, NoCapacity or Refused where nothing was created, DoubtfulRent for everything
        else that happens once the provider may have been asked.
        """
        parts = self._parts()
        with parts.watch.sighting(request) as seen:
            machine = settled(
                lambda: parts.manager.hook.gipper_rent(offer=offer, request=request),
                seen,
                request,
                self.name,
                lambda error: self._told("gipper_rent", error),
            )
        return answers.priced(machine)

    def describe(self, machine_id: str) -> Machine | None:
        """The machine as the market tells of it; None = the market's own "not found"."""
        answer = self._ask("gipper_describe", machine_id=machine_id)
        if answer is None:
            return None
        found = self._checked("gipper_describe", lambda: answers.machine(answer, self.name, machine_id))
        return found if self._here else answers.elsewhere(found)

    def list_ours(self) -> Listing[Machine]:
        """Every machine of the account that may bill; complete, or ProviderError."""
        answer = self._ask("gipper_list_ours")
        return self._checked("gipper_list_ours", lambda: answers.machines(answer, self.name))

    def terminate(self, machine_id: str) -> None:
        """Ask for the machine's end; returning claims nothing."""
        self._ask("gipper_terminate", machine_id=machine_id)

    def billed(self, since: datetime, until: datetime) -> tuple[Bill, ...] | None:
        """Itemised charges; None where the market has no bills."""
        answer = self._ask("gipper_billed", since=since, until=until)
        return self._checked("gipper_billed", lambda: answers.bills(answer))

    def account(self) -> Account | None:
        """Credit and limits; None where the market doesn't tell."""
        answer = self._ask("gipper_account")
        return self._checked("gipper_account", lambda: answers.account(answer))

    def check_key(self) -> KeyCheck | None:
        """Whether the key may do all that is needed; None where the provider can't say."""
        return self._one("gipper_check_key", KeyCheck)

    def authorize(self, machine: Machine, public_key: str) -> bool:
        """Let `public_key` in; False where the provider has no such hook."""
        self._ask("gipper_authorize", machine=machine, public_key=public_key)
        return self.implements("gipper_authorize")

    def watchdog(self, machine: Machine) -> Watchdog | None:
        """The command that ends the machine from inside; None where there is none."""
        return self._one("gipper_watchdog", Watchdog, machine=machine)

    def set_end(self, machine_id: str, timer_at: datetime) -> bool:
        """Set the market's own timer; False where the provider has no such hook."""
        self._ask("gipper_set_end", machine_id=machine_id, timer_at=timer_at)
        return self.implements("gipper_set_end")

    def diagnose(self, machine_id: str) -> Diagnosis | None:
        """Why a machine didn't come up, if the provider can say."""
        return self._one("gipper_diagnose", Diagnosis, machine_id=machine_id)

    def leftovers(self, machine_id: str) -> tuple[Leftover, ...]:
        """What still bills after the machine is gone."""
        answer = self._ask("gipper_leftovers", machine_id=machine_id)
        return self._checked("gipper_leftovers", lambda: answers.sequence(answer, Leftover))

    def exclude_offers(self, offers: Sequence[Offer], job: Job) -> Reasons:
        """Offer ids to leave out, each with (plugin, reason) pairs. Raises PluginError."""
        return collect.exclusions(self._parts().ordered["gipper_exclude_offers"], offers, job, self._redact)

    def adjust_costs(
        self, offers: Sequence[Offer], job: Job, phases: Mapping[str, Phases]
    ) -> dict[str, tuple[CostAdjustment, ...]]:
        """Labelled corrections by offer id. Raises PluginError."""
        asked = self._parts().ordered["gipper_adjust_costs"]
        return collect.adjustments(asked, offers, job, phases, self._redact)

    def preflight_checks(self) -> tuple[NamedCheck, ...]:
        """Every check, in order: built-ins, provider, team, job."""
        return collect.checks(self._parts().ordered["gipper_preflight"], self._redact)

    def _parts(self) -> Parts:
        with self._lock:
            if self._made is None:
                self._made = provider_manager(self._loaded, self._context, self._plugins(), self._redact)
            return self._made

    def _ask(self, hook: str, **given: object) -> Any:
        """The provider's own implementation and nothing around it; None where it has none."""
        own = self._parts().own.get(hook)
        return None if own is None else own.ask(given, self._redact, ProviderError)

    def _one(self, hook: str, kind: type[T], **given: object) -> T | None:
        answer = self._ask(hook, **given)
        return self._checked(hook, lambda: answers.one(answer, kind))

    def _checked(self, hook: str, check: Callable[[], T]) -> T:
        try:
            return check()
        except BadAnswer as fault:
            text = f"{self._whose(hook)}: {hook} {self._redact(str(fault))}"
            raise ProviderError(text, hint=UPDATE) from fault

    def _whose(self, hook: str) -> str:
        wrappers = self._parts().wrappers[hook]
        others = "".join(f", or {w.origin.blame} around it" for w in wrappers)
        return f"{self.origin.blame}{others}"

    def _told(self, hook: str, error: BaseException) -> str:
        parts = self._parts()
        found = culprit(error, [*parts.ordered[hook], *parts.wrappers[hook]])
        return raised(found.origin if found else self.origin, hook, error, self._redact)
