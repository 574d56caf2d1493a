"""Dollars: `Decimal`, to the micro-dollar, from a provider's JSON to the table."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from typing import Final

MICRO: Final = Decimal("0.000001")
ZERO: Final = Decimal("0.000000")


def usd(value: Decimal | int | str) -> Decimal:
    """`value` as dollars with 6 decimals (half to even). Raises ValueError unless finite."""
    amount = Decimal(value)
    if not amount.is_finite():
        raise ValueError(f"{value!r} is not an amount of dollars")
    return amount.quantize(MICRO, rounding=ROUND_HALF_EVEN)


def usd_from_float(value: float) -> Decimal:
    """Dollars from a figure of the cost model (scores and predictions are floats)."""
    return usd(repr(value))


def wire(amount: Decimal) -> str:
    """How dollars stand in the ledger and in exports: a plain string with 6 decimals."""
    return f"{usd(amount):f}"


def cost(usd_h: Decimal, seconds: float) -> Decimal:
    """Dollars for `seconds` at `usd_h` an hour."""
    return usd(usd_h * Decimal(repr(max(0.0, seconds))) / 3600)
