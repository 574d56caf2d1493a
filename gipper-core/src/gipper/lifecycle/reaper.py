"""`gipper pod reap`: end what should be over. Listings are read before the ledger, or a run that starts
in between would look forgotten. One failing provider doesn't stop the rest; two reapers are harmless."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import attrs

from gipper.errors import ConfigError, GipperError
from gipper.folders import make_private
from gipper.http_clock import APART_S
from gipper.installation import owner_alive
from gipper.lifecycle.book import KINDS, Book, PodRecord, RunRecord
from gipper.lifecycle.orphans import close_orphans, outcome_of
from gipper.lifecycle.proof import Rental, end_machine
from gipper.lifecycle.rechecking import write_recheck
from gipper.lifecycle.remote_job import Poll
from gipper.lifecycle.results import RunResult
from gipper.lifecycle.resuming import Resumption
from gipper.lifecycle.runfolder import RunFolder, RunLock
from gipper.lifecycle.services import Services, warn_of_clock
from gipper.lifecycle.settling import write_end
from gipper.lifecycle.spending import record_spend
from gipper.lifecycle.verdicts import Action, Client, Sight, Verdict, due, rechecks, verdicts
from gipper.money import ZERO
from gipper.naming import MachineName
from gipper.plugins.handle import Provider
from gipper.values.machines import Machine
from gipper.values.receipts import (
    Owner,
    PodCreate,
    PodCreateFailed,
    PodReappeared,
    Reap,
)

Resume = Callable[[Provider, RunRecord, PodRecord, str], Resumption]
# Endings that need no machine's answer come first; what is left comes last.
_ORDER: Final[tuple[Action, ...]] = ("retry", "end", "prove", "close", "look", "leave")


@attrs.frozen(kw_only=True)
class ReapLine:
    """One line of the answer. `verb`: would end, ended, retried, collected, closed, left, failed."""

    verb: str
    provider: str
    pod: str
    name: str
    why: str


@attrs.frozen(kw_only=True)
class ReapResult:
    """`failed`: providers that could not be asked. `unproved`: machines that may still cost money, or did
    although they had been proved gone: those are `reappeared` too."""

    lines: tuple[ReapLine, ...]
    failed: tuple[str, ...] = ()
    unproved: tuple[str, ...] = ()
    reappeared: tuple[str, ...] = ()


@attrs.define
class Reaper:
    """One pass over `providers`. `data` is the data folder with the run folders; `resume` takes up a run
    whose client is dead (None: such runs are left until their end)."""

    services: Services
    providers: Sequence[Provider]
    inst: str
    data: Path
    resume: Resume | None = None
    dry_run: bool = False
    end_unknown: bool = False
    lines: list[ReapLine] = attrs.field(factory=list)
    failed: list[str] = attrs.field(factory=list)
    unproved: list[str] = attrs.field(factory=list)
    reappeared: list[str] = attrs.field(factory=list)
    _seen: int = 0

    def run(self) -> ReapResult:
        """List, read the ledger, decide, act; leaves a `reap` receipt unless nothing was done."""
        listings = [self._listed(provider) for provider in self.providers]
        book = self._book()
        for provider, listed, machines in listings:
            if machines is not None:
                sight = self._sight(provider, listed, machines, book)
                for verdict in sorted(verdicts(sight, book), key=lambda v: _ORDER.index(v.action)):
                    self._act(provider, verdict, book)
                self._recheck(sight, book)
        self._unasked(book)
        self._missing(book)
        if not self.dry_run:
            last = self._book()
            close_orphans(self.services, last, lambda run: self._client(run, last))
        return self._result()

    def look_again(self) -> ReapResult:
        """Only what is due: machines that were proved gone are looked for once more, and ended where they
        are back. A provider is asked only if it has any."""
        book = self._book()
        after, now = self._after(), self.services.runtime.now()
        late = {r.provider for r in book.pods.values() if due(r, now, after)}
        for provider in (p for p in self.providers if p.name in late):
            _, listed, machines = self._listed(provider)
            if machines is not None:
                book = self._book()
                sight = self._sight(provider, listed, machines, book)
                for verdict in (v for v in verdicts(sight, book) if v.action == "end" and v.back):
                    self._act(provider, verdict, book)
                self._recheck(sight, book)
        return self._result()

    def _book(self) -> Book:
        return Book.of(self.services.ledger.read(kinds=KINDS))

    def _after(self) -> timedelta:
        return timedelta(seconds=self.services.settings.limits.recheck_after)

    def _result(self) -> ReapResult:
        self._write()
        return ReapResult(
            lines=tuple(self.lines), failed=tuple(self.failed), reappeared=tuple(self.reappeared),
            unproved=tuple(dict.fromkeys((*self.unproved, *self.reappeared))),
        )  # fmt: skip

    def _listed(self, provider: Provider) -> tuple[Provider, datetime, tuple[Machine, ...] | None]:
        begun = self.services.runtime.now()
        machines = self._list(provider)
        warn_of_clock(self.services, provider)
        if machines is None or provider.market_time().sure:
            return provider, begun, machines
        # So far off that one of the two clocks must be wrong: what it says is heard twice.
        self.services.pause(APART_S)
        return provider, begun, self._list_again(provider)

    def _list_again(self, provider: Provider) -> tuple[Machine, ...] | None:
        seen, machines = self._seen, self._list(provider)
        self._seen = max(seen, self._seen - seen)
        if machines is not None and not provider.market_time().sure:
            self.services.reporter.warn(
                f"{provider.name}'s clock jumps: nothing is ended by its time in this pass"
            )
        return machines

    def _list(self, provider: Provider) -> tuple[Machine, ...] | None:
        try:
            listing = provider.list_ours()
        except GipperError as error:
            self.failed.append(provider.name)
            self.services.reporter.warn(f"{provider.name} error: {self.services.redact(error.message)}")
            return None
        self._seen += len(listing)
        return listing.items

    def _recheck(self, sight: Sight, book: Book) -> None:
        for record, pod in () if self.dry_run else rechecks(sight, book, self._after()):
            write_recheck(self.services, record, pod, sight.listed)

    def _sight(
        self, provider: Provider, listed: datetime, machines: tuple[Machine, ...], book: Book
    ) -> Sight:
        return Sight(
            provider=provider.name, machines=machines, inst=self.inst, now=self.services.now_at(provider),
            now_sure=provider.market_time().sure, listed=listed,
            ledger_whole=self.services.ledger.damaged is None, end_unknown=self.end_unknown,
            client=lambda run: self._client(run, book),
        )  # fmt: skip

    def _client(self, run: str, book: Book) -> Client:
        try:
            lock = RunFolder.of(self.data, run).lock()
        except ConfigError:
            lock = None
        else:
            if lock is None:
                return "alive"
            lock.release()
        record = book.runs.get(run)
        return owner_alive(Owner(**record.owner)) if record is not None else "dead"

    def _act(self, provider: Provider, verdict: Verdict, book: Book) -> None:
        if verdict.action == "leave" or (verdict.action == "look" and (self.resume is None or self.dry_run)):
            self._tell("left", verdict)
            return
        if self.dry_run:
            self._tell("would end" if verdict.action != "close" else "would close", verdict)
            return
        lock = self._lock(verdict)
        if lock is None and verdict.needs_lock:
            self._tell("left", attrs.evolve(verdict, why="another process is at it"))
            return
        try:
            if verdict.action == "close":
                self._close(provider, verdict)
            elif verdict.action == "look":
                self._look(provider, verdict, book)
            else:
                self._end(provider, verdict)
        finally:
            if lock is not None:
                lock.release()

    def _lock(self, verdict: Verdict) -> RunLock | None:
        if verdict.record is None:
            return None
        try:
            return RunFolder.of(self.data, verdict.record.run).lock()
        except ConfigError:
            return self._lock_anew(self.data / "runs" / verdict.record.run)

    def _lock_anew(self, folder: Path) -> RunLock | None:
        """The run's folder is gone or odd: make it again; without a lock only the end of time decides."""
        try:
            make_private(folder)
            return RunFolder(folder).lock()
        except (OSError, ConfigError) as error:
            self.services.reporter.warn(f"the run folder {folder} can't be used: {error}")
            return None

    def _end(self, provider: Provider, verdict: Verdict) -> None:
        rental = self._rental(provider, verdict)
        if verdict.action == "prove" and verdict.record is not None and not verdict.record.unproved:
            self._only_the_books(rental, verdict, verdict.record)
            return
        for pod in verdict.back:
            self.reappeared.append(pod)
            self._append(rental, PodReappeared(
                provider=provider.name, pod=pod, listed=self.services.runtime.now()
            ))  # fmt: skip
        proof = end_machine(self.services, rental, verdict.why)
        if proof is None:
            self.unproved.append(rental.pod)
            self._tell("failed", attrs.evolve(verdict, why=f"{verdict.why}, but it isn't proved gone"))
            return
        until, basis = proof.asked, "computed"
        if verdict.action == "prove" and verdict.record is not None:
            cut = verdict.record.end + self._grace(provider)
            until, basis = min(proof.asked, cut), "upper bound"
        record_spend(self.services, rental, until, basis)
        self._end_run(rental, verdict.why)
        self._tell({"retry": "retried", "prove": "closed"}.get(verdict.action, "ended"), verdict)

    def _grace(self, provider: Provider) -> timedelta:
        """From a machine's end by the market's clock to the watchdog's time by ours."""
        grace = timedelta(seconds=self.services.settings.limits.watchdog_grace)
        return grace - provider.market_time().ahead

    def _only_the_books(self, rental: Rental, verdict: Verdict, record: PodRecord) -> None:
        """The machine was proved gone by a client that died before it wrote what it cost."""
        record_spend(self.services, rental, record.gone_at or record.end, "computed")
        self._end_run(rental, verdict.why)
        self._tell("closed", verdict)

    def _look(self, provider: Provider, verdict: Verdict, book: Book) -> None:
        record = verdict.record
        assert record is not None and self.resume is not None
        run = book.runs.get(record.run)
        if run is None or not record.pods:
            self._end(provider, attrs.evolve(verdict, why="its run never began"))
            return
        try:
            resumption = self.resume(provider, run, record, "the reaper found nobody supervising it")
            seen = resumption.look()
        except ConfigError as error:
            self._tell("left", attrs.evolve(verdict, why=self.services.redact(error.message)))
            return
        try:
            self._seen_job(verdict, seen, resumption)
        finally:
            resumption.close()

    def _seen_job(self, verdict: Verdict, seen: Poll | None, resumption: Resumption) -> None:
        attach = f"; go on with it: gipper pod attach {resumption.run.run}"
        if seen is None:
            self._tell("left", attrs.evolve(verdict, why=f"{verdict.why}, and it doesn't answer{attach}"))
        elif seen.state == "running":
            self._tell("left", attrs.evolve(verdict, why=f"{verdict.why}, and its job runs{attach}"))
        else:
            result = resumption.go_on()
            unproved = [m.pod for m in result.machines if m.proof is None]
            self.unproved += unproved
            verb = "failed" if unproved else ("ended" if seen.state == "absent" else "collected")
            self._tell(verb, attrs.evolve(verdict, why=f"{result.outcome.value}: {result.reason}"))

    def _rental(self, provider: Provider, verdict: Verdict) -> Rental:
        record, machine = verdict.record, verdict.machine
        assert verdict.pod is not None
        parsed = MachineName.parse(verdict.name)
        now = self.services.runtime.now()
        since = record.since if record else (machine.created if machine and machine.created else now)
        usd_h = record.usd_h if record else (machine.usd_h if machine else None)
        rental = Rental(
            provider=provider, run=record.run if record else (parsed.run if parsed else ""),
            name=verdict.name, pod=verdict.pod, usd_h=usd_h or ZERO, since=since,
            gpu=record.gpu if record else None, job=record.job if record else "",
            listed=machine is not None, twins=_twins(verdict),
        )  # fmt: skip
        if record is not None and verdict.pod not in record.pods:
            self._append(rental, PodCreate(
                provider=provider.name, pod=verdict.pod, name=verdict.name, usd_h=rental.usd_h, adopted=True
            ))  # fmt: skip
        return rental

    def _close(self, provider: Provider, verdict: Verdict) -> None:
        assert verdict.record is not None
        for look in range(2):
            if look:
                self.services.pause(provider.info.settle_s)
            machines = self._list(provider)
            if machines is None or any(m.name == verdict.name for m in machines):
                self._tell("left", attrs.evolve(verdict, why="it could not be looked for, or has appeared"))
                return
        failed = PodCreateFailed(provider=provider.name, name=verdict.name, error="never appeared")
        refs = {"name": verdict.record.job}
        self.services.ledger.append_or_spill(failed, run=verdict.record.run, refs=refs)
        self._tell("closed", verdict)

    def _end_run(self, rental: Rental, why: str) -> None:
        run = Book.of(self.services.ledger.read(run=rental.run, kinds=KINDS)).runs.get(rental.run)
        if run is not None and run.outcome is None:
            outcome, _ = outcome_of(run)
            result = RunResult(run=run.run, outcome=outcome, reason=f"ended by the reaper: {why}")
            write_end(self.services, result, rental.job)

    def _append(self, rental: Rental, payload: Any) -> None:
        self.services.ledger.append_or_spill(payload, run=rental.run, refs=rental.refs)

    def _unasked(self, book: Book) -> None:
        now = self.services.runtime.now()
        for record in book.open_pods():
            if record.provider in self.failed and now >= record.end:
                self.unproved.append(record.pods[0] if record.pods else record.name)

    def _missing(self, book: Book) -> None:
        asked = {p.name for p in self.providers}
        for record in (r for r in book.open_pods() if r.provider not in asked):
            self.unproved.append(record.pods[0] if record.pods else record.name)
            self.services.reporter.warn(
                f"{record.provider} {record.name} may still run, but the plugin or key for {record.provider} "
                f"is missing: install gipper-{record.provider} and set its key, then type `gipper pod reap`"
            )

    def _tell(self, verb: str, verdict: Verdict) -> None:
        self.lines.append(ReapLine(
            verb=verb, provider=verdict.provider, pod=verdict.pod or "-", name=verdict.name, why=verdict.why
        ))  # fmt: skip

    def _write(self) -> None:
        done = tuple(f"{x.verb} {x.provider} {x.pod} {x.name}" for x in self.lines if x.verb != "left")
        left = tuple(f"{x.provider} {x.pod} {x.name}" for x in self.lines if x.verb == "left")
        if done and not self.dry_run:
            self.services.ledger.append_or_spill(Reap(seen=self._seen, done=done, left=left), run=None)


def _twins(verdict: Verdict) -> list[str]:
    """The other machines of this name that are to be ended with it: not proved gone, or back."""
    if verdict.record is None:
        return []
    left = (*verdict.record.unproved, *verdict.back)
    return [pod for pod in dict.fromkeys(left) if pod != verdict.pod]
