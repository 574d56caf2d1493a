"""`gipper pod reconcile`: what the markets have billed, taken into the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gipper.cli.options import json_option
from gipper.outcomes import EXIT_OK, EXIT_PROVIDER
from gipper.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gipper.billing.markets import Answer, Reconciled
    from gipper.core import Gipper


@click.command()
@click.option(
    "--days",
    type=click.IntRange(0, 3650),
    default=7,
    show_default=True,
    help="How many days back to ask; further where a machine's bill would be cut or is missing.",
)
@json_option
def reconcile(days: int, as_json: bool) -> int:
    """Ask each market what it billed for this ledger's machines, and record what is new.

    May be repeated at any time: a bill counts once, however often it is read. Exits 4 if every market that
    was asked failed.
    """
    from gipper.billing import markets
    from gipper.cli.render import print_json, warn
    from gipper.core import Gipper

    gipper = Gipper.open(note=lambda text: warn(f"gipper: note: {text}"))
    done = markets.reconcile(gipper.providers(), gipper.ledger, gipper.runtime, days=days)
    if as_json:
        print_json([_json(done, n) for n in range(len(done.recorded))])
    else:
        _print(done)
    tell_silent(gipper, done.answers, done.rentals.machines, again=f"gipper pod reconcile --days {days}")
    return exit_of(done.answers)


def exit_of(answers: Sequence[Answer]) -> int:
    """4 where every market that was asked failed."""
    asked = [answer for answer in answers if answer.asked]
    return EXIT_PROVIDER if asked and all(answer.error for answer in asked) else EXIT_OK


def tell_silent(gipper: Gipper, answers: Sequence[Answer], machines: Any, *, again: str) -> None:
    """A line for each market that holds machines of the ledger and told nothing of money."""
    from gipper.cli.render import warn

    rented = {provider for provider, _ in machines}
    for answer in answers:
        if answer.error is not None:
            warn(f"{answer.provider} error: {gipper.redactor.text(answer.error)}")
            warn(f"  its bills are not lost, only later; next: {again}")
        elif answer.provider in rented and answer.missing is not None:
            warn(f"{answer.provider}: no {answer.missing}, so its bills can't be asked for")
        elif answer.provider in rented and answer.bills is None:
            warn(f"{answer.provider}: this market tells no bills; its machines cost what is computed")
    for name in sorted(rented - {answer.provider for answer in answers}):
        warn(f"{name}: its plugin is not installed here, so its bills can't be asked for")


def _print(done: Reconciled) -> None:
    from gipper.cli.render import say

    for whole in done.recorded:
        say(f"{whole.provider} {whole.pod}: billed ${whole.usd:.4f}")
    if done.recorded:
        say(f"{counted(len(done.recorded), 'bill')} recorded")
    elif any(answer.bills is not None for answer in done.answers):
        say("bills already up to date")
    else:
        say("no bills: no market that tells any could be asked")


def _json(done: Reconciled, number: int) -> dict[str, Any]:
    whole = done.recorded[number]
    machine = done.rentals.machines[whole.provider, whole.pod]
    return {
        "provider": whole.provider, "pod": whole.pod, "name": machine.name, "run": machine.run,
        "usd": whole.usd, "before_usd": done.before.get((whole.provider, whole.pod)),
        "detail": dict(whole.detail), "basis": whole.basis,
    }  # fmt: skip
