"""The ledger summed up as far as one receipt: a value that grows receipt by receipt."""

from __future__ import annotations

from typing import Any, Final

import attrs

from gipper.history_rentals import Names, Rentals

# Raise it when columns change their meaning: older and newer summaries are then made again.
SCHEMA: Final = 1


@attrs.define(kw_only=True)
class Summary:
    """Everything that history is made of. `seq` and `hash` name the last receipt in it (0, "": none).

    `machines` finds the row of a machine by `machine_key`; `runs` holds what is known of runs that have
    not ended: plain JSON values, dropped with `run.end`. `models` remembers names of models by spelling.
    """

    seq: int = 0
    hash: str = ""
    names: Names = attrs.field(factory=Names)
    rentals: Rentals = attrs.field(factory=Rentals)
    machines: dict[str, int] = attrs.field(factory=dict)
    runs: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    models: dict[str | None, int] = attrs.field(factory=dict)


def machine_key(provider: str, pod: str) -> str:
    """Two markets may give the same id."""
    return f"{provider} {pod}"
