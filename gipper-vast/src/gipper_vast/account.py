"""The account: what is left, and whether the key may do all that is needed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from gipper.api import Account, KeyCheck, ProviderError, wire
from gipper_vast import bills, listing, pacing
from gipper_vast.client import Ask, Client
from gipper_vast.search import rows_of, search_ask


def account(client: Client) -> Account:
    """The prepaid dollars left. The answer also holds the account's key: nothing else of it is kept."""
    return Account(credit_usd=wire.signed_money(client.good(_user()).get("credit")))


def _user() -> Ask:
    return Ask(
        what="the account",
        endpoint=pacing.USER,
        method="GET",
        path="/api/v0/users/current",
        scope="user_read",
        read=True,
    )


def check_key(client: Client, now: datetime) -> KeyCheck:
    """Asks once for each category that can be tried without changing anything.

    `instance_write` can't be: a create or a destroy is what would show it.
    """
    steps: tuple[Callable[[], object], ...] = (
        lambda: client.good(_user()),
        lambda: listing.first_page(client),
        lambda: rows_of(client.good(search_ask({"limit": 1, "type": "on-demand"}, None))),
        lambda: client.good(bills.charges_ask(now - timedelta(days=1), now)),
    )
    problems = []
    for step in steps:
        try:
            step()
        except ProviderError as error:
            problems.append(f"{error.message}" + (f" ({error.hint})" if error.hint else ""))
            if "not accepted" in error.message:
                break
    return KeyCheck(ok=not problems, problem="; ".join(problems) or None)
