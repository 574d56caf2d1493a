"""`gipper plugins`: what is installed, and what failed to load and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from gipper.cli.options import json_option

if TYPE_CHECKING:
    from gipper.plugins.parts import PluginProblem
    from gipper.plugins.registry import Registry

COLUMNS: Final = ("name", "kind", "distribution", "version", "hooks", "state")
PROBLEM_COLUMNS: Final = ("distribution", "version", "plugin", "hook", "cause")


@click.command("plugins")
@json_option
def plugins(as_json: bool) -> None:
    """Show every installed plugin and why any was left out. Loads them all."""
    from gipper.core import Gipper

    show(Gipper.open().registry, as_json=as_json)


def show(registry: Registry, *, as_json: bool) -> None:
    """Print the plugins of `registry`, then its problems; as JSON, one object with both."""
    from gipper.cli.render import print_json, print_table, say
    from gipper.plugins.listing import plugin_rows

    rows = plugin_rows(registry)
    problems = registry.problems
    if as_json:
        print_json(
            {
                "plugins": [r.wire() for r in rows],
                "problems": [dict(zip(PROBLEM_COLUMNS, _cells(p), strict=True)) for p in problems],
            }
        )
        return
    print_table(
        COLUMNS, [(r.name, r.kind, r.distribution, r.version, _hooks(r.hooks), r.state) for r in rows]
    )
    if problems:
        say()
        print_table(PROBLEM_COLUMNS, [_cells(p) for p in problems], title="left out")


def add_plugin_commands(group: click.Group) -> None:
    """Add the commands of the team's plugins to `group`; what fails is told on stderr."""
    from gipper.cli.render import warn
    from gipper.core import Gipper

    Gipper.open(note=warn).common.commands(group)


def _cells(problem: PluginProblem) -> tuple[str | None, ...]:
    return (problem.distribution, problem.version, problem.entry, problem.hook, problem.cause)


def _hooks(names: tuple[str, ...]) -> str:
    # All of them begin alike; the rest is what tells them apart.
    return " ".join(name.removeprefix("gipper_") for name in names)
