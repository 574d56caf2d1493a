"""What transfer asks of the scanner that looks for provider keys in a stream of bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Scanner(Protocol):
    """Looks for known secrets in one file; a new one is made per file."""

    def feed(self, data: bytes, /) -> None:
        """The file's next bytes; a secret may lie across two calls."""

    @property
    def found(self) -> frozenset[str]:
        """Names (never values) of the secrets seen so far."""


MakeScanner = Callable[[], Scanner]
Classify = Callable[[str, bytes], str | None]
