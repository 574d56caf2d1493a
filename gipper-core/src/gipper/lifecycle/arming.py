"""Arming the watchdog: the third layer, which ends a machine when client and reaper are gone.

Armed over the link before anything else is done on the machine. A machine that can't be guarded is told
of, and used all the same unless `safety.require_watchdog` says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

import attrs

from gipper.errors import CapRefused, GipperError, ProviderError, Stopped, Unsuitable
from gipper.lifecycle.link import HostLost, Link
from gipper.lifecycle.proof import Rental
from gipper.lifecycle.services import Services
from gipper.planning_values import Plan, RankedOffer
from gipper.plugins.handle import Provider
from gipper.runtime import Event
from gipper.values.bills import Watchdog
from gipper.values.machines import Machine
from gipper.values.receipts import Payload, WatchdogArmed, WatchdogFailed
from gipper.watchdog import Again, Armed, armed, client_watchdog

OWN_DEADLINE: Final = "the machine's own deadline"
HOW: Final[Mapping[Again, str]] = {
    "boot": "a process on the machine; the market's start-up script starts it again after a restart",
    "cron": "a process on the machine; its crontab starts it again after a restart",
    "systemd": "a process on the machine; a systemd unit starts it again after a restart",
    "none": "a process on the machine; nothing starts it again after a restart",
}
UNGUARDED: Final = "no watchdog, and safety.require_watchdog is set"
_ARM_S: Final = 60.0


@attrs.frozen(kw_only=True)
class Guard:
    """One machine and by when it should be gone at the latest: its end and the watchdog's grace."""

    services: Services
    rental: Rental
    link: Link
    until: datetime

    def arm(self, machine: Machine, stop: Event) -> tuple[str, ...]:
        """Arm, and write how that went. The names of variables that the job must not be given.

        Raises Unsuitable where a watchdog is required and there is none, HostLost, Stopped.
        """
        try:
            watchdog = self.rental.provider.watchdog(machine)
            if watchdog is None:
                self._without()
                return ()
            self._armed(self._ask(watchdog, stop))
        except (Stopped, Unsuitable):
            raise
        except GipperError as error:
            # A script that hangs loses its connection, not the host.
            if isinstance(error, HostLost) and error is self.link.lost:
                raise
            self._failed(self.services.redact(error.message))
            return ()
        return watchdog.reads

    def _ask(self, watchdog: Watchdog, stop: Event) -> Armed:
        until = self.services.runtime.monotonic() + _ARM_S
        left_s = (self.until - self.services.now_at(self.rental.provider)).total_seconds()
        script = client_watchdog(watchdog, left_s, name=self.rental.name)
        answer = self.link.call(lambda r: r.ask(script, timeout_s=_ARM_S / 2), until=until, stop=stop)
        if answer.status != 0:
            text = answer.stderr.decode("utf-8", "replace").strip() or answer.text or "no text"
            raise ProviderError(f"the machine said (exit {answer.status}): {text[:300]}")
        return armed(answer.text)

    def _armed(self, told: Armed) -> None:
        now = self.services.now_at(self.rental.provider)
        until = min(self.until, now + timedelta(seconds=told.left_s))
        self._write(WatchdogArmed(
            provider=self.rental.provider.name, pod=self.rental.pod, how=HOW[told.again], until=until
        ))  # fmt: skip

    def _without(self) -> None:
        """The provider has no command: its own deadline guards the machine, or nobody does."""
        name = self.rental.provider.name
        if self.rental.provider.info.own_deadline:
            self._write(WatchdogArmed(provider=name, pod=self.rental.pod, how=OWN_DEADLINE, until=self.until))
        elif self.services.settings.safety.require_watchdog:
            raise Unsuitable(f"{self.rental.pod} has no watchdog, and safety.require_watchdog is set")
        elif is_guarded(self.rental.provider):  # else the plan has said so
            self.services.reporter.warn(alone(self.rental.pod))

    def _failed(self, why: str) -> None:
        self._write(WatchdogFailed(provider=self.rental.provider.name, pod=self.rental.pod, why=why))
        if self.services.settings.safety.require_watchdog:
            raise Unsuitable(f"the watchdog could not be armed, and safety.require_watchdog is set: {why}")
        self.services.reporter.warn(f"the watchdog could not be armed ({why}); {alone(self.rental.pod)}")

    def _write(self, payload: Payload) -> None:
        self.services.ledger.append_or_spill(payload, run=self.rental.run, refs=self.rental.refs)


def alone(what: str) -> str:
    """The sentence for machines that nothing ends from inside."""
    return f"{what}: only this client and the reaper (`gipper pod reap-timer`) guard it, no watchdog"


def is_guarded(provider: Provider) -> bool:
    """Whether the provider's machines can end without client and reaper."""
    return provider.info.own_deadline or provider.implements("gipper_watchdog")


def set_timer(services: Services, rental: Rental, timer_at: datetime) -> None:
    """Set the market's own timer where its plugin asks to be called for that; a failure is a warning."""
    if not rental.provider.implements("gipper_set_end"):
        return
    try:
        rental.provider.set_end(rental.pod, timer_at)
    except GipperError as error:
        services.reporter.warn(
            f"{rental.provider.name} didn't take the timer of {rental.pod}: {services.redact(error.message)}"
        )


def guarded_plan(plan: Plan, provider: Mapping[str, Provider], *, required: bool) -> Plan:
    """`plan` with a note for each market whose machines nothing ends from inside.

    Where a watchdog is `required`, without their offers. Raises CapRefused if none is left then.
    """
    bare = frozenset(name for name in plan.asked if not is_guarded(provider[name]))
    if not bare:
        return plan
    if not required:
        return attrs.evolve(plan, notes=(*plan.notes, *(alone(name) for name in sorted(bare))))
    kept = tuple(ranked for ranked in plan.ranked if ranked.provider not in bare)
    if plan.ranked and not kept:
        raise CapRefused(
            f"safety.require_watchdog is set, and a machine of {', '.join(sorted(bare))} can't end itself",
            hint="set `require_watchdog = false` under [safety] in config.toml, or name another provider",
        )
    return attrs.evolve(plan, ranked=kept, left_out=_counted(plan, kept))


def _counted(plan: Plan, kept: tuple[RankedOffer, ...]) -> dict[str, int]:
    gone = len(plan.ranked) - len(kept)
    return {**plan.left_out, **({UNGUARDED: gone} if gone else {})}
