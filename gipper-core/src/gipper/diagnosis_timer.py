"""Doctor on the reap timer: is there one, would it see the keys, does it outlive a logout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from gipper.diagnosis_finding import Finding, trouble, warning, well

if TYPE_CHECKING:
    from gipper.core import Gipper

_INSTALL: Final = "gipper pod reap-timer install"


def timer(gipper: Gipper) -> Iterator[Finding]:
    """The timer of this data folder."""
    from gipper.reaptimer import advice, status, warnings

    found = status(gipper)
    if not found:
        text = "no reap timer: nobody ends a machine whose client died but the machine itself"
        if _needed(gipper):
            yield warning("timer", text, advice(gipper))
        else:
            yield well("timer", "none, no machine is open, and no market has a key")
    for one in found:
        if not one.active:
            yield trouble("timer", f"{one.kind} {one.where} is installed, but doesn't run", _INSTALL)
        elif one.stale:
            yield warning("timer", f"{one.where} is not what would be installed now", _INSTALL)
        else:
            yield well("timer", f"{one.kind} {one.where}, every 15 minutes")
        for text, cure in warnings(gipper, one.kind):
            yield warning("timer", text, cure)


def _needed(gipper: Gipper) -> bool:
    from gipper.lifecycle.book import KINDS, Book

    keyed = any(p.key_name is not None and p.has_key() for p in gipper.providers())
    return keyed or bool(Book.of(gipper.ledger.read(kinds=KINDS)).open_pods())
