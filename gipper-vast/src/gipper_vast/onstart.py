"""The start-up script and the watchdog of a machine."""

from __future__ import annotations

import base64
import gzip
from typing import Final

from gipper.api import RentRequest, Watchdog, boot_watchdog

# The market takes about 4048 characters (API pages, August 2026); users saw longer ones refused or cut.
MOST_CHARACTERS: Final = 4048
PLAIN_MOST: Final = 3000
_READS: Final = ("CONTAINER_API_KEY", "CONTAINER_ID")
# Without it, a login by hand lands in tmux.
_NO_TMUX: Final = "touch /root/.no_auto_tmux\n"
_PYTHON: Final = (
    "import os,urllib.request as r;e=os.environ;"
    'r.urlopen(r.Request(e["u"],method="DELETE",'
    'headers={"Authorization":"Bearer "+e["CONTAINER_API_KEY"]}),timeout=60)'
)


def watchdog(base_url: str) -> Watchdog:
    """Destroys the machine that it runs on, with the key that the market gives each machine for itself.

    The key goes from a variable to curl's standard input (printf is the shell's own), or is read by
    python3 from its environment: it is in no program's arguments. Raises nothing.
    """
    command = (
        f'export u="{_plain(base_url)}/api/v0/instances/$CONTAINER_ID/"; '
        "if command -v curl >/dev/null 2>&1; then "
        'printf \'header = "Authorization: Bearer %s"\\n\' "$CONTAINER_API_KEY" | '
        'curl -sS -m 60 -X DELETE -o /dev/null --config - "$u"; '
        f"else python3 -c '{_PYTHON}'; fi"
    )
    return Watchdog(command=command, reads=_READS)


def _plain(url: str) -> str:
    """A URL that stands between double quotes: characters that a shell would read are %-encoded."""
    return "".join(c if c.isalnum() or c in ":/.-_~[]%" else f"%{ord(c):02X}" for c in url)


def onstart(request: RentRequest, base_url: str) -> str:
    """What the market runs at each start of the machine, under its limit; packed where it is long.

    Only the tmux line where even the packed text is too long: the client arms the watchdog later anyway.
    """
    text = boot_watchdog(watchdog(base_url), request.boot_watchdog_s, name=request.name)
    for script in (text, packed(text)):
        limit = PLAIN_MOST if script is text else MOST_CHARACTERS
        if len(_NO_TMUX) + len(script) < limit:
            return _NO_TMUX + script
    return _NO_TMUX


def packed(script: str) -> str:
    """A line of shell that runs `script`, shorter."""
    body = base64.b64encode(gzip.compress(script.encode(), mtime=0)).decode()
    return f"echo {body} | base64 -d | gzip -dc | sh\n"
