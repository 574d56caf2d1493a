"""What several commands take: moments in time, the ledger, `--json`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from gipper.paths import Paths
from gipper.runtime import RealRuntime

if TYPE_CHECKING:
    from gipper.ledger.store import SqliteLedger

    _MomentType = click.ParamType[datetime]
else:
    # Only newer versions of click have a generic class here.
    _MomentType = click.ParamType

F = TypeVar("F", bound=Callable[..., Any])

_AGO: Final = re.compile(r"([0-9]{1,5})([mhdw])")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Moment(_MomentType):
    """A date (its UTC midnight), an ISO time (UTC unless it says otherwise), or an age such as `7d`."""

    name = "when"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Aware UTC; fails as wrong use."""
        if isinstance(value, datetime):
            return value
        try:
            return parse_moment(value, RealRuntime().now())
        except (ValueError, OverflowError):
            self.fail(
                f"{value!r} is no date (2026-11-01), time (2026-11-01T12:00) or age (7d, 12h)", param, ctx
            )


def parse_moment(text: str, now: datetime) -> datetime:
    """`text` as aware UTC, ages counted back from `now`. Raises ValueError or OverflowError."""
    ago = _AGO.fullmatch(text.strip())
    if ago:
        return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    moment = datetime.fromisoformat(text.strip())
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def json_option(command: F) -> F:
    """Add `--json` as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")(command)


def hooks_option(command: F) -> F:
    """Add `--allow-hooks` as `allow_hooks`."""
    text = "Run the job's own hooks files without asking, for this call only."
    return click.option("--allow-hooks", is_flag=True, help=text)(command)


@contextmanager
def opened_ledger(*, writable: bool = False) -> Iterator[SqliteLedger]:
    """The ledger of this user, closed at the end. Raises LedgerError."""
    from gipper.cli.render import warn
    from gipper.ledger.store import SqliteLedger

    folder = Paths.from_env(os.environ).data_folder
    ledger = SqliteLedger.open(folder, RealRuntime(), writable=writable, on_note=warn)
    try:
        yield ledger
    finally:
        ledger.close()
