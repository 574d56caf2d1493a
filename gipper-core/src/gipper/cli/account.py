"""`gipper pod account`: what the markets say of the user's accounts."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import click

from gipper.cli.options import json_option
from gipper.outcomes import EXIT_OK, EXIT_PROVIDER

if TYPE_CHECKING:
    from gipper.accounts import AccountLine

_COLUMNS: Final = ("provider", "account")


@click.command()
@json_option
def account(as_json: bool) -> int:
    """Show credit, spend per hour and limit of each account; what a market doesn't tell stays unknown.

    Exits 4 if every market that was asked failed.
    """
    from gipper.accounts import ask_accounts
    from gipper.cli.render import print_table, warn
    from gipper.core import Gipper

    gipper = Gipper.open(note=lambda text: warn(f"gipper: note: {text}"))
    lines = ask_accounts(gipper.providers(), gipper.runtime)
    cells = [(line.provider, gipper.redactor.text(_said(line))) for line in lines]
    rows = [_json(line, said) for line, (_, said) in zip(lines, cells, strict=True)]
    print_table(_COLUMNS, cells, json_rows=rows, as_json=as_json)
    asked = [line for line in lines if line.missing is None]
    return EXIT_PROVIDER if asked and all(line.error for line in asked) else EXIT_OK


def _said(line: AccountLine) -> str:
    if line.missing is not None:
        return f"no {line.missing}"
    if line.error is not None:
        return f"error: {line.error}"
    if line.account is None:
        return "this market tells nothing of accounts"
    told = line.account
    figures = (
        f"credit {_dollars(told.credit_usd)}",
        f"spending {_dollars(told.usd_h, '/h')}",
        f"limit {_dollars(told.limit_usd)}",
    )
    return ", ".join(figures)


def _dollars(value: Decimal | None, per: str = "") -> str:
    return "unknown" if value is None else f"${value:.2f}{per}"


def _json(line: AccountLine, said: str) -> dict[str, Any]:
    told = line.account
    return {
        "provider": line.provider, "credit_usd": told.credit_usd if told else None,
        "usd_h": told.usd_h if told else None, "limit_usd": told.limit_usd if told else None,
        "missing_key": line.missing, "error": None if line.error is None else said.removeprefix("error: "),
    }  # fmt: skip
