"""What the market's answers mean when they are no success. Pure.

Most refusals of a create come under status 409 with a code of their own; the list of codes isn't published.
Words are those that other clients met until September 2026, or what such a service would say of money.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import attrs

from gipper.api import ProviderError, wire

Meaning = Literal[
    "key", "scope", "edge", "money", "quota", "capacity", "often", "missing", "broken", "conflict",
    "request", "other",
]  # fmt: skip

_TEXT_MOST: Final = 300
_SOLD_OUT: Final = "OUT_OF_STOCK"
CAPACITY: Final = ("out of stock", "out_of_stock", "no capacity", "not enough capacity", "sold out")
MONEY: Final = (
    "insufficient funds",
    "insufficient balance",
    "not enough credit",
    "wallet",
    "payment required",
    "add funds",
    "top up",
)
QUOTA: Final = ("quota", "limit reached", "limit exceeded", "too many instances", "maximum number")
UNIQUE: Final = ("name must be unique",)
_TEXTS: Final = ("error", "message", "detail")


@attrs.frozen(kw_only=True)
class Reply:
    """An answer: its status, its JSON object (empty where it was none), its bare text.

    `quiet`: nothing of it may be shown (it may hold a private key).
    """

    status: int
    body: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    text: str = attrs.field(default="", repr=False)
    is_json: bool = True
    retry_after_s: float = 0.0
    quiet: bool = False

    @property
    def good(self) -> bool:
        """A success; one without a body is one, too."""
        return 200 <= self.status < 300 and (self.is_json or not self.text)

    @property
    def is_page(self) -> bool:
        """A web page: what a gateway says, not the market."""
        return not self.is_json and self.text.lstrip()[:1] == "<"

    @property
    def code(self) -> str:
        """The market's own code, in capitals; "" where there is none."""
        return (wire.text(self.body.get("error_code")) or wire.text(self.body.get("code")) or "").upper()

    @property
    def said(self) -> str:
        """What the market says to people, cut."""
        if not self.is_json:
            return "" if self.quiet or self.is_page else (wire.text(self.text) or "")[:_TEXT_MOST]
        inner = wire.mapping(self.body.get("error")).get("message")
        found = (wire.text(value) for value in (inner, *(self.body.get(key) for key in _TEXTS)))
        return next((t for t in found if t), self.code)[:_TEXT_MOST]

    def says(self, words: tuple[str, ...]) -> bool:
        """Whether any of `words` (small letters) stands in the text or the code."""
        told = f"{self.said} {self.code} {self.text[:_TEXT_MOST]}".casefold()
        return any(word in told for word in words)


def meaning(reply: Reply) -> Meaning:
    """What a failure is about."""
    by_status = _by_status(reply)
    if by_status is not None:
        return by_status
    if reply.code == _SOLD_OUT or reply.says(CAPACITY):
        return "capacity"
    if reply.says(QUOTA):
        return "quota"
    if reply.code.startswith("INTERNAL"):
        return "broken"
    if reply.status == 409:
        return "conflict"
    return "request" if 400 <= reply.status < 500 and not reply.is_page else "other"


def _by_status(reply: Reply) -> Meaning | None:
    if reply.status == 429:
        return "often"
    if reply.is_page:
        return "edge" if reply.status in (401, 403) else "other"
    if reply.status == 401:
        return "key"
    if reply.status == 402 or (reply.status in (400, 403, 409) and reply.says(MONEY)):
        return "money"
    if reply.status == 403:
        return "scope"
    return "missing" if reply.status == 404 else None


def failure(reply: Reply, what: str) -> ProviderError:
    """The error for a call that failed; `what` says which."""
    told = f": {reply.said}" if reply.said else ""
    kind = meaning(reply)
    if kind == "key":
        hint = "is SHADEFORM_API_KEY whole, and still valid? A machine that runs goes on billing meanwhile"
        return _error(f"{what}: the key was not accepted{told}", hint)
    if kind == "scope":
        hint = "is SHADEFORM_API_KEY of the account that the machine belongs to?"
        return _error(f"{what}: not for this key{told}", hint)
    if kind == "edge":
        text = f"{what}: a gateway turned the request away (HTTP {reply.status}, no word of the key)"
        return _error(text, "try again in a minute, from another network if it stays so")
    if kind == "often":
        return _error(f"{what}: asked too often{told}", "try again in a minute")
    said = told or ("" if reply.is_json else ", and the answer isn't JSON")
    return ProviderError(f"shadeform: {what}: HTTP {reply.status}{said}")


def _error(text: str, hint: str) -> ProviderError:
    return ProviderError(f"shadeform: {text}", hint=hint)
