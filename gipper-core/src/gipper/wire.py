"""Values out of a market's JSON, defensively: whatever stands there, they become what is meant or None.

Markets send numbers as text, text as null, and leave fields out; another server in their place may send
anything. Nothing here raises for any JSON value. Since API 1, as `gipper.api.wire`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from gipper.money import usd

# Beyond these a figure is a mistake, not a price or a size.
MOST_USD: Final = Decimal(10**6)
MOST_NUMBER: Final = 1e15
_NUMBER: Final = re.compile(r"[+-]?(\d{1,20}(\.\d{0,30})?|\.\d{1,30})([eE][+-]?\d{1,3})?")
_FLAGS: Final = {"true": True, "false": False, "1": True, "0": False}
# datetime can't say more than the year 9999.
_LAST_S: Final = 253_402_300_799
_TEXT_MOST: Final = 4096
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]+")


def mapping(value: object) -> Mapping[str, Any]:
    """An object; an empty one for everything else."""
    return value if isinstance(value, dict) else {}


def text(value: object) -> str | None:
    """Text on one line, without control characters and blanks around it; None where nothing is left."""
    if not isinstance(value, str):
        return None
    return " ".join(_CONTROL.sub(" ", value[:_TEXT_MOST]).split()) or None


def number(value: object) -> float | None:
    """A finite number, also one that was sent as text."""
    found = _decimal(value)
    return None if found is None or abs(found) > MOST_NUMBER else float(found)


def positive(value: object) -> float | None:
    """A number above 0: the market says 0 or -1 where it doesn't know."""
    found = number(value)
    return found if found is not None and found > 0 else None


def whole(value: object) -> int | None:
    """A whole number of 0 or more."""
    found = number(value)
    return int(found) if found is not None and found >= 0 and found == math.floor(found) else None


def ident(value: object) -> str | None:
    """A number that names something, as text: 7001001 and "7001001" alike."""
    found = whole(value) if not isinstance(value, float) else None
    return str(found) if found else None


def money(value: object) -> Decimal | None:
    """Dollars of 0 or more, to the micro-dollar."""
    found = signed_money(value)
    return found if found is not None and found >= 0 else None


def signed_money(value: object) -> Decimal | None:
    """Dollars that may be owed, too."""
    found = _decimal(value)
    return usd(found) if found is not None and abs(found) <= MOST_USD else None


def flag(value: object) -> bool | None:
    """True or false; None where it isn't told."""
    if isinstance(value, bool):
        return value
    if isinstance(value, (str, int)):
        return _FLAGS.get(str(value)[:8].strip().casefold())
    return None


def moment(value: object) -> datetime | None:
    """Seconds since 1970 as aware UTC."""
    found = positive(value)
    return datetime.fromtimestamp(found, UTC) if found is not None and found <= _LAST_S else None


def port(value: object) -> int | None:
    """A port's number, 1 to 65535."""
    found = whole(value)
    return found if found is not None and 1 <= found <= 65535 else None


def _decimal(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, int) and abs(value) > 10**20:
        return None
    shown = str(value).strip()
    if not _NUMBER.fullmatch(shown):
        return None
    try:
        return Decimal(shown)
    except InvalidOperation:
        return None
