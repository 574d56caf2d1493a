"""How a run ended, as values."""

from __future__ import annotations

import attrs

from gipper.lifecycle.attempt import Timings
from gipper.lifecycle.collecting import Collected
from gipper.lifecycle.proof import Proof
from gipper.lifecycle.remote_job import JobEnded
from gipper.outcomes import EXIT_NOT_GONE, Outcome
from gipper.values.receipts import Spend


@attrs.frozen(kw_only=True)
class MachineEnd:
    """One machine's end: the proof (None = not proved gone) and what it cost by our count."""

    provider: str
    pod: str
    name: str
    proof: Proof | None
    spends: tuple[Spend, ...] = ()


@attrs.frozen(kw_only=True)
class RunResult:
    """How a run ended. `exit_code` is 5 where a machine isn't proved gone, whatever the outcome.

    `doubt` says what nobody knows about a machine, `error_exit` is the exit code of an error that no
    outcome tells, `left` is a machine that goes on without this process (outcome detached).
    """

    run: str
    outcome: Outcome
    reason: str
    machines: tuple[MachineEnd, ...] = ()
    collected: Collected = Collected()
    timings: Timings = attrs.field(factory=Timings)
    job: JobEnded | None = None
    doubt: str | None = None
    hint: str | None = None
    error_exit: int | None = None
    left: str | None = None

    @property
    def exit_code(self) -> int:
        """The command's exit code."""
        if self.doubt is not None or any(m.proof is None for m in self.machines):
            return EXIT_NOT_GONE
        return self.outcome.exit_code if self.error_exit is None else self.error_exit
