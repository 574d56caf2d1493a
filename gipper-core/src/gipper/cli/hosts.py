"""`gipper pod hosts`: what the ledger has taught about providers and machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import attrs
import click

from gipper.cli.options import json_option, opened_ledger
from gipper.core import Gipper
from gipper.history import LedgerHistory, open_history
from gipper.history_report import (
    CalibrationLine,
    MachineLine,
    ProviderLine,
    calibration_lines,
    machine_lines,
    provider_lines,
)

_REASON: Final = 110
_PROVIDERS: Final = (
    "provider", "rentals", "good", "bad", "p_fail", "ready s", "up Mb/s", "down Mb/s", "billed x",
    "unconfirmed",
)  # fmt: skip
_MACHINES: Final = ("provider", "machine", "rentals", "bad", "p_fail", "last gpu")
_CALIBRATION: Final = ("figure", "runs", "actual/predicted", "inside")


@click.command()
@click.option("--provider", metavar="NAME", help="Only this provider, installed or not.")
@click.option("--calibration", is_flag=True, help="Also how good past forecasts were.")
@json_option
def hosts(provider: str | None, calibration: bool, as_json: bool) -> None:
    """What past rentals have taught about providers and single machines.

    A rental is good once its job started, bad where the host was at fault, else neither. `p_fail` is
    how likely the next rental is bad, as in `gipper pod estimate`: on a machine that is new to you in a
    provider's line, on that machine in its own. Rates are seen from the machine.
    """
    from gipper.cli.render import print_json, warn

    gipper = Gipper.open(note=warn)
    days = gipper.settings.history_days
    with opened_ledger() as store:
        history = open_history(store, gipper.paths.data_folder, now=gipper.runtime.now(), days=days)
    if as_json:
        print_json(_as_json(history, provider, calibration))
        return
    _show_hosts(history, provider, days)
    if calibration:
        _show_calibration(calibration_lines(history, provider))


def _as_json(history: LedgerHistory, provider: str | None, calibration: bool) -> dict[str, Any]:
    graded = calibration_lines(history, provider) if calibration else None
    told: dict[str, Any] = {
        "providers": [_provider_json(line) for line in provider_lines(history, provider)],
        "machines": [attrs.asdict(line) for line in machine_lines(history, provider)],
    }
    return told if graded is None else {**told, "calibration": [attrs.asdict(line) for line in graded]}


def _provider_json(line: ProviderLine) -> dict[str, Any]:
    reasons = [{"reason": text, "rentals": n} for text, n in line.reasons]
    return {**attrs.asdict(line), "reasons": reasons}


def _show_hosts(history: LedgerHistory, provider: str | None, days: float) -> None:
    from gipper.cli.render import print_table, say

    lines = provider_lines(history, provider)
    if not lines:
        say(f"no rentals{f' of {provider}' if provider else ''} in the last {days:g} days")
        return
    print_table(_PROVIDERS, [_provider_row(line) for line in lines])
    for text in _reason_lines(lines):
        say(text)
    machines = machine_lines(history, provider)
    if machines:
        say()
        print_table(_MACHINES, [_machine_row(line) for line in machines])


def _show_calibration(lines: Sequence[CalibrationLine]) -> None:
    from gipper.cli.render import print_table, say

    say()
    print_table(
        _CALIBRATION,
        [[line.figure, line.runs, _places(line.ratio, 2), _percent(line.inside)] for line in lines],
        title="forecasts of runs that succeeded; inside = within the 80 % interval",
    )


def _reason_lines(lines: Iterable[ProviderLine]) -> list[str]:
    return [
        f"{line.provider} bad: {n} x {_cut(text)}" for line in lines for text, n in line.reasons
    ]  # fmt: skip


def _cut(text: str) -> str:
    return text if len(text) <= _REASON else text[: _REASON - 3] + "..."


def _provider_row(line: ProviderLine) -> list[object]:
    return [
        line.provider, line.rentals, line.good, line.bad, _places(line.p_fail, 4), _places(line.ready_s, 0),
        _places(line.up_mbps, 0), _places(line.down_mbps, 0), _places(line.billed_factor, 2),
        line.unconfirmed,
    ]  # fmt: skip


def _machine_row(line: MachineLine) -> list[object]:
    return [line.provider, line.host, line.rentals, line.bad, _places(line.p_fail, 4), line.gpu]


def _places(value: float | None, places: int) -> str | None:
    return None if value is None else f"{value:.{places}f}"


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{share:.0%}"
