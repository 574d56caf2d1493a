"""`gipper plugin`: begin a plugin of one's own."""

from __future__ import annotations

from pathlib import Path

import click

from gipper.cli.lazy import LazyGroup


@click.group(cls=LazyGroup)
def plugin() -> None:
    """Write a plugin of your own: a provider, or a team's checks and rules."""


@plugin.command()
@click.argument("name")
@click.option("--checks-only", is_flag=True, help="No provider: checks and rules for whatever is rented.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where to write it  [default: gipper-NAME].")
def new(name: str, checks_only: bool, folder: Path | None) -> None:
    """Write the repository of a plugin called NAME: it installs, and its tests pass, from the first minute.

    What is yours to fill in is marked MARK.
    """
    from gipper.cli.render import say
    from gipper.runtime import RealRuntime
    from gipper.scaffold import plan, write

    texts = plan(name, "checks" if checks_only else "provider", RealRuntime().now().year)
    where = folder or Path(f"gipper-{name}")
    write(where, texts)
    for path in texts:
        say(f"  {where / path}")
    say(f"{len(texts)} files written. Next:")
    say(f"  cd {where} && python3 -m venv .venv && .venv/bin/pip install -e '.[test]' && .venv/bin/pytest")
    say("  grep -rn MARK src tests")
