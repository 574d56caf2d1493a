"""What the market's answers mean when they are no success. Pure.

The market words one failure in many ways: the text may be under `msg`, `message` or `detail`, be the bare
body, or come with status 200; a wrong key is often a 404, as a machine that is gone is. Told by the
market's API pages and by what users reported until October 2026.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, Literal

import attrs

from gipper.api import ProviderError, wire

Meaning = Literal["key", "scope", "two_factor", "quota", "often", "missing", "other"]

_TEXT_MOST: Final = 300
_TEXTS: Final = ("msg", "message", "detail", "error_msg", "error")
_GONE_CODES: Final = frozenset({"not_found", "no_such_instance", "no_such_contract"})
_QUOTA: Final = "search_quota_exceeded"
_THRESHOLD: Final = re.compile(r"threshold\s*[=:]\s*(\d{1,4}(?:\.\d{1,6})?)", re.IGNORECASE)
# Not "rate_limit" alone: an account may have a spend_rate_limit.
_OFTEN: Final = ("too frequent", "rate_limit_exceeded", "too many requests")
_TWO_FACTOR: Final = ("two factor", "two-factor", "2fa", "session expired", "session has expired")
_WRONG_KEY: Final = ("invalid user key", "invalid api key", "requires login", "bad api key")


@attrs.frozen(kw_only=True)
class Reply:
    """An answer: its status, its headers, its JSON object (empty where it was none), its bare text."""

    status: int
    body: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    text: str = attrs.field(default="", repr=False)
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    is_json: bool = True

    @property
    def good(self) -> bool:
        """A JSON object that doesn't say `success: false`, under a status that says so too."""
        refused = wire.flag(self.body.get("success")) is False
        return self.is_json and 200 <= self.status < 300 and not refused

    @property
    def code(self) -> str:
        """The market's own word for the failure, in small letters; "" where it gives none."""
        return (wire.text(self.body.get("error")) or "").casefold()

    @property
    def said(self) -> str:
        """What the market says to people, cut. Never the whole body: it may hold an instance's key."""
        if not self.is_json:
            return (wire.text(self.text) or "")[:_TEXT_MOST]
        found = (wire.text(self.body.get(key)) for key in _TEXTS)
        return next((f for f in found if f), "")[:_TEXT_MOST]

    def says(self, *words: str) -> bool:
        """Whether any of `words` (small letters) stands in the code or in the text."""
        whole = f"{self.code} {' '.join(self.said.casefold().split())}"
        return any(word in whole for word in words)


def meaning(reply: Reply) -> Meaning:
    """What a failure is about, as far as every endpoint shares it."""
    if reply.says(*_TWO_FACTOR):
        return "two_factor"
    if reply.says(_QUOTA):
        return "quota"
    if reply.status == 429 or reply.says(*_OFTEN):
        return "often"
    if reply.says(*_WRONG_KEY) or (reply.code == "auth_error" and reply.status == 404):
        return "key"
    if reply.code == "auth_error" or reply.status in (401, 403):
        return "scope"
    return "missing" if _missing(reply) else "other"


def _missing(reply: Reply) -> bool:
    """The market's own "not found"; a 404 alone is none: a wrong key and a proxy say that, too."""
    return reply.is_json and reply.status in (404, 410) and reply.says(*_GONE_CODES)


def failure(reply: Reply, what: str, scope: str) -> ProviderError:
    """The error for a call that failed. `what` says which, `scope` the key's category that it needs."""
    told = f": {reply.said}" if reply.said else ""
    kind = meaning(reply)
    if kind == "key":
        return _error(f"{what}: the key was not accepted{told}", "is VAST_API_KEY whole, and still valid?")
    if kind == "scope":
        hint = f"give the key the category {scope} (Vast's console: Keys), or use one without limits"
        return _error(f"{what}: the key lacks the category {scope}{told}", hint)
    if kind == "two_factor":
        hint = "make an API key in a session that passed two-factor login, and use that"
        return _error(f"{what}: the account asks for two-factor login{told}", hint)
    if kind == "quota":
        return _error(f"{what}: the day's searches are used up{_reset(reply)}", "other markets still answer")
    if kind == "often":
        return _error(f"{what}: asked too often{told}", "try again in a minute")
    said = told or ("" if reply.is_json else ", and the answer isn't JSON")
    return ProviderError(f"vast: {what}: HTTP {reply.status}{said}")


def _error(text: str, hint: str) -> ProviderError:
    return ProviderError(f"vast: {text}", hint=hint)


def _reset(reply: Reply) -> str:
    moment = wire.moment(reply.headers.get("X-RateLimit-Reset"))
    return f"; they begin anew at {moment:%Y-%m-%d %H:%M} UTC" if moment else " until the next UTC midnight"


def asked_wait(reply: Reply, now: datetime) -> float:
    """Seconds that a "too often" asks for, in header, body or text; 0 where it asks for none."""
    stated = _header_wait(reply.headers.get("Retry-After"), now)
    body = wire.positive(reply.body.get("retry_after")) or 0.0
    found = _THRESHOLD.search(reply.said)
    return max(stated, body, float(found[1]) if found else 0.0)


def _header_wait(value: str | None, now: datetime) -> float:
    seconds = wire.number(value)
    if seconds is not None or not value:
        return max(0.0, seconds or 0.0)
    try:
        moment = parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return 0.0
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (aware - now).total_seconds())
