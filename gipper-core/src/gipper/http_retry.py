"""When a read is tried again, and how long it waits. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

TRIES: Final = 4
# Statuses by which a gateway says "not now".
GATEWAY: Final = frozenset({502, 503, 504})
TOO_MANY: Final = 429
FIRST_PAUSE_S: Final = 0.5
FIRST_PAUSE_429_S: Final = 2.0
# A longer wait than this is told to the user instead of taken.
MAX_WAIT_S: Final = 60.0
# Words of a limit that a short wait doesn't lift.
_LASTING: Final = ("quota", "daily")


def pause_after(attempt: int, *, first: float = FIRST_PAUSE_S) -> float:
    """Seconds before the try after `attempt` (0 is the first)."""
    return float(first * 2**attempt)


def pause_for(
    status: int, headers: Mapping[str, str], text: str, attempt: int, now: datetime
) -> float | None:
    """Seconds until the same read may be repeated, or None where that is no use."""
    if attempt + 1 >= TRIES:
        return None
    asked = retry_after(headers.get("Retry-After"), now)
    if status == TOO_MANY:
        if asked is None and any(word in text.casefold() for word in _LASTING):
            return None
        usual = pause_after(attempt, first=FIRST_PAUSE_429_S)
    elif status in GATEWAY:
        usual = pause_after(attempt)
    else:
        return None
    wait = usual if asked is None else asked
    return wait if wait <= MAX_WAIT_S else None


def retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds that a Retry-After header asks for: a number or a date; None where it says nothing."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        moment = http_date(value)
        return None if moment is None else max(0.0, (moment - now).total_seconds())
    return max(0.0, seconds) if math.isfinite(seconds) else None


def http_date(value: str | None) -> datetime | None:
    """An HTTP date as aware UTC, or None where it isn't one."""
    if not value:
        return None
    try:
        moment = parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
