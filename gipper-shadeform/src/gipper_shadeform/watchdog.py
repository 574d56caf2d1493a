"""How a machine ends itself, as far as it can.

No key of the market is for one machine alone, and the account's never leaves this computer: so the machine
can power itself off, and no more. Whether a cloud goes on charging for one that is off is the cloud's
business; gipper takes it that it does. What ends the bill is deleting it.
"""

from __future__ import annotations

from typing import Final

from gipper.api import Watchdog

_COMMAND: Final = (
    "PATH=$PATH:/usr/sbin:/sbin; s=; "
    '[ "$(id -u)" = 0 ] || s="sudo -n"; '
    "$s systemctl --no-ask-password -i poweroff || $s poweroff || $s shutdown -h now"
)


def watchdog() -> Watchdog:
    """Powers the machine that it runs on off; it reads no variable and holds no key."""
    return Watchdog(command=_COMMAND)
