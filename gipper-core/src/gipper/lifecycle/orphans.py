"""Runs that nobody ended: their client is dead and no machine of theirs is left. They get their `run.end`."""

from __future__ import annotations

from collections.abc import Callable

from gipper.lifecycle.book import Book, RunRecord
from gipper.lifecycle.results import RunResult
from gipper.lifecycle.services import Services
from gipper.lifecycle.settling import write_end
from gipper.lifecycle.verdicts import Client
from gipper.outcomes import Outcome


def close_orphans(services: Services, book: Book, client: Callable[[str], Client]) -> list[str]:
    """Write `run.end` for every run whose end is missing and that can't go on; their ids."""
    closed = [run for run in book.runs.values() if _is_orphan(book, run) and client(run.run) == "dead"]
    for run in closed:
        outcome, reason = outcome_of(run)
        write_end(services, RunResult(run=run.run, outcome=outcome, reason=reason), run.name)
    return [run.run for run in closed]


def outcome_of(run: RunRecord) -> tuple[Outcome, str]:
    """What the receipts say of a run whose client died before it could say so itself."""
    died = "the client died before it wrote the run's end"
    if run.exit_code == 0 and run.whole:
        return Outcome.SUCCEEDED, f"the command exited with 0; {died}"
    if run.exit_code is not None:
        lost = "" if run.whole else ", and outputs are missing"
        return Outcome.FAILED, f"the command exited with {run.exit_code}{lost}; {died}"
    return Outcome.HOST_LOST, died


def _is_orphan(book: Book, run: RunRecord) -> bool:
    pods = book.of_run(run.run)
    return run.outcome is None and not any(p.open or (p.unspent and not p.failed) for p in pods)
