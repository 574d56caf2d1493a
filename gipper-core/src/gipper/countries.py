"""Countries by ISO 3166: codes that users type, and the place texts of markets.

The list of codes and names is the library's; what people say instead of an official name is in `SPOKEN`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from gipper.country_places import CENTROIDS

# Everyday names, and codes in use beside the standard's, that differ from the official ones.
SPOKEN: Final[Mapping[str, str]] = {
    "america": "US",
    "bolivia": "BO",
    "bosnia": "BA",
    "brunei": "BN",
    "cape verde": "CV",
    "czech republic": "CZ",
    "east timor": "TL",
    "england": "GB",
    "great britain": "GB",
    "holland": "NL",
    "hong kong sar": "HK",
    "iran": "IR",
    "ivory coast": "CI",
    "korea": "KR",
    "laos": "LA",
    "macau": "MO",
    "macedonia": "MK",
    "moldova": "MD",
    "north korea": "KP",
    "northern ireland": "GB",
    "palestine": "PS",
    "republic of korea": "KR",
    "russia": "RU",
    "scotland": "GB",
    "south korea": "KR",
    "swaziland": "SZ",
    "syria": "SY",
    "taiwan": "TW",
    "tanzania": "TZ",
    "the netherlands": "NL",
    "turkey": "TR",
    "uae": "AE",
    "uk": "GB",
    "united kingdom": "GB",
    "united states": "US",
    "venezuela": "VE",
    "vietnam": "VN",
    "wales": "GB",
}
_NEAR: Final = 0.6


def country_code(text: str | None) -> str | None:
    """The ISO 3166 alpha-2 code that a market's place text means, None where it can't be told.

    The whole text, else what stands behind its last comma, as a code of two or three letters or as a name:
    "Utah, US", "Sweden", ", NO", "Korea, Republic of". Never raises for text; None and "" are unknown.
    """
    if not text:
        return None
    known = _by_name()
    whole = _folded(text)
    return known.get(whole) or known.get(_folded(whole.rpartition(",")[2]))


def is_country(code: str) -> bool:
    """True for an alpha-2 code of the standard, in either case."""
    return code.upper() in _names()


def country_name(code: str) -> str | None:
    """The standard's English name of an alpha-2 code, in either case."""
    return _names().get(code.upper())


def nearest_countries(text: str) -> Sequence[str]:
    """Codes that somebody who typed `text` may have meant, best first, at most three."""
    meant = country_code(text)
    if meant is not None:
        return (meant,)
    if len(text) <= 2:
        return ()
    known = _by_name()
    near = difflib.get_close_matches(_folded(text), [n for n in known if len(n) > 3], n=3, cutoff=_NEAR)
    return tuple(dict.fromkeys(known[name] for name in near))


def centroid(code: str | None) -> tuple[float, float] | None:
    """(latitude, longitude) in degrees of a country's middle, to about a degree; None where unknown."""
    return None if code is None else CENTROIDS.get(code.upper())


@cache
def _names() -> Mapping[str, str]:
    from iso3166 import countries  # late: most commands never need it

    return {country.alpha2: country.name for country in countries}


@cache
def _by_name() -> Mapping[str, str]:
    from iso3166 import countries

    found: dict[str, str] = {}
    for one in countries:
        for name in (one.name, one.apolitical_name, one.alpha3, one.alpha2):
            found[_folded(name)] = one.alpha2
    return {**found, **SPOKEN}


def _folded(text: str) -> str:
    return " ".join(text.split()).strip(" .").casefold()
