"""What can go wrong between a provider's plugin and its market's API."""

from __future__ import annotations

from gipper.errors import ProviderError


class HttpStatus(ProviderError):
    """The market answered with a status that isn't a success. `text` is the body, redacted and cut."""

    def __init__(self, message: str, *, status: int, text: str = "", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.text = text


class HttpUnsent(ProviderError):
    """The request never reached the market: no name, no connection, a certificate that doesn't fit.

    `lasting`: trying again is no use, somebody has to change something first.
    """

    def __init__(self, message: str, *, hint: str | None = None, lasting: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.lasting = lasting


class HttpLost(ProviderError):
    """The request went out and no answer came back: nobody knows whether the market acted on it."""


class NotJson(ProviderError):
    """The market answered with something that isn't JSON (a login page, a gateway's excuse)."""
