"""What each market says of the user's account, asked side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from gipper.errors import GipperError
from gipper.plugins.handle import Provider
from gipper.runtime import Runtime, Task
from gipper.values.bills import Account

LIMIT_S: Final = 30.0


@attrs.frozen(kw_only=True)
class AccountLine:
    """One provider's answer. `missing` is the name of a key that isn't set, `error` why it can't be asked;
    `told` is False where the market has no such figures."""

    provider: str
    account: Account | None = None
    missing: str | None = None
    error: str | None = None
    told: bool = True


def ask_accounts(
    providers: Sequence[Provider], runtime: Runtime, *, limit_s: float = LIMIT_S
) -> list[AccountLine]:
    """A line for each provider that needs a key or tells of an account, in their order."""
    deadline = runtime.monotonic() + limit_s
    asked = {
        p.name: runtime.spawn(f"account of {p.name}", p.account)
        for p in providers
        if p.has_key() and p.implements("gipper_account")
    }
    lines = (_line(p, asked.get(p.name), runtime, deadline, limit_s) for p in providers)
    return [line for line in lines if line is not None]


def _line(
    provider: Provider, task: Task[Account | None] | None, runtime: Runtime, deadline: float, limit_s: float
) -> AccountLine | None:
    if not provider.has_key():
        return AccountLine(provider=provider.name, missing=provider.key_name)
    if task is None:
        return AccountLine(provider=provider.name, told=False) if provider.key_name else None
    if runtime.wait_any([task.done], deadline) is None:
        task.cancel()
        return AccountLine(provider=provider.name, error=f"no answer within {limit_s:.0f} s")
    try:
        found = task.result()
    except GipperError as error:
        return AccountLine(provider=provider.name, error=error.message)
    return AccountLine(provider=provider.name, account=found, told=found is not None)
