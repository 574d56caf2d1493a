"""`gipper custody`: write down what went around gipper; what was where, to be answered after an incident."""

from __future__ import annotations

import os
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from gipper.cli.lazy import LazyGroup
from gipper.cli.options import Moment, json_option
from gipper.errors import ConfigError
from gipper.outcomes import EXIT_OK, EXIT_PROVIDER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gipper.core import Gipper
    from gipper.custody.making import Maker
    from gipper.custody.report import Report

_STDIN: Final = "-"
_STDIN_MOST: Final = 1 << 16


@click.group(cls=LazyGroup)
def custody() -> None:
    """What of yours was on which rented machine; write down what went around gipper."""


@custody.command()
@click.argument("run", required=False, metavar="[RUN]")
@click.argument("text", required=False, metavar="TEXT")
@click.option("--provider", metavar="NAME", help="Whose machine, where no run says it.")
@click.option("--machine", "pod", metavar="ID", help="Which machine, where the run had several.")
@click.option(
    "--at", type=Moment(), help="When it happened, if not now: a date, a time, or an age such as 2h."
)
@click.option("--by", metavar="WHO", help="Who did it (default: you).")
def record(
    run: str | None, text: str | None, provider: str | None, pod: str | None, at: datetime | None,
    by: str | None,
) -> None:  # fmt: skip
    """Write down what was done around gipper, such as "opened a shell and pasted a token".

    TEXT - reads it from stdin. Never write a secret's value: what looks like one is left out.
    """
    import getpass

    from gipper.cli.render import say, warn
    from gipper.custody.noting import noted

    if text is None:
        run, text = None, run
    with _opened(writable=True) as (gipper, maker):
        note = noted(
            maker.footing().trail, maker.redactor, run=run, provider=provider, pod=pod, text=_text(text),
            by=by or getpass.getuser(), at=at, now=gipper.runtime.now(),
        )  # fmt: skip
        receipt = gipper.ledger.append(note.payload, run=note.run, refs=note.refs)
    if note.hidden:
        warn("gipper: something in the text looked like a secret: <redacted> stands in its place")
    machine = note.payload.pod or "no single machine"
    say(f"recorded as receipt {receipt.seq}: {note.payload.provider}, {machine}: {note.payload.text}")


@custody.command()
@click.argument("run", required=False, metavar="[RUN]")
@click.option("--provider", metavar="NAME", help="Only machines of this provider, installed or not.")
@click.option("--since", type=Moment(), help="From when on: a date, a time, or an age such as 7d.")
@click.option("--until", type=Moment(), help="Up to, and without, this moment.")
@click.option("--check-providers", is_flag=True, help="Ask the markets for machines that the ledger lacks.")
@click.option(
    "--html", type=click.Path(path_type=Path, dir_okay=False), help="Write one HTML page to this new file."
)
@json_option
def report(
    run: str | None, provider: str | None, since: datetime | None, until: datetime | None,
    check_providers: bool, html: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """What to rotate, what to review, and what nobody can vouch for; of all machines, unless narrowed.

    Exits 4 where a market could not be asked, 2 for a run that the ledger doesn't know.
    """
    from gipper.custody.report import Scope

    if since is not None and until is not None and until <= since:
        raise ConfigError("--until is not after --since", hint="gipper custody report --since 30d")
    scope = Scope(provider=provider, run=run, since=since, until=until)
    with _opened() as (gipper, maker):
        footing = maker.footing()
        if run is not None and run not in footing.trail.runs and not footing.gaps:
            raise ConfigError(f"the ledger has no run {run!r}", hint="`gipper pod cost` lists the runs")
        providers = gipper.providers() if check_providers else []
        inst = gipper.installation.inst if check_providers else ""
        asked = maker.ask(footing, scope, providers, inst) if check_providers else None
        made = maker.report(footing, scope, asked)
    _show(made, html, as_json=as_json)
    return EXIT_PROVIDER if asked is not None and asked.failed else EXIT_OK


@contextmanager
def _opened(*, writable: bool = False) -> Iterator[tuple[Gipper, Maker]]:
    from gipper.cli.options import opened_ledger
    from gipper.cli.render import warn
    from gipper.core import Gipper
    from gipper.custody.making import Maker

    gipper = Gipper.open(note=lambda text: warn(f"gipper: note: {text}"))
    # Known to the redactor before anything is shown or recorded.
    gipper.key_values()
    with opened_ledger(writable=writable) as store:
        yield gipper, Maker(
            store=store, data=gipper.paths.data_folder, redactor=gipper.redactor, keys=gipper.keys,
            runtime=gipper.runtime,
        )  # fmt: skip


def _text(text: str | None) -> str:
    import sys

    if text is None:
        raise ConfigError("no text to record", hint='gipper custody record RUN "what was done"')
    return sys.stdin.read(_STDIN_MOST) if text == _STDIN else text


def _show(made: Report, html: Path | None, *, as_json: bool) -> None:
    import attrs

    from gipper.cli.render import neutralise, print_json, say
    from gipper.custody.page import page
    from gipper.custody.text import lines

    if html is not None:
        _write_new(html, page(made))
    if as_json:
        print_json(attrs.asdict(made))
    elif html is not None:
        say(
            f"{len(made.rotate)} to rotate, {sum(len(g.files) for g in made.files)} files to review, "
            f"{len(made.gaps)} gaps: {html}"
        )
    else:
        for line in lines(made):
            say(neutralise(line, keep=""))


def _write_new(file: Path, text: str) -> None:
    """A page that you alone can read: it names all that was ever sent."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise ConfigError(f"{file} exists already", hint="name a file that doesn't exist yet") from None
    except OSError as error:
        raise ConfigError(f"{file} can't be made: {error.strerror}", hint="name another file") from None
    with open(descriptor, "w", encoding="utf-8") as out:  # noqa: PTH123 - a descriptor, not a path
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
