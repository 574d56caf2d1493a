"""Asking the markets themselves: machines that they list or billed and the ledger doesn't know."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

import attrs

from gipper.custody.report import Gap, Scope
from gipper.custody.stays import Trail
from gipper.errors import GipperError
from gipper.naming import MachineName
from gipper.plugins.handle import Provider
from gipper.values.bills import Bill
from gipper.values.machines import Machine

Redact = Callable[[str], str]


@attrs.frozen(kw_only=True)
class Asked:
    """What the markets added. `names` answered at least with a list, `failed` could not be asked."""

    names: tuple[str, ...]
    failed: tuple[str, ...]
    gaps: tuple[Gap, ...]


@attrs.define(kw_only=True)
class Inquiry:
    """Asks markets about `scope`. Without a `since`, bills are asked for from the first receipt on."""

    trail: Trail
    scope: Scope
    inst: str
    now: datetime
    redact: Redact
    gaps: list[Gap] = attrs.field(factory=list)
    failed: list[str] = attrs.field(factory=list)

    def ask(self, providers: Sequence[Provider]) -> Asked:
        """Ask each, list first; what one can't say becomes a gap, and the others are asked all the same."""
        mine = [p for p in providers if self.scope.provider in (None, p.name)]
        for provider in mine:
            self._one(provider)
        self._absent({p.name for p in mine})
        names = tuple(p.name for p in mine if p.name not in self.failed)
        return Asked(names=names, failed=tuple(self.failed), gaps=tuple(self.gaps))

    def _one(self, provider: Provider) -> None:
        if not provider.has_key():
            self._cannot(provider.name, f"{provider.key_name} is not set")
            return
        listed: set[str] = set()
        try:
            machines = provider.list_ours()
            listed = {m.id for m in machines}
            self.gaps += [self._listed(m) for m in machines if not self._knows(provider.name, m.id, m.name)]
            self._bills(provider, listed)
        except GipperError as error:
            self._cannot(provider.name, error.message)

    def _bills(self, provider: Provider, listed: set[str]) -> None:
        since = self.scope.since or self.trail.first or self.now
        bills = (
            provider.billed(since, min(self.scope.until or self.now, self.now)) if since < self.now else ()
        )
        if bills is None:
            text = "it tells no bills, so that only what it lists now could be compared"
            self.gaps.append(Gap(kind="market can't say", text=text, provider=provider.name))
            return
        self.gaps += _billed(
            provider.name, [b for b in bills if not self._known_bill(provider.name, b, listed)]
        )

    def _known_bill(self, provider: str, bill: Bill, listed: set[str]) -> bool:
        return (provider, bill.machine_id) in self.trail.stays or bill.machine_id in listed

    def _knows(self, provider: str, pod: str, name: str) -> bool:
        return (provider, pod) in self.trail.stays or any(
            s.provider == provider and s.name == name for s in self.trail.stays.values() if s.name
        )

    def _listed(self, machine: Machine) -> Gap:
        name = machine.name or "(no name)"
        text = f"listed now as {name}, and the ledger doesn't know it: {self._whose(machine)}"
        return Gap(kind="unknown machine", text=text, provider=machine.provider, pod=machine.id)

    def _whose(self, machine: Machine) -> str:
        parsed = MachineName.parse(machine.name)
        if parsed is None:
            return "its name isn't one that gipper gives"
        if parsed.inst != self.inst:
            return f"it belongs to installation {parsed.inst}, whose ledger is elsewhere"
        return "this installation rented it"

    def _absent(self, there: set[str]) -> None:
        names = {s.provider for s in self.trail.stays.values() if self.scope.covers(s.provider, s.run)}
        for name in sorted(names - there):
            self._cannot(name, "its plugin is not installed")

    def _cannot(self, name: str, why: str) -> None:
        self.failed.append(name)
        text = f"could not be asked what it lists and billed: {self.redact(why)}"
        self.gaps.append(Gap(kind="market not asked", text=text, provider=name))


def _billed(provider: str, bills: Sequence[Bill]) -> Iterator[Gap]:
    by_machine: dict[str, list[Bill]] = {}
    for bill in bills:
        by_machine.setdefault(bill.machine_id, []).append(bill)
    for pod, lines in sorted(by_machine.items()):
        begin, end = min(b.since for b in lines), max(b.until for b in lines)
        span = f"{begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC"
        text = f"billed ${sum(b.usd for b in lines):.4f} for {span}, and the ledger doesn't know it"
        yield Gap(kind="unknown machine", text=text, provider=provider, pod=pod)
