"""`gipper pod ls`, `logs` and `reap`."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from gipper.cli.options import json_option
from gipper.outcomes import EXIT_NOT_GONE, EXIT_OK, EXIT_PROVIDER

if TYPE_CHECKING:
    from gipper.core import Gipper
    from gipper.lifecycle.book import Book
    from gipper.plugins.handle import Provider
    from gipper.values.machines import Machine

_COLUMNS = ("provider", "id", "name", "state", "$/h", "run", "ends", "whose")


def _opened() -> Gipper:
    from gipper.cli.render import warn
    from gipper.core import Gipper

    return Gipper.open(note=lambda text: warn(f"gipper: note: {text}"))


def askable(gipper: Gipper) -> list[Provider]:
    """Every provider whose key is set: machines are looked for there, whatever the settings name."""
    return [p for p in gipper.providers() if p.has_key()]


@click.command("ls")
@json_option
def ls(as_json: bool) -> int:
    """Show gipper's machines that the markets list now. Exits 4 if any market can't be asked."""
    from gipper.cli.render import print_table, warn
    from gipper.errors import GipperError
    from gipper.lifecycle.book import KINDS, Book
    from gipper.naming import PREFIX

    gipper = _opened()
    found: list[Machine] = []
    failed = False
    for provider in askable(gipper):
        try:
            found += [m for m in provider.list_ours() if m.name.startswith(PREFIX)]
        except GipperError as error:
            failed = True
            warn(f"{provider.name} error: {gipper.redactor.text(error.message)}")
    book = Book.of(gipper.ledger.read(kinds=KINDS))
    rows = [_row(gipper, book, m) for m in found]
    failed = _missing(gipper, book) or failed
    cells = [
        (r["provider"], r["id"], r["name"], r["state"], _price(r["usd_h"]), r["run"] or "-",
         f"{r['end']:%Y-%m-%d %H:%M} UTC" if r["end"] else "-", r["owner"])
        for r in rows
    ]  # fmt: skip
    print_table(_COLUMNS, cells, json_rows=rows, as_json=as_json)
    return EXIT_PROVIDER if failed else EXIT_OK


def _price(usd_h: Decimal | None) -> str:
    return "-" if usd_h is None else f"{usd_h:.3f}"


def _row(gipper: Gipper, book: Book, machine: Machine) -> dict[str, Any]:
    from gipper.naming import MachineName

    parsed = MachineName.parse(machine.name)
    end: datetime | None = parsed.end if parsed else None
    return {
        "provider": machine.provider, "id": machine.id, "name": machine.name, "state": machine.state.value,
        "usd_h": machine.usd_h, "run": parsed.run if parsed else None, "end": end,
        "owner": _whose(gipper, book, machine),
    }  # fmt: skip


def _whose(gipper: Gipper, book: Book, machine: Machine) -> str:
    from gipper.naming import MachineName

    parsed = MachineName.parse(machine.name)
    if parsed is None:
        return "unknown"
    if parsed.inst != gipper.installation.inst:
        return f"installation {parsed.inst}"
    return "ours" if machine.name in book.pods else "ours, forgotten"


def _missing(gipper: Gipper, book: Book) -> bool:
    from gipper.cli.render import warn

    asked = {p.name for p in askable(gipper)}
    lost = [r for r in book.open_pods() if r.provider not in asked]
    for record in lost:
        warn(f"{record.provider} error: {record.name} may still run, but its plugin or key is missing here")
    return bool(lost)


@click.command("reap")
@click.option("--dry-run", is_flag=True, help="Say what would be done, do nothing.")
@click.option("--unknown", is_flag=True, help="Also end machines that only look like gipper's.")
@json_option
def reap(dry_run: bool, unknown: bool, as_json: bool) -> int:
    """End gipper's machines that should be over, finish unfinished teardowns, prove that they are gone.

    Exits 5 where a machine isn't proved gone or can't be asked about, 4 where a market can't be asked.
    """
    from gipper.cli.console import Console
    from gipper.cli.render import print_json, say
    from gipper.takeover import reaper

    gipper = _opened()
    result = reaper(gipper, askable(gipper), Console(), dry_run=dry_run, end_unknown=unknown).run()
    if as_json:
        keys = ("verb", "provider", "pod", "name", "why")
        print_json([{k: getattr(line, k) for k in keys} for line in result.lines])
    else:
        for line in result.lines:
            say(f"{line.verb} {line.provider} {line.pod} {line.name}: {line.why}")
        if not result.lines:
            say("nothing to reap")
    if result.unproved:
        return EXIT_NOT_GONE
    return EXIT_PROVIDER if result.failed else EXIT_OK
