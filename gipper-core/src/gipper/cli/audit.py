"""`gipper pod audit`: charges that don't fit, each as a claim that can be pasted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from gipper.cli.options import json_option
from gipper.cli.reconcile import exit_of, tell_silent
from gipper.wording import counted

if TYPE_CHECKING:
    from gipper.billing.findings import Finding
    from gipper.billing.markets import Answer
    from gipper.core import Gipper

_COLUMNS: Final = ("provider", "machine", "what", "from", "to", "$", "why")


@click.command()
@click.option(
    "--days", type=click.IntRange(0, 3650), default=30, show_default=True, help="How many days back to look."
)
@click.option("--claims", is_flag=True, help="Print each finding as a text to paste into a support form.")
@json_option
def audit(days: int, claims: bool, as_json: bool) -> int:
    """Compare what the markets charge with what the receipts say of each machine.

    Records nothing. Exits 4 if every market that was asked failed.
    """
    from gipper.billing.markets import examine
    from gipper.cli.render import print_json, print_table, say, warn
    from gipper.core import Gipper

    gipper = Gipper.open(note=lambda text: warn(f"gipper: note: {text}"))
    done = examine(gipper.providers(), gipper.ledger, gipper.runtime, days=days)
    found = done.findings
    if as_json:
        print_json([_json(gipper, f) for f in found])
    elif claims:
        _print_claims(gipper, found)
    elif found:
        print_table(_COLUMNS, [_row(gipper, f) for f in found])
    if not as_json:
        say(_summary(done.answers, found))
    tell_silent(gipper, done.answers, done.rentals.machines, again=f"gipper pod audit --days {days}")
    return exit_of(done.answers)


def _row(gipper: Gipper, f: Finding) -> tuple[object, ...]:
    days = (f"{moment:%Y-%m-%d %H:%M}" for moment in (f.since, f.until))
    return (f.provider, f.machine, f.kind, *days, f"{f.usd:.4f}", gipper.redactor.text(f.why))


def _print_claims(gipper: Gipper, found: Sequence[Finding]) -> None:
    from gipper.billing.findings import claim
    from gipper.cli.render import say

    for f in found:
        say(f"To {f.provider}: {f.kind}")
        say(gipper.redactor.text(claim(f)))
        say()


def _summary(answers: Sequence[Answer], found: Sequence[Finding]) -> str:
    lines = sum(len(answer.bills or ()) for answer in answers)
    if not any(answer.bills is not None for answer in answers):
        return "no charges to look at: no market that tells any could be asked"
    looked = f"{counted(lines, 'charge')} looked at"
    if not found:
        return f"nothing that doesn't fit; {looked}"
    whole = sum(f.usd for f in found)
    next_ = "; as texts to paste: gipper pod audit --claims"
    return f"{counted(len(found), 'finding')}, ${whole:.4f} in question; {looked}{next_}"


def _json(gipper: Gipper, f: Finding) -> dict[str, Any]:
    from gipper.billing.findings import claim

    return {
        "provider": f.provider, "machine": f.machine, "name": f.name, "run": f.run, "kind": f.kind,
        "since": f.since, "until": f.until, "usd": f.usd, "why": f.why,
        "receipts": [{"seq": e.seq, "id": e.id, "kind": e.kind, "ts": e.ts} for e in f.receipts],
        "claim": gipper.redactor.text(claim(f)),
    }  # fmt: skip
