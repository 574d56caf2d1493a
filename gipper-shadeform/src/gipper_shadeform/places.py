"""Where a region lies: its name or its text for people as a country. Pure.

Regions are called `<city>-<country>-<number>` today; older names of the clouds' own are still met. What isn't
clear is None: a job that names countries must not land there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from gipper.api import country_code

# Countries of two words as one, as the market writes them.
_TOGETHER: Final[Mapping[str, str]] = {
    "southkorea": "KR",
    "southafrica": "ZA",
    "hongkong": "HK",
    "newzealand": "NZ",
    "saudiarabia": "SA",
    "unitedkingdom": "GB",
    "unitedstates": "US",
    "unitedarabemirates": "AE",
    "czechrepublic": "CZ",
    "costarica": "CR",
}
_SHORT: Final = frozenset({"usa", "uk", "uae"})
# Names of single clouds from before. "eu-..." says no country.
_OLD: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"canada-\d+|tor\d+|mon\d+"), "CA"),
    (re.compile(r"(na-)?us-[a-z0-9-]+"), "US"),
    (re.compile(r"fin-\d+"), "FI"),
)


def country_of(region: str, display: str | None) -> str | None:
    """The ISO 3166 alpha-2 code; None where it isn't told, or where name and text differ."""
    by_name, by_text = by_region(region), by_display(display)
    if by_name is not None and by_text is not None and by_name != by_text:
        return None
    return by_name or by_text


def by_region(region: str) -> str | None:
    """What the region's name says."""
    low = region.strip().casefold()
    for pattern, code in _OLD:
        if pattern.fullmatch(low):
            return code
    parts = low.split("-")
    if len(parts) < 3 or not parts[-1].isdecimal():
        return None
    word = parts[-2]
    # Other short words are as likely a city or a state: "fra" would be France, and is Frankfurt.
    if len(word) <= 3 and word not in _SHORT:
        return None
    return _TOGETHER.get(word) or country_code(word)


def by_display(display: str | None) -> str | None:
    """What the text for people says: "US, Houston, TX" begins with the code, others end with a name."""
    parts = [part.strip() for part in (display or "").split(",")]
    first, last = parts[0], parts[-1]
    if len(parts) > 1 and re.fullmatch(r"[A-Z]{2}", first):
        return country_code(first)
    # Two letters at the end are a state of the US as often as a country.
    return country_code(last) if len(last) > 2 else None
