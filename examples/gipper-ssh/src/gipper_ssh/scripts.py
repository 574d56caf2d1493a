"""The texts that a box is sent: `box.sh` with an action and its variables. Pure but for reading `box.sh`."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping
from importlib import resources
from typing import Final

import attrs

PREFIX: Final = "@gipper "
# Says the box's uptime, then reads what to do. Works in any login shell, csh and fish too.
HELLO: Final = "exec sh -c 'read -r u _ </proc/uptime; echo \"@gipper hello $u\"; exec sh'"
# How long after its hello a box takes a rent. Nobody is told that a rent is in doubt before that is over.
ACT_S: Final = 15
_NAME: Final = re.compile(r"gipper-[0-9a-z]+-[0-9a-z]+-[0-9]+-[0-9a-z]+")


@attrs.frozen(kw_only=True)
class Lease:
    """What a lease is asked for with. `life_s` is by the box's clock; `key` is one authorized line."""

    name: str
    box: str
    token: str
    life_s: float
    key: str
    created: str
    usd_h: str
    ports: str = ""
    visible: str = ""


def is_name(text: str) -> bool:
    """Whether a lease may be called so: what the box takes apart must be what it looks like."""
    return _NAME.fullmatch(text) is not None


def look(*, facts: bool) -> str:
    """Tell the lease, and with `facts` what the box has."""
    return _script({"facts": "1" if facts else "0"}, "look")


def rent(lease: Lease, hello_s: float) -> str:
    """Take the lease, unless the box's uptime is beyond `hello_s` + ACT_S by then."""
    import base64

    told = {
        "name": lease.name,
        "box": lease.box,
        "token": lease.token,
        "life": str(max(1, math.ceil(lease.life_s))),
        "key": base64.b64encode(lease.key.encode()).decode("ascii"),
        "created": lease.created,
        "usd_h": lease.usd_h,
        "ports": lease.ports,
        "visible": lease.visible,
        "act_by": str(int(hello_s) + ACT_S),
    }
    return _script(told, "rent")


def end(name: str) -> str:
    """End the lease of that name and clean up after it; nothing where there is no such lease."""
    return _script({"name": name}, "end")


def end_from_inside(name: str) -> str:
    """The same as a command for the box's own watchdog, which it must outlive to finish."""
    return f"setsid sh -c {shlex.quote(end(name))}"


def _script(variables: Mapping[str, str], action: str) -> str:
    """One function call on the last line: a script that is cut off on its way does nothing."""
    text = resources.files("gipper_ssh").joinpath("box.sh").read_text(encoding="utf-8")
    lines = (line.strip() for line in text.splitlines())
    body = "\n".join(line for line in lines if line and not line.startswith("#"))
    sets = "\n".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
    return f"{sets}\n{body}\n{{ {action} </dev/null; r=$?; tell end $r; exit $r; }}\n"
