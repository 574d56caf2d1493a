"""The rentals of a window of time, grouped and read column by column."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from gipper.cost_history import Direction
from gipper.history_rentals import NONE, Ending, Verdict
from gipper.history_summary import Summary
from gipper.values.estimates import PHASES


class Market(NamedTuple):
    """Row numbers of one provider, and of each of its known machines, oldest first."""

    rows: list[int]
    hosts: dict[str | None, list[int]]


_EMPTY = Market([], {})


class Window:
    """Rows are numbers in the summary's columns."""

    def __init__(self, summary: Summary, since: datetime) -> None:
        self.summary = summary
        self._ids, self._numbers = summary.rentals.ids, summary.rentals.numbers
        first = since.timestamp()
        self.rows = [row for row, at in enumerate(self._numbers["at"]) if at >= first]
        self._markets = self._grouped()
        self._workloads: dict[str, list[int]] = {}

    def _grouped(self) -> dict[str, Market]:
        provider, rows = self._ids["provider"], dict[int, list[int]]()
        for row in self.rows:
            found = rows.get(provider[row])
            if found is None:
                found = rows[provider[row]] = []
            found.append(row)
        text = self.summary.names.texts
        return {text[number]: Market(own, self._by_host(own)) for number, own in rows.items()}

    def _by_host(self, rows: Iterable[int]) -> dict[str | None, list[int]]:
        column, found = self._ids["host"], dict[int, list[int]]()
        for row in rows:
            number = column[row]
            if number in found:
                found[number].append(row)
            else:
                found[number] = [row]
        found.pop(NONE, None)
        return {self.summary.names.text(number): own for number, own in found.items()}

    def providers(self) -> list[str]:
        """All with a rental, by name."""
        return sorted(self._markets)

    def market(self, provider: str) -> Market:
        """The provider's rows; none where it has no rental."""
        return self._markets.get(provider, _EMPTY)

    def in_region(self, market: Market, region: str) -> list[int]:
        """The market's rows in one country."""
        number, column = self.summary.names.find(region), self._ids["region"]
        return [row for row in market.rows if column[row] == number]

    def known(self, column: str, rows: Iterable[int]) -> list[float]:
        """The values of a column of numbers that are known."""
        values = self._numbers[column]
        return [value for row in rows if (value := values[row]) == value]

    def rates(self, direction: Direction, rows: Iterable[int]) -> list[float]:
        """Measured Mb/s, one for each rental that moved enough."""
        megabits, seconds = self._numbers[f"{direction}_mb"], self._numbers[f"{direction}_s"]
        return [megabits[row] / seconds[row] for row in rows if seconds[row] > 0]

    def judged(self, rows: Iterable[int]) -> tuple[int, int]:
        """(bad, good or bad)."""
        verdict = self._ids["verdict"]
        found = list(map(verdict.__getitem__, rows))
        bad = found.count(Verdict.BAD)
        return bad, bad + found.count(Verdict.GOOD)

    def last_two_bad(self, rows: Sequence[int]) -> bool:
        """True where the last two that are good or bad are bad."""
        verdict = self._ids["verdict"]
        latest = (v for row in reversed(rows) if (v := verdict[row]) != Verdict.NEITHER)
        return list(islice(latest, 2)) == [Verdict.BAD, Verdict.BAD]

    def bills(self, rows: Iterable[int]) -> tuple[list[float], list[float]]:
        """Seconds, and dollars billed / computed, of rentals of which both are known."""
        seconds, computed, billed = (self._numbers[name] for name in ("seconds", "computed", "billed"))
        both = [row for row in rows if seconds[row] > 0 and computed[row] > 0 and billed[row] >= 0]
        return [seconds[row] for row in both], [billed[row] / computed[row] for row in both]

    def computed(self, workload: str, model: str) -> list[float]:
        """Seconds of the command in runs that succeeded."""
        number, models = self.summary.names.find(model), self._ids["model"]
        return self.known("compute", [row for row in self._of_workload(workload) if models[row] == number])

    def set_up(self, workload: str) -> list[float]:
        """Seconds of `run.setup` in runs that succeeded."""
        return self.known("setup", self._of_workload(workload))

    def _of_workload(self, workload: str) -> list[int]:
        if workload not in self._workloads:
            number, column = self.summary.names.find(workload), self._ids["workload"]
            self._workloads[workload] = [row for row in self.rows if column[row] == number]
        return self._workloads[workload]

    def off(self, phase: str, rows: Sequence[int] | None = None, *, guesses: bool = True) -> list[float]:
        """ln(actual / predicted) of a phase or of `wall`, oldest first."""
        values, guessed = self._numbers[f"off_{phase}"], self._ids["guessed"]
        bit = 0 if guesses else 1 << PHASES.index(phase)
        found = self.rows if rows is None else rows
        return [value for row in found if (value := values[row]) == value and not guessed[row] & bit]

    def usd_off(self, rows: Iterable[int]) -> list[float]:
        """ln(actual / predicted) of the dollars."""
        predicted, found = self._numbers["predicted_usd"], []
        for row in rows:
            paid = self.paid(row)
            if paid > 0 and predicted[row] > 0:
                found.append(math.log(paid / predicted[row]))
        return found

    def paid(self, row: int) -> float:
        """Dollars that a graded run's machine cost: as billed where known; NaN where nothing is."""
        billed, computed = self._numbers["paid"][row], self._numbers["actual_usd"][row]
        return computed if math.isnan(billed) else billed

    def inside(self, what: str, rows: Iterable[int]) -> tuple[int, int]:
        """(how often the actual "s" or "usd" fell into its interval, how often there was one)."""
        low, high = self._numbers[f"low_{what}"], self._numbers[f"high_{what}"]
        actual = self.paid if what == "usd" else self._numbers["wall"].__getitem__
        known = (row for row in rows if not math.isnan(low[row] + actual(row)))
        held = [low[row] <= actual(row) <= high[row] for row in known]
        return sum(held), len(held)

    def unconfirmed(self, rows: Iterable[int]) -> int:
        """Machines whose clean-up began and isn't proved."""
        return sum(1 for row in rows if self._ids["ending"][row] == Ending.ASKED)

    def verdicts(self, rows: Iterable[int], verdict: Verdict) -> list[int]:
        """The rows with that verdict."""
        return [row for row in rows if self._ids["verdict"][row] == verdict]

    def text(self, column: str, row: int) -> str | None:
        """The name in a column of names."""
        return self.summary.names.text(self._ids[column][row])
