"""What a test may change about the market; each default is what is usual. Times are seconds."""

from __future__ import annotations

from decimal import Decimal

import attrs
from emulators.housing import Gpu


@attrs.define(kw_only=True)
class Knobs:
    """`hosts`: what the GPUs of one place are like, by "cloud/region".

    A machine is `creating`, then `pending_provider` for `provider_s`, then `pending` for `pending_s`, then active;
    a delete takes `deleting_s`. `late_error` and `stuck` end that on the way.
    """

    creating_s: float = 2.0
    provider_s: float = 60.0
    pending_s: float = 30.0
    deleting_s: float = 0.0
    appear_s: float = 0.0
    address_s: float = 0.0
    late_error: str | None = None
    stuck: str | None = None
    ssh_port: int | None = None
    ssh_user: str = "shadeform"
    address: str | None = None
    port_mappings: dict[int, int] = attrs.field(factory=dict)
    anonymous_types: bool = True
    deleted_shown: bool = False
    delete_ignored: bool = False
    delete_needs_active: bool = False
    stale: bool = False
    wallet_empty: bool = False
    names_unique: bool = True
    price_factor: Decimal = Decimal(1)
    terms: bool = True
    hosts: dict[str, Gpu] = attrs.field(factory=dict)

    def host(self, place: str) -> Gpu:
        """What the GPUs of one place are like."""
        return self.hosts.get(place, Gpu())

    @classmethod
    def quick(cls) -> dict[str, float]:
        """Times for tests on the real clock."""
        return {"creating_s": 0.1, "provider_s": 0.3, "pending_s": 0.2}
