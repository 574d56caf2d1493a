"""`gipper ledger`: the receipts themselves, whether the trail is whole, and a copy of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import TextIO

import click

from gipper.cli.lazy import LazyGroup
from gipper.cli.options import Moment, opened_ledger
from gipper.errors import ConfigError, LedgerError
from gipper.ledger.chain import canonical, from_receipt
from gipper.ledger.protocol import LedgerReader, Verdict
from gipper.values.receipts import PAYLOADS, Receipt


@click.group(cls=LazyGroup, invoke_without_command=True)
@click.option("--since", type=Moment(), help="From when on: a date, a time, or an age such as 7d.")
@click.option("--job", help="Only the receipts of this run.")
@click.option("--kind", multiple=True, help="Only this kind of receipt; may be given several times.")
@click.pass_context
def ledger(ctx: click.Context, since: datetime | None, job: str | None, kind: tuple[str, ...]) -> None:
    """Raw receipts as JSON lines, oldest first."""
    if ctx.invoked_subcommand is not None:
        return
    _check_kinds(kind)
    with opened_ledger() as store:
        _write_lines(store, sys.stdout, since=since, job=job, kinds=kind or None)
        _tell_skipped(store.skipped)


@ledger.command()
@click.option("--accept", is_flag=True, help="Go on with what is readable: renting is allowed again.")
def verify(accept: bool) -> None:
    """Is the trail whole: nothing altered, removed, swapped or cut off. Exit code 2 where it isn't."""
    with opened_ledger(writable=accept) as store:
        accepted = store.accept() if accept else ()
        verdict = store.verify()
    _tell_verdict(verdict, accepted, accept)


@ledger.command()
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False))
def export(file: Path | None) -> None:
    """Copy every receipt, as JSON lines, to FILE (a new file, readable by you alone) or to stdout."""
    with opened_ledger() as store:
        if file is None:
            _write_lines(store, sys.stdout)
        else:
            _export_to(store, file)
        _tell_skipped(store.skipped)


def line(receipt: Receipt) -> str:
    """A receipt as one line of JSON: exactly the text over which its hash is made."""
    return canonical(from_receipt(receipt))


def _check_kinds(kinds: Collection[str]) -> None:
    import difflib

    for kind in kinds:
        near = difflib.get_close_matches(kind, PAYLOADS, n=1)
        if kind not in PAYLOADS and near:
            raise ConfigError(f"no receipt is of kind {kind!r}", hint=f"gipper ledger --kind {near[0]}")


def _write_lines(
    reader: LedgerReader,
    out: TextIO,
    *,
    since: datetime | None = None,
    job: str | None = None,
    kinds: Collection[str] | None = None,
) -> int:
    count = 0
    for receipt in reader.read(since=since, run=job, kinds=kinds):
        out.write(line(receipt) + "\n")
        out.flush()
        count += 1
    return count


def _export_to(reader: LedgerReader, file: Path) -> None:
    from gipper.cli.render import say

    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ConfigError(f"{file} exists already", hint="name a file that doesn't exist yet") from None
    except OSError as error:
        raise ConfigError(f"{file} can't be made: {error.strerror}", hint="name another file") from None
    with open(descriptor, "w", encoding="utf-8") as out:  # noqa: PTH123 - a descriptor, not a path
        count = _write_lines(reader, out)
        out.flush()
        os.fsync(out.fileno())
    say(f"{count} receipts in {file}")


def _tell_skipped(skipped: int) -> None:
    if skipped:
        from gipper.cli.render import warn

        warn(f"gipper: {skipped} unreadable receipts were passed over")
        warn("  next: gipper ledger verify")


def _tell_verdict(verdict: Verdict, accepted: Collection[str], accept: bool) -> None:
    from gipper.cli.render import say

    for text in verdict.mended:
        say(f"mended: {text}")
    for text in verdict.problems:
        say(f"problem: {text}")
    for name in accepted:
        say(f"accepted: {name}; it stays as it is, and new receipts go to the next file")
    if verdict.whole:
        say(f"{verdict.receipts} receipts, whole; head {verdict.head[:12] or '(none)'}")
    elif not accept:
        lost = f"{len(verdict.problems)} problem(s), {verdict.receipts} receipts readable"
        hint = "copy the data folder away, then `gipper ledger verify --accept` to go on without what is lost"
        raise LedgerError(f"the ledger is not whole: {lost}", hint=hint)
