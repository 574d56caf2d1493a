"""A sentence of the contract, and the check that proves it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from gipper.testing.contract.stage import Stage


@attrs.frozen
class Check:
    """`id` never changes its meaning; `text` is the sentence. `prove` raises ContractBroken or Unsupported.

    `hook`: the optional hook without which the sentence says nothing.
    """

    id: str
    text: str
    prove: Callable[[Stage], None]
    hook: str | None = None


class ContractBroken(AssertionError):
    """A sentence doesn't hold; the message begins with its id and its text."""

    def __init__(self, check: Check, detail: str) -> None:
        super().__init__(f"{check.id}: {check.text}\n  but {detail}")
        self.check = check


class Broken(Exception):
    """Why the sentence that is being checked doesn't hold."""
