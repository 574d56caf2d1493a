"""What a test may change about the market; each default is what is usual. Times are seconds after the create."""

from __future__ import annotations

import attrs
from emulators.housing import Gpu


@attrs.define(kw_only=True)
class Knobs:
    """`hosts`: what the GPUs of one physical host are like, by its id."""

    appear_s: float = 0.0
    starting_s: float = 0.0
    running_s: float = 0.3
    ports_s: float = 0.0
    linger_s: float = 0.0
    terminated_shown_s: float = 0.0
    page: int = 1000
    no_pages: bool = False
    no_public_address: bool = False
    crash_loop: bool = False
    never_ready: bool = False
    delete_ignored: bool = False
    locked: bool = False
    cost_zero: bool = False
    bills_lag_s: float = 0.0
    scope_denied: frozenset[str] = frozenset()
    hosts: dict[str, Gpu] = attrs.field(factory=dict)
    log: list[str] = attrs.field(factory=lambda: ["image pull: 100%", "start container"])

    def host(self, host: str) -> Gpu:
        """What the GPUs of one physical host are like."""
        return self.hosts.get(host, Gpu())
