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
    from gipper.reaptimer import status, warnings

    found = status(gipper)
    if not found:
        needed = [p for p in gipper.providers() if p.key_name is not None and p.has_key()]
        text = "no reap timer: nobody ends a machine whose client died but the machine itself"
        yield warning("timer", text, _INSTALL) if needed else well("timer", "none, and no market has a key")
    for one in found:
        if not one.active:
            yield trouble("timer", f"{one.kind} {one.where} is installed, but doesn't run", _INSTALL)
        elif one.stale:
            yield warning("timer", f"{one.where} is not what would be installed now", _INSTALL)
        else:
            yield well("timer", f"{one.kind} {one.where}, every 15 minutes")
        for text, cure in warnings(gipper, one.kind):
            yield warning("timer", text, cure)
