"""The account: what is left, and whether the key may do all that is needed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from gipper.api import Account, KeyCheck, ProviderError, wire
from gipper_runpod import bills, graphql, pods
from gipper_runpod.client import Client


def account(client: Client) -> Account:
    """Balance, spend per hour, limit; all unknown where the key may not see them, never 0 for that."""
    told = graphql.account(client)
    if told is None:
        return Account()
    return Account(
        credit_usd=wire.signed_money(told.get("clientBalance")),
        usd_h=wire.money(told.get("currentSpendPerHr")),
        limit_usd=wire.money(told.get("spendLimit")),
    )


def check_key(client: Client, now: datetime, *, here: bool) -> KeyCheck:
    """Asks once for each right that can be tried without changing anything."""
    steps: tuple[Callable[[], object], ...] = (
        lambda: pods.list_ours(client, here=here),
        lambda: bills.billed(client, now - timedelta(hours=1), now),
        lambda: graphql.account(client),
    )
    problems = []
    for step in steps:
        try:
            step()
        except ProviderError as error:
            problems.append(error.message + (f" ({error.hint})" if error.hint else ""))
            if "not accepted" in error.message:
                break
    return KeyCheck(ok=not problems, problem="; ".join(problems) or None)
