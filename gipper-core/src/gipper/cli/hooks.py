"""`gipper hooks`: which jobs' own hooks files may run on this computer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from gipper.cli.lazy import LazyGroup
from gipper.cli.options import json_option

if TYPE_CHECKING:
    from gipper.jobhooks_trust import Allowed, Trust

COLUMNS: Final = ("file", "sha256", "allowed", "now")
_SHORT: Final = 12


@click.group(cls=LazyGroup)
def hooks() -> None:
    """Trust the hooks that lie beside a job file; they run on this computer, beside your keys."""


@hooks.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
def allow(files: Sequence[Path]) -> None:
    """Let jobs that name FILE run it, as it is now; look at it first. Nothing of it is executed here."""
    from gipper.cli.render import say
    from gipper.jobhooks_source import outline, read_source
    from gipper.runtime import RealRuntime

    # All are read and checked before any is allowed.
    read = [(source := read_source(file.absolute()), outline(source)) for file in files]
    _trust().allow([source for source, _ in read], RealRuntime().now())
    for source, found in read:
        say(f"allowed: {source.path}")
        say(f"  sha256 {source.sha256}")
        say(f"  hooks  {' '.join(found.hooks)}")


@hooks.command("list")
@json_option
def list_(as_json: bool) -> None:
    """Show what is allowed, and whether the file is still what was allowed."""
    from gipper.cli.render import print_table

    entries = _trust().entries()
    rows = [(e.path, e.sha256[:_SHORT], f"{e.allowed:%Y-%m-%d %H:%M}", _now(e)) for e in entries]
    wire = [
        {"file": str(e.path), "sha256": e.sha256, "allowed": e.allowed, "now": row[-1]}
        for e, row in zip(entries, rows, strict=True)
    ]
    print_table(COLUMNS, rows, title="allowed hooks files", as_json=as_json, json_rows=wire)


@hooks.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
def revoke(files: Sequence[Path]) -> None:
    """No longer let jobs run FILE, whatever is in it."""
    from gipper.cli.render import say

    trust = _trust()
    for file in files:
        # The file may be gone or replaced by a link: both spellings of its path go off the list.
        paths = {file.absolute(), file.resolve()}
        removed = trust.revoke(paths)
        say(f"{'revoked' if removed else 'was not allowed'}: {file.absolute()}")


def _trust() -> Trust:
    import os

    from gipper.jobhooks_trust import Trust
    from gipper.paths import Paths

    return Trust(Paths.from_env(os.environ).data_folder)


def _now(entry: Allowed) -> str:
    from gipper.jobhooks_source import HooksFault, read_source

    try:
        source = read_source(entry.path)
    except HooksFault:
        return "refused" if entry.path.exists() else "gone"
    return "as allowed" if entry.fits(source) else "changed"
