"""A click group whose commands are named in a table and imported only when one of them is used."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple

import click

_LINE: Final = 200
Finder = Callable[[str], click.Command | None]


class Entry(NamedTuple):
    """Where a command lives (``module:attribute``) and its line in the help."""

    where: str
    help: str


class LazyGroup(click.Group):
    """`table` maps names to commands in the order of the help; `find` may know what isn't in it.

    `find(name)` is asked once an unknown name was typed; it answers None where it doesn't know it
    either. Without a subcommand the group prints its help and exits 0, unless
    `invoke_without_command` is set.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        table: Mapping[str, Entry] | None = None,
        find: Finder | None = None,
        **attrs: Any,
    ) -> None:
        attrs.setdefault("no_args_is_help", False)
        self._prints_help = not attrs.get("invoke_without_command")
        super().__init__(name=name, **attrs)
        self._table = dict(table or {})
        self._find = find

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The table's names, then what was added; never an import."""
        return [*self._table, *(name for name in sorted(self.commands) if name not in self._table)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now; None where neither table nor group knows it."""
        if cmd_name in self._table:
            return self._load(cmd_name)
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click, but an unknown name is first looked for by `find` and then told with the nearest one."""
        name = args[0]
        if self._knows(name) or name.startswith("-"):
            return super().resolve_command(ctx, args)
        found = self._find(name) if self._find is not None else None
        if found is None:
            raise click.UsageError(self._unknown(ctx, name), ctx)
        return name, found, args[1:]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The command list of the help, from the table alone."""
        rows = [(name, entry.help) for name, entry in self._table.items()]
        rows += [
            (n, c.get_short_help_str(_LINE)) for n, c in sorted(self.commands.items()) if n not in self._table
        ]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Without arguments: the help, and exit 0 (click's own answer is a usage error).

        `help X` is `X --help`.
        """
        if args[:1] == ["help"] and not self._knows("help"):
            args = [*args[1:], "--help"]
        if not args and self._prints_help and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), color=ctx.color)
            ctx.exit(0)
        return super().parse_args(ctx, args)

    def _load(self, name: str) -> click.Command:
        module, _, attribute = self._table[name].where.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command), f"{module}:{attribute} is no command"
        return command

    def _knows(self, name: str) -> bool:
        return name in self._table or name in self.commands

    def _unknown(self, ctx: click.Context, name: str) -> str:
        inner = self._inner(ctx)
        near = difflib.get_close_matches(name, self.list_commands(ctx), n=1)
        if name in inner or not near:
            near = [inner[n] for n in difflib.get_close_matches(name, inner, n=1)]
        meant = f"; did you mean {near[0]!r}?" if near else ""
        return f"no command {name!r}{meant}"

    def _inner(self, ctx: click.Context) -> dict[str, str]:
        """The commands of this group's groups by name, each as it is typed in full."""
        groups = ((n, self.get_command(ctx, n)) for n in self.list_commands(ctx))
        return {
            inner: f"{ctx.command_path} {name} {inner}"
            for name, group in groups
            if isinstance(group, click.Group)
            for inner in group.list_commands(ctx)
        }
