"""`gipper pod reap-timer`: reap every 15 minutes, with nobody there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from gipper.cli.lazy import LazyGroup
from gipper.cli.options import json_option
from gipper.outcomes import EXIT_OK, EXIT_USAGE

if TYPE_CHECKING:
    from gipper.core import Gipper
    from gipper.reaptimer import Found

_NONE: Final = "no reap timer is installed for this data folder"


@click.group(cls=LazyGroup)
def reap_timer() -> None:
    """Reap every 15 minutes, with nobody there: systemd units of yours, or a crontab line elsewhere."""


@reap_timer.command()
def install() -> int:
    """Install the timer, or renew it after a move or an upgrade."""
    from gipper import reaptimer
    from gipper.cli.render import say

    gipper = _opened()
    found = reaptimer.install(gipper)
    say(f"installed: {found.kind} {found.where}, every 15 minutes, for {gipper.paths.data_folder}")
    _tell_warnings(gipper, found)
    return EXIT_OK


@reap_timer.command()
def show() -> int:
    """Print what would be installed; install nothing."""
    from gipper import reaptimer
    from gipper.cli.render import say

    for where, text in reaptimer.show(_opened()):
        say(f"# {where}")
        say(text)
    return EXIT_OK


@reap_timer.command()
@json_option
def status(as_json: bool) -> int:
    """Is the timer there, does it run, when next. Exits 2 where nothing would reap."""
    from gipper import reaptimer
    from gipper.cli.render import print_json, say, warn

    gipper = _opened()
    found = reaptimer.status(gipper)
    if as_json:
        print_json([_row(gipper, timer) for timer in found])
    for timer in found:
        if not as_json:
            for line in _lines(timer):
                say(line)
            _tell_warnings(gipper, timer)
    if any(timer.active for timer in found):
        return EXIT_OK
    if not as_json and not found:
        say(_NONE)
    warn(f"  next: {reaptimer.advice(gipper)}")
    return EXIT_USAGE


@reap_timer.command()
def remove() -> int:
    """Take the timer away; machines that are still rented are then yours to end."""
    from gipper import reaptimer
    from gipper.cli.render import say

    taken = reaptimer.remove(_opened())
    say(f"removed: {', '.join(taken)}" if taken else _NONE)
    return EXIT_OK


def _opened() -> Gipper:
    from gipper.cli.render import warn
    from gipper.core import Gipper

    return Gipper.open(note=lambda text: warn(f"gipper: note: {text}"))


def _lines(found: Found) -> list[str]:
    state = "active" if found.active else "installed, but NOT active"
    lines = [f"{found.kind} {found.where}: {state}", *(f"  {text}" for text in found.times if text)]
    if found.stale:
        lines.append("  differs from what would be installed now: gipper pod reap-timer install")
    return lines


def _row(gipper: Gipper, found: Found) -> dict[str, Any]:
    from gipper.reaptimer import warnings

    told = [{"what": what, "cure": cure} for what, cure in warnings(gipper, found.kind)]
    return {**attrs.asdict(found), "warnings": told}


def _tell_warnings(gipper: Gipper, found: Found) -> None:
    from gipper.cli.render import warn
    from gipper.reaptimer import warnings

    for what, cure in warnings(gipper, found.kind):
        warn(f"gipper: note: {what}")
        warn(f"  next: {cure}")
