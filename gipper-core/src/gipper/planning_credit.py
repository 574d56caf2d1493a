"""What is left on each account, asked beside the offers: an offer that it can't pay for is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Protocol, runtime_checkable

from gipper.errors import GipperError, Stopped
from gipper.market import Market
from gipper.runtime import Runtime, Task
from gipper.values.bills import Account


@runtime_checkable
class HasAccount(Protocol):
    """The part of a provider's handle that tells of an account."""

    def implements(self, hook: str) -> bool:
        """Whether the provider's own class has the hook."""

    def account(self) -> Account | None:
        """As the hook of that name."""


class Credits:
    """Asks the accounts of `markets` as soon as it is made; `known` waits for the answers."""

    def __init__(self, markets: Sequence[Market], runtime: Runtime, limit_s: float) -> None:
        self._runtime = runtime
        self._deadline = runtime.monotonic() + limit_s
        self._tasks = {
            market.name: runtime.spawn(f"account-{market.name}", market.account)
            for market in markets
            if isinstance(market, HasAccount) and market.has_key() and market.implements("gipper_account")
        }

    def known(self) -> Mapping[str, Decimal | None]:
        """Dollars by provider; None where an account does not tell, fails or is slow: that limits nothing."""
        return {name: self._credit(task) for name, task in self._tasks.items()}

    def _credit(self, task: Task[Account | None]) -> Decimal | None:
        if self._runtime.wait_any([task.done], self._deadline) is None:
            task.cancel()
            return None
        try:
            account = task.result()
        except Stopped:
            raise
        except GipperError:
            return None
        return None if account is None else account.credit_usd
