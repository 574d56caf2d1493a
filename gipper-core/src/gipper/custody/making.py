"""A report from a ledger, the runs' own copies and, where asked for, the markets: the edge with I/O."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs

from gipper.custody.asking import Asked, Inquiry
from gipper.custody.clean import cleaned
from gipper.custody.gaps import copied_receipts, gaps_of, ledger_gaps, lost_receipts, waiting_receipts
from gipper.custody.report import Gap, Report, Scope, make_report
from gipper.custody.stays import Trail, trail_of
from gipper.errors import ConfigError
from gipper.keys import Keys
from gipper.ledger.protocol import LedgerStore
from gipper.plugins.handle import Provider
from gipper.redact import Redactor
from gipper.runtime import Runtime


@attrs.frozen(kw_only=True)
class Footing:
    """What a report stands on: trail, number of receipts, the head's hash, what is wrong with the ledger."""

    trail: Trail
    receipts: int
    head: str
    gaps: tuple[Gap, ...]


@attrs.define(kw_only=True)
class Maker:
    """Makes reports. `redactor` learns the values of the secrets that the receipts name, as far as they are
    still set here, so that none of them is shown wherever it turned up."""

    store: LedgerStore
    data: Path
    redactor: Redactor
    keys: Keys
    runtime: Runtime

    def footing(self) -> Footing:
        """Read and verify the ledger. Raises LedgerError."""
        copied = copied_receipts(self.data)
        receipts = list(self.store.read())
        skipped, verdict = self.store.skipped, self.store.verify()
        problems = verdict.problems or ((self.store.damaged,) if self.store.damaged else ())
        lost = lost_receipts(copied, {r.id for r in receipts})
        # A row that can't be read is one of the problems already.
        gaps = ledger_gaps(problems, 0 if problems else skipped, lost, waiting_receipts(self.data))
        trail = trail_of(receipts)
        self._learn(trail)
        return Footing(trail=trail, receipts=verdict.receipts, head=verdict.head, gaps=tuple(gaps))

    def report(self, footing: Footing, scope: Scope, asked: Asked | None = None) -> Report:
        """The report, without a secret in it."""
        gaps = (*footing.gaps, *gaps_of(footing.trail, scope), *(asked.gaps if asked else ()))
        found = make_report(
            footing.trail, scope, made=self.runtime.now(), receipts=footing.receipts, head=footing.head,
            gaps=gaps, asked=asked.names if asked else (),
        )  # fmt: skip
        return cleaned(found, self.redactor)

    def ask(self, footing: Footing, scope: Scope, providers: Sequence[Provider], inst: str) -> Asked:
        """Ask the markets what they list and billed."""
        inquiry = Inquiry(
            trail=footing.trail, scope=scope, inst=inst, now=self.runtime.now(), redact=self.redactor.text
        )
        return inquiry.ask(providers)

    def _learn(self, trail: Trail) -> None:
        handed = {name for stay in trail.stays.values() for name in stay.secrets}
        named = handed.union(*(run.secrets for run in trail.runs.values()))
        learn(self.redactor, self.keys, sorted(named))


def learn(redactor: Redactor, keys: Keys, names: Sequence[str]) -> None:
    """Tell `redactor` the values of `names` that are set; one that is too short to be hidden is left out.

    Raises ConfigError where a dotenv can't be read.
    """
    for name, value in keys.values_of(names).items():
        try:
            redactor.add(value, name)
        except ConfigError:
            continue
