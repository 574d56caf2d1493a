"""How a run can end, and the exit code of each."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Outcome(Enum):
    """The outcome of a run as receipts, tables and JSON name it."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMEOUT = "timeout"
    OVER_BUDGET = "over_budget"
    INTERRUPTED = "interrupted"
    STOPPED = "stopped"
    HOST_LOST = "host_lost"
    NO_OFFER = "no_offer"
    REFUSED = "refused"
    DETACHED = "detached"

    @property
    def exit_code(self) -> int:
        """The command's exit code, unless a machine isn't proved gone (then `EXIT_NOT_GONE`)."""
        return _EXIT_CODES[self]


EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_NONE: Final = 3
EXIT_PROVIDER: Final = 4
EXIT_NOT_GONE: Final = 5
EXIT_INTERRUPTED: Final = 130

_EXIT_CODES: Final = {
    Outcome.SUCCEEDED: EXIT_OK,
    Outcome.DETACHED: EXIT_OK,
    Outcome.FAILED: EXIT_FAILED,
    Outcome.TIMEOUT: EXIT_FAILED,
    Outcome.OVER_BUDGET: EXIT_FAILED,
    Outcome.STOPPED: EXIT_FAILED,
    Outcome.NO_OFFER: EXIT_NONE,
    Outcome.REFUSED: EXIT_NONE,
    Outcome.HOST_LOST: EXIT_PROVIDER,
    Outcome.INTERRUPTED: EXIT_INTERRUPTED,
}
