"""What a provider says about money, keys and broken machines."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Literal

import attrs

BillKind = Literal["gpu", "disk", "bandwidth", "other"]
FaultKind = Literal["host", "image", "account", "unknown"]


@attrs.frozen(kw_only=True)
class Bill:
    """One itemised line for one machine: dollars for [`since`, `until`)."""

    machine_id: str
    kind: BillKind
    usd: Decimal
    since: datetime
    until: datetime
    text: str = ""


@attrs.frozen(kw_only=True)
class Account:
    """What is known of an account; None stays unknown and is never shown as 0."""

    credit_usd: Decimal | None = None
    usd_h: Decimal | None = None
    limit_usd: Decimal | None = None


@attrs.frozen(kw_only=True)
class KeyCheck:
    """Whether a key works; `problem` names the missing scope or what else is wrong."""

    ok: bool
    problem: str | None = None


@attrs.frozen(kw_only=True)
class Diagnosis:
    """Why a machine did not come up: short provider text, and who is at fault."""

    text: str
    fault: FaultKind = "unknown"


@attrs.frozen(kw_only=True)
class Leftover:
    """Something that still bills after the machine is gone."""

    id: str
    text: str
    usd_h: Decimal | None = None


@attrs.frozen(kw_only=True)
class Watchdog:
    """The shell command that ends this one machine from inside, and which variables it reads there."""

    command: str
    reads: tuple[str, ...] = ()
