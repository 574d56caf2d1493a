"""What the market's answers mean when they are no success. Pure.

No code tells "no capacity" from "bad request": only sentences do, and they are data here, as the market's
documentation and its users reported them until October 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import attrs

from gipper.api import ProviderError, wire

Meaning = Literal[
    "key", "scope", "edge", "money", "capacity", "often", "missing", "conflict", "request", "other"
]

_TEXT_MOST: Final = 300
CAPACITY: Final = (
    "no longer any instances available",
    "no instances currently available",
    "does not have the resources to deploy your pod",
    "could not find any pods with required specifications",
    "not enough free gpus on the host machine",
)
_MONEY: Final = (
    "insufficient balance",
    "balance is too low",
    "not enough credit",
    "spend limit",
    "insufficient funds",
)
_MISSING: Final = ("pod not found", "resource not found")
_TEXTS: Final = ("detail", "error", "message", "title")


@attrs.frozen(kw_only=True)
class Reply:
    """An answer: its status, its JSON object (empty where it was none), its bare text, its request id."""

    status: int
    body: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    text: str = attrs.field(default="", repr=False)
    is_json: bool = True
    request_id: str | None = None
    retry_after_s: float = 0.0

    @property
    def good(self) -> bool:
        """A success; one without a body is one, too."""
        return 200 <= self.status < 300 and (self.is_json or not self.text)

    @property
    def said(self) -> str:
        """What the market says to people, with what its checks complain of, cut."""
        if not self.is_json:
            return (wire.text(self.text) or "")[:_TEXT_MOST]
        found = next((t for t in (wire.text(self.body.get(key)) for key in _TEXTS) if t), "")
        wrong = self.body.get("errors")
        details = [t for t in map(wire.text, wrong) if t] if isinstance(wrong, list) else []
        return "; ".join([found, *details[:3]]).strip("; ")[:_TEXT_MOST]

    def says(self, words: tuple[str, ...]) -> bool:
        """Whether any of `words` (small letters) stands in the text."""
        return any(word in self.said.casefold() for word in words)


def meaning(reply: Reply) -> Meaning:
    """What a failure is about."""
    if reply.status == 429:
        return "often"
    if reply.status == 401:
        return "key"
    if reply.status == 403:
        return "scope" if reply.is_json else "edge"
    if reply.status == 402 or reply.says(_MONEY):
        return "money"
    if reply.says(CAPACITY):
        return "capacity"
    if reply.status == 404 and reply.is_json and reply.says(_MISSING):
        return "missing"
    if reply.status == 409:
        return "conflict"
    return "request" if reply.status in (400, 405, 413, 422) and reply.is_json else "other"


def failure(reply: Reply, what: str) -> ProviderError:
    """The error for a call that failed; `what` says which."""
    told = f": {reply.said}" if reply.said else ""
    tail = f" (request {reply.request_id})" if reply.request_id else ""
    kind = meaning(reply)
    if kind == "key":
        return _error(
            f"{what}: the key was not accepted{told}{tail}", "is RUNPOD_API_KEY whole, and still valid?"
        )
    if kind == "scope":
        hint = "give the key the right to do this (Runpod's console: Settings, API keys)"
        return _error(f"{what}: the key may not do this{told}{tail}", hint)
    if kind == "edge":
        text = f"{what}: Runpod's gateway turned the request away (HTTP 403, no word of the key){tail}"
        return _error(text, "try again in a minute, from another network if it stays so")
    if kind == "often":
        return _error(f"{what}: asked too often{told}{tail}", "try again in a minute")
    said = told or ("" if reply.is_json else ", and the answer isn't JSON")
    return ProviderError(f"runpod: {what}: HTTP {reply.status}{said}{tail}")


def _error(text: str, hint: str) -> ProviderError:
    return ProviderError(f"runpod: {text}", hint=hint)
