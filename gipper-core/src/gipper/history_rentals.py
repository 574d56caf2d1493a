"""What is kept of every rental: one row of numbers each, in columns.

Columns are what a file can hold as it is, and what tens of thousands of rows are read from in
milliseconds. An unknown number is NaN, an unknown name -1.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

from gipper.values.estimates import PHASES

NONE: Final = -1
GRADED: Final = (*PHASES, "wall")


class Verdict(IntEnum):
    """What a rental says of its host."""

    NEITHER = 0
    GOOD = 1
    BAD = 2


class Ending(IntEnum):
    """How far a machine's clean-up has come: not begun, asked for, proved."""

    NOT_ASKED = 0
    ASKED = 1
    PROVED = 2


# Names by their number in `Names`, then plain numbers: `name` is a checksum of the machine's name, `guessed`
# has one bit for each of PHASES.
IDS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("provider", "host", "region", "gpu", "model", "workload", "reason"), NONE),
    **dict.fromkeys(("name", "verdict", "ending", "guessed"), 0),
}
# Times in seconds (`at` since 1970), amounts of data in megabits, money in dollars. `computed` has the
# estimate's adjustments in it, `billed` leaves bandwidth out, `paid` is the whole bill. `off_*` is
# ln(actual / predicted).
_UNKNOWN: Final = (
    "at", "ready", "setup", "compute", "seconds", "computed", "billed", "paid", "low_s", "high_s", "low_usd",
    "high_usd", "wall", "predicted_usd", "actual_usd", *(f"off_{name}" for name in GRADED),
)  # fmt: skip
NUMBERS: Final[Mapping[str, float]] = {
    **dict.fromkeys(_UNKNOWN, math.nan),
    **dict.fromkeys(("sent_mb", "down_mb", "down_s", "up_mb", "up_s", "extra"), 0.0),
    "factor": 1.0,
}


class Rentals:
    """The columns; row numbers count from 0 in the order in which machines were created."""

    def __init__(self) -> None:
        self.ids: dict[str, array[int]] = {name: array("i") for name in IDS}
        self.numbers: dict[str, array[float]] = {name: array("d") for name in NUMBERS}

    def __len__(self) -> int:
        return len(self.ids["provider"])

    def add(self) -> int:
        """A new row in which nothing is known; its number."""
        for name, usual in IDS.items():
            self.ids[name].append(usual)
        for name, unknown in NUMBERS.items():
            self.numbers[name].append(unknown)
        return len(self) - 1


class Names:
    """Each text once, by number."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.texts = list(texts)
        self._numbers = {text: number for number, text in enumerate(self.texts)}

    def number(self, text: str | None) -> int:
        """The number of `text`, a new one where it was never seen; `NONE` for None."""
        if text is None:
            return NONE
        found = self._numbers.setdefault(text, len(self.texts))
        if found == len(self.texts):
            self.texts.append(text)
        return found

    def find(self, text: str | None) -> int | None:
        """The number of `text`, or None where it was never seen."""
        return None if text is None else self._numbers.get(text)

    def text(self, number: int) -> str | None:
        """The inverse of `number`."""
        return None if number == NONE else self.texts[number]
