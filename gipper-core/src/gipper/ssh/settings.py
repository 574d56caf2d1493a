"""How patient connections are."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class Patience:
    """Seconds, all measured to keep a dead link's discovery under 30 s; tests set them small.

    `connect_s`: one TCP connect. `probe_every_s` / `probe_wait_s`: the watchdog's request and how long
    the link may stay without a byte while one is open. `unacked_s`: the kernel's own limit for data
    that nobody acknowledges. `idle_s`: how long a transfer may make no headway on a link that lives.
    `linger_s`: how long a command's streams may stay open and silent after it ended (something that
    it left behind holds them). `close_s`: bound of a close.
    """

    connect_s: float = 5.0
    probe_every_s: float = 10.0
    probe_wait_s: float = 15.0
    unacked_s: float = 25.0
    idle_s: float = 300.0
    linger_s: float = 2.0
    close_s: float = 2.0
