"""What core hands to a provider's class when it is built."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from gipper.runtime import Runtime


class HttpSession(Protocol):
    """The session of `ProviderContext.http`: requests' own verbs, with limits, redaction and no
    surprises (no key to another host, reads alone retried)."""

    def request(self, method: str, url: str, **kwargs: Any) -> Any:
        """As `requests.Session.request`."""

    def beginning(
        self, url: str, *, seconds: float, most: int = ..., headers: Mapping[str, str] | None = ...,
        params: Mapping[str, str] | None = ...,
    ) -> bytes:  # fmt: skip
        """The first bytes of a GET that may never end, such as a log that is followed."""


class ProviderContext(Protocol):
    """Nothing here is read or opened until it is called."""

    @property
    def settings(self) -> Any:
        """The provider's settings table, checked, as the class that its info declares (or None)."""

    @property
    def runtime(self) -> Runtime:
        """The only clock, sleep and threads that a plugin may use."""

    @property
    def data_folder(self) -> Path:
        """A folder of this provider's own beside the ledger; made when first asked for, mode 700."""

    def secret(self, name: str | None = None) -> str:
        """The value of the provider's key, or of another of its key names. Raises KeyMissing."""

    def base_url(self, name: str | None = None) -> str:
        """Where the market's API is, without a last slash: settings, else the environment, else the default.

        `name` picks one of the `BaseUrl`s that the provider declared; None is the first. Raises ConfigError
        for one that may not be asked, and PluginError for one that isn't declared.
        """

    def http(self) -> HttpSession:
        """A shared HTTP session for this provider."""
