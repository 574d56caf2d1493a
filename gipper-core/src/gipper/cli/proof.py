"""`gipper pod proof`: what was asked, answered and listed at a run's teardown, from receipts alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import click

from gipper.cli.options import json_option, opened_ledger
from gipper.errors import ConfigError
from gipper.outcomes import EXIT_NOT_GONE, EXIT_OK

if TYPE_CHECKING:
    from gipper.ledger.store import SqliteLedger
    from gipper.prooftext import RunProof


@click.command("proof")
@click.argument("run", metavar="RUN")
@json_option
def proof(run: str, as_json: bool) -> int:
    """Show what proves that a run's machines are gone. Asks no market; receipts alone.

    Exits 5 where a machine isn't proved gone or the ledger isn't whole, 2 for a run that it doesn't know.
    """
    from gipper.cli.render import neutralise, print_json, say
    from gipper.prooftext import lines

    with opened_ledger() as store:
        found = _proof(store, run)
    if as_json:
        print_json(_json(found))
    else:
        for line in lines(found):
            say(neutralise(line, keep=""))
    if not found.doubts:
        return EXIT_OK
    _tell_next(found)
    return EXIT_NOT_GONE


def _proof(store: SqliteLedger, run: str) -> RunProof:
    from gipper.naming import is_run_id
    from gipper.prooftext import proof_of

    receipts = list(store.read(run=run)) if is_run_id(run) else []
    gaps = _gaps(store, receipts[0].seq if receipts else None)
    if not receipts:
        lost = f"; it is not whole, and what is lost may be of it: {gaps[0]}" if gaps else ""
        raise ConfigError(
            f"the ledger has no receipt of a run {run!r}{lost}",
            hint="gipper ledger verify" if gaps else "`gipper pod cost` lists the runs",
        )
    return proof_of(run, receipts, gaps)


def _gaps(store: SqliteLedger, first: int | None) -> tuple[str, ...]:
    """What is wrong with the ledger, but for files that were closed before the run's first receipt."""
    opened = store.read(kinds={"ledger.opened"})
    older = {r["after"] for r in opened if first is not None and r.seq < first}
    problems = store.verify().problems
    found = [p for p in problems if p.partition(":")[0] not in older]
    if not found and not problems and store.damaged is not None:
        found = [store.damaged]
    return tuple(found)


def _json(found: RunProof) -> dict[str, Any]:
    return {
        "run": found.run, "job": found.job, "outcome": found.outcome, "proved": not found.doubts,
        "doubts": found.doubts, "gaps": found.gaps,
        "machines": [
            {**attrs.asdict(m), "proved": m.doubt is None, "doubt": m.doubt} for m in found.machines.values()
        ],
        "rents": [{**attrs.asdict(r), "doubt": r.doubt} for r in found.rents.values()],
    }  # fmt: skip


def _tell_next(found: RunProof) -> None:
    from gipper.cli.render import warn

    for doubt in found.doubts:
        warn(f"gipper: not proved: {doubt}")
    if found.gaps:
        warn("  next: gipper ledger verify, and look in the market's own console")
    elif found.outcome is None:
        warn(f"  next: gipper pod attach {found.run}, or gipper pod stop {found.run}; else gipper pod reap")
    else:
        warn("  next: gipper pod reap")
