"""What a test may change about the market; each default is what is usual."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs
from emulators.housing import Gpu
from emulators.limits import Interval

# The market's API pages, August 2026: seconds between two calls of one caller.
INTERVALS: Mapping[str, Interval] = {
    "search": Interval(60.0, most=10),
    "list": Interval(1.0),
    "read": Interval(2.0),
    "create": Interval(4.5, penalty_s=12.0),
    "destroy": Interval(3.0),
    "state": Interval(1.0),
    "attach": Interval(1.0),
    "detach": Interval(2.0),
    "logs": Interval(1.0),
    "charges": Interval(1.0),
    "invoices": Interval(3.0),
}


@attrs.define(kw_only=True)
class Knobs:
    """Times are seconds after the create.

    `appear_s`: the lists show it from then on; `pulling_s`: the image loads; `running_s`: it runs and its
    sandbox is made; `ports_s`: its ports are told. `linger_s`: lists show it so long after its end.
    """

    appear_s: float = 0.0
    pulling_s: float = 0.0
    running_s: float = 0.3
    ports_s: float = 0.0
    linger_s: float = 0.0
    gone_form: Literal["400", "404", "410", "200"] = "400"
    too_often_form: Literal["text", "threshold", "detail", "json"] = "threshold"
    retry_after: bool = False
    two_factor: bool = False
    wrong_key_status: int = 404
    ids_change: bool = False
    status: Mapping[str, Any] | None = None
    message: str | None = None
    stuck_loading: bool = False
    ports_null: bool = False
    dearer: float = 1.0
    always_bid: bool | None = None
    no_instance: bool = False
    error_with_contract: bool = False
    key_never: bool = False
    direct_blocked: bool = False
    delete_ignored: bool = False
    bills_lag_s: float = 0.0
    strict_body: bool = True
    hosts: dict[int, Gpu] = attrs.field(factory=dict)
    log_after: int = 1

    def host(self, machine_id: int) -> Gpu:
        """What the GPUs of one physical host are like."""
        return self.hosts.get(machine_id, Gpu())
