"""`gipper pod`: the commands around machines, each imported when it is used."""

from __future__ import annotations

from typing import Final

import click

from gipper.cli.lazy import Entry, LazyGroup

COMMANDS: Final = {
    "gpus": Entry("gipper.cli.gpus:gpus", "What all markets offer now, for a 30-minute job."),
    "estimate": Entry("gipper.cli.estimate:estimate", "What a run would take and cost, offer by offer."),
    "run": Entry("gipper.cli.run:run", "Run a job: rent, send, run, collect, give back, prove."),
    "attach": Entry("gipper.cli.takeover:attach", "Go on with a run whose client died or left."),
    "stop": Entry("gipper.cli.takeover:stop", "End a run's job, collect, give the machine back."),
    "ssh": Entry("gipper.cli.takeover:ssh", "A shell on a run's machine; it is recorded."),
    "ls": Entry("gipper.cli.machines:ls", "gipper's machines that are listed now."),
    "logs": Entry("gipper.cli.logs:logs", "The log of a run, also after its machine is gone."),
    "reap": Entry("gipper.cli.machines:reap", "End what should be over; prove that it is gone."),
    "reap-timer": Entry("gipper.cli.reap_timer:reap_timer", "Reap every 15 minutes, with nobody there."),
    "proof": Entry("gipper.cli.proof:proof", "What proves that a run's machines are gone."),
    "hosts": Entry("gipper.cli.hosts:hosts", "What past rentals have taught about providers and machines."),
    "account": Entry("gipper.cli.account:account", "Credit and limits, as the markets tell them."),
    "custody": Entry(
        "gipper.cli.custody:custody", "What of yours was where; record what went around gipper."
    ),
    "reconcile": Entry("gipper.cli.reconcile:reconcile", "Take the markets' bills into the ledger."),
    "cost": Entry("gipper.cli.cost:cost", "What runs cost."),
    "audit": Entry("gipper.cli.audit:audit", "Charges that don't fit, as claims that can be pasted."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def pod() -> None:
    """Rent a machine for a job, look after machines, see what they cost."""
