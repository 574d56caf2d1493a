"""The ledger's lessons for the cost model, seen through a window of days.

A rental is *good* once its job started, *bad* where the host was blamed for its end, and neither in all
other cases: it then counts neither for nor against its host.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from gipper.cost_history import DEFAULT_SIGMA, ENOUGH, Direction, Failures, Sourced, Spread
from gipper.history_figures import billed_share, mean_and_spread, median
from gipper.history_learning import learn
from gipper.history_summary import Summary
from gipper.history_window import Market, Window
from gipper.ledger.protocol import LedgerReader
from gipper.values.estimates import PHASES
from gipper.wording import counted

# How many rentals a median of many machines needs; a machine's own link, and a workload's time on a
# GPU, are known from one.
LEAST: Final = 3
# The spread of forecasts is that of the latest runs: earlier ones were made knowing less.
RECENT: Final = 100
# Figures of a provider with more rentals than this are those of the latest: older ones hardly move them.
ENOUGH_ROWS: Final = 1000


def open_history(reader: LedgerReader, folder: Path, *, now: datetime, days: float) -> LedgerHistory:
    """What the ledger has taught in the last `days`, caught up with it first. Raises LedgerError.

    `folder` is where the ledger lies and its summary is kept.
    """
    since = now - timedelta(days=days)
    return LedgerHistory(learn(reader, folder, since), since=since)


class LedgerHistory:
    """`gipper.cost_history.History` of rentals that began at `since` or later.

    Everything is worked out when it is first asked for. `window` is what reports read.
    """

    def __init__(self, summary: Summary, *, since: datetime) -> None:
        self.window = Window(summary, since)
        self._links: dict[tuple[str, str | None, Direction], list[float]] = {}
        self._own_links: dict[tuple[str, str, Direction], Sourced | None] = {}
        self._ready: dict[str, Sourced | None] = {}
        self._failures: dict[tuple[str, str | None], tuple[int, int]] = {}
        self._spreads: dict[str, Spread] = {}

    def hosts(self, provider: str) -> Collection[str | None]:
        """The provider's machines that were rented in the window."""
        return self._market(provider).hosts

    def ready_s(self, provider: str, host: str | None) -> Sourced | None:
        """Median seconds until SSH answered, of the machine, else of the provider (3 or more)."""
        rows = self._rows(provider, host)
        if len(rows) >= LEAST and len(own := self.window.known("ready", rows)) >= LEAST:
            return Sourced(median(own), f"history: this machine, {counted(len(own), 'rental')}")
        if provider not in self._ready:
            found = self.window.known("ready", self._market(provider).rows[-ENOUGH_ROWS:])
            source = f"history: this provider, {counted(len(found), 'rental')}"
            self._ready[provider] = Sourced(median(found), source) if len(found) >= LEAST else None
        return self._ready[provider]

    def link_mbps(
        self, provider: str, host: str | None, region: str | None, direction: Direction
    ) -> Sourced | None:
        """Median measured Mb/s, seen from the host: of the machine (1 or more), of the provider in the
        country, of the provider (3 or more each)."""
        own = None if host is None else self._own_link(provider, host, direction)
        if own is not None:
            return own
        if region is not None and len(rates := self._rates(provider, region, direction)) >= LEAST:
            return Sourced(median(rates), f"measured in {region}, {counted(len(rates), 'rental')}")
        if len(rates := self._rates(provider, None, direction)) >= LEAST:
            return Sourced(median(rates), f"measured on this provider, {counted(len(rates), 'rental')}")
        return None

    def compute_s(self, workload: str, gpu: str) -> Sourced | None:
        """Median seconds of succeeded runs of `workload` on the model `gpu`, of one run or more."""
        found = self.window.computed(workload, gpu)
        return Sourced(median(found), f"history: {len(found)} runs on {gpu}") if found else None

    def setup_s(self, workload: str) -> Sourced | None:
        """Median measured seconds of `run.setup` in succeeded runs of `workload` (3 or more), whatever the
        machine; the job's own downloads are left out, as far as they were predicted."""
        found = self.window.set_up(workload)
        return Sourced(median(found), f"history: {len(found)} runs") if len(found) >= LEAST else None

    def billing_factor(self, provider: str) -> Sourced | None:
        """Billed over computed of the provider's rentals that have both (3 or more), weighted by seconds.

        Kept within `history_figures.FACTOR_RANGE`: minimum charges of tiny runs say nothing of long ones.
        """
        seconds, shares = self.window.bills(self._market(provider).rows[-ENOUGH_ROWS:])
        if len(shares) < LEAST:
            return None
        return Sourced(billed_share(seconds, shares), f"history: {len(shares)} bills")

    def failures(self, provider: str, host: str | None) -> Failures:
        """Good and bad rentals counted; those that were neither are left out."""
        return Failures(
            *self._judged(provider, None), *((0, 0) if host is None else self._judged(provider, host))
        )

    def bad_twice(self, provider: str, host: str) -> bool:
        """True where the last two rentals of the machine that were good or bad were both bad."""
        return self.window.last_two_bad(self._rows(provider, host))

    def spread(self, phase: str) -> Spread:
        """How far off the last 100 forecasts of this phase were, guesses left out."""
        if phase not in self._spreads:
            self._spreads[phase] = self._spread(phase)
        return self._spreads[phase]

    def _spread(self, phase: str) -> Spread:
        if phase not in PHASES:
            return Spread(DEFAULT_SIGMA, 0)
        seen = self.window.off(phase, self.window.rows[-ENOUGH_ROWS:], guesses=False)[-RECENT:]
        if len(seen) < ENOUGH:
            return Spread(DEFAULT_SIGMA, len(seen))
        bias, sigma = mean_and_spread(seen)
        return Spread(sigma, len(seen), bias)

    def _judged(self, provider: str, host: str | None) -> tuple[int, int]:
        key = (provider, host)
        if key not in self._failures:
            rows = self._market(provider).rows if host is None else self._rows(provider, host)
            self._failures[key] = self.window.judged(rows)
        return self._failures[key]

    def _own_link(self, provider: str, host: str, direction: Direction) -> Sourced | None:
        key = (provider, host, direction)
        if key not in self._own_links:
            rates = self.window.rates(direction, self._rows(provider, host))
            source = f"measured on this machine, {counted(len(rates), 'rental')}"
            self._own_links[key] = Sourced(median(rates), source) if rates else None
        return self._own_links[key]

    def _market(self, provider: str) -> Market:
        return self.window.market(provider)

    def _rows(self, provider: str, host: str | None) -> Sequence[int]:
        return () if host is None else self._market(provider).hosts.get(host, ())

    def _rates(self, provider: str, region: str | None, direction: Direction) -> list[float]:
        key = (provider, region, direction)
        if key not in self._links:
            market = self._market(provider)
            rows = market.rows if region is None else self.window.in_region(market, region)
            self._links[key] = self.window.rates(direction, rows[-ENOUGH_ROWS:])
        return self._links[key]
