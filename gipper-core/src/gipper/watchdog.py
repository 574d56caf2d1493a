"""The watchdog: a shell script on the rented machine that ends it when its time is over, without a client.

Its time is a count of seconds on the machine's own monotonic clock. It is written to the machine's disk
each minute, so that a restart goes on with what is left. A start-up script may start it (`boot_watchdog`);
the client then puts the exact rest in its place (`client_watchdog`). There is one instance at a time, and
whatever takes over never makes the time longer. When the time is over it runs the plugin's command, again
and again, until there is no machine left to run it.

The variables that the command reads are looked up when it runs, in the watchdog's own environment, else in
that of the machine's first process. They are put into no argument and no file here; a command should hand
them on by standard input (`curl --config -`), not as a program's argument.
"""

from __future__ import annotations

import math
import re
import shlex
from typing import Final, Literal

import attrs

from gipper.errors import ProviderError
from gipper.values.bills import Watchdog

Again = Literal["boot", "cron", "systemd", "none"]
FOLDER: Final = ".gipper-watchdog"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SAFE_LABEL: Final = re.compile(r"[A-Za-z0-9_.-]*")
_AGAIN: Final[dict[str, Again]] = {"boot": "boot", "cron": "cron", "systemd": "systemd", "none": "none"}


@attrs.frozen(kw_only=True)
class Pace:
    """Whole seconds: between writes of the time left; before the second try, and at most between tries."""

    tick_s: int = 60
    first_s: int = 30
    most_s: int = 600


@attrs.frozen(kw_only=True)
class Armed:
    """What the machine said: seconds left on its clock, and what starts the watchdog after a restart."""

    left_s: int
    again: Again


PACE: Final = Pace()


def boot_watchdog(watchdog: Watchdog, seconds: float, *, name: str = "", pace: Pace = PACE) -> str:
    """Shell text for a market's start-up script: the watchdog, `seconds` from the machine's first start.

    Pass `RentRequest.boot_watchdog_s`, and `RentRequest.name` as `name`: it tells this machine's count
    from another's whose disk came along. Plain POSIX sh in ASCII (if the command is), lines ended by LF;
    it fails never, prints nothing and leaves the shell that runs it as it was. Idempotent: at a restart
    it goes on with what was left. Raises ProviderError for a watchdog that can't be run.
    """
    return f"(\n{_text(watchdog, 'boot', seconds, name, pace)}\n) >/dev/null 2>&1 || :\n"


def client_watchdog(watchdog: Watchdog, seconds: float, *, name: str, pace: Pace = PACE) -> str:
    """A script for the client that arms the watchdog with exactly `seconds`, or with less if less is left.

    It takes the place of an instance that runs; run twice, it leaves one. Its output is for `armed`.
    Raises ProviderError for a watchdog that can't be run.
    """
    text = _text(watchdog, "client", seconds, name, pace)
    return f"{_folder()}\n(\n{text}\n) || exit 1\n{_source('watchdog_restart.sh')}\nagain\n"


def armed(output: str) -> Armed:
    """What the output of `client_watchdog`'s script says. Raises ProviderError where it makes no sense."""
    found = re.search(r"^armed (\d+)\nagain (\w+)$", output, re.MULTILINE)
    if found is None or found[2] not in _AGAIN:
        raise ProviderError(f"the machine's answer about its watchdog makes no sense: {output[:200]!r}")
    return Armed(left_s=int(found[1]), again=_AGAIN[found[2]])


def check(watchdog: Watchdog) -> None:
    """Raises ProviderError for a command or a variable's name that no shell could use."""
    if not watchdog.command.strip() or "\0" in watchdog.command:
        raise ProviderError("the watchdog's command is empty, or no text for a shell")
    wrong = [name for name in watchdog.reads if not _NAME.fullmatch(name)]
    if wrong:
        raise ProviderError(f"the watchdog reads {wrong[0]!r}, which is no variable's name")


def _text(watchdog: Watchdog, mode: str, seconds: float, name: str, pace: Pace) -> str:
    check(watchdog)
    if not _SAFE_LABEL.fullmatch(name):
        raise ProviderError(f"{name!r} is no machine's name")
    body = _script(watchdog, pace)
    mark = _delimiter(body)
    whole = max(0, math.ceil(seconds))
    return (
        f"umask 077\nunset GIPPER_RUN_ID\n{_folder()}\n"
        f'mkdir -p "$d" && chmod 700 "$d" && cat >"$d/run.$$" <<\\{mark} && mv -f "$d/run.$$" "$d/run" && '
        f'exec sh "$d/run" arm {mode} {whole} "{name}"\n{body}\n{mark}'
    )


def _folder() -> str:
    return f'h=${{HOME:-/root}}\n[ "$h" != / ] || h=/root\nd=$h/{FOLDER}'


def _script(watchdog: Watchdog, pace: Pace) -> str:
    reads = shlex.quote(" ".join(watchdog.reads))
    head = f"tick={pace.tick_s} first={pace.first_s} most={pace.most_s} reads={reads}"
    return f"cmd={shlex.quote(watchdog.command)}\n{head}\n{_source('watchdog.sh')}"


def _delimiter(body: str) -> str:
    mark = "GIPPER"
    while mark in body.splitlines():
        mark += "_"
    return mark


def _source(name: str) -> str:
    """A script of this package without its comments and indents: start-up scripts may not be long."""
    from importlib import resources

    text = resources.files("gipper").joinpath(name).read_text(encoding="utf-8")
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("#"))
