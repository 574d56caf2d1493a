"""A request on its way out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from gipper.http_urls import shown

# What a plugin may hand on to requests; everything else is the session's own business.
ALLOWED: Final = frozenset({"headers", "params", "json", "data", "timeout"})


@attrs.frozen(kw_only=True)
class Call:
    """A request as it goes out. Its `repr` shows neither headers nor body."""

    method: str
    url: str
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    body: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    timeout: tuple[float, float] = (10.0, 30.0)

    @property
    def what(self) -> str:
        """The request in words: method, host and path."""
        return f"{self.method} {shown(self.url)}"
