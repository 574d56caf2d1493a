"""What the accounts of markets still hold, asked beside their offers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final

from gipper.errors import GipperError
from gipper.plugins.handle import Provider
from gipper.runtime import Runtime, Task
from gipper.values.bills import Account

LIMIT_S: Final = 10.0


class Credits(Mapping[str, Decimal | None]):
    """Known balances by provider. All are asked at once, at the start; only looking one up waits for it.

    None where the market doesn't tell, fails, or is slower than `limit_s` seconds: an unknown balance
    rules nothing out. Providers without such a hook, or without a key, aren't asked.
    """

    def __init__(self, providers: Sequence[Provider], runtime: Runtime, limit_s: float = LIMIT_S) -> None:
        self._runtime, self._deadline = runtime, runtime.monotonic() + limit_s
        self._tasks: dict[str, Task[Account | None]] = {
            p.name: runtime.spawn(f"account-{p.name}", p.account)
            for p in providers
            if p.implements("gipper_account") and p.has_key()
        }

    def __getitem__(self, provider: str) -> Decimal | None:
        task = self._tasks[provider]
        if self._runtime.wait_any([task.done], self._deadline) is None:
            task.cancel()
            return None
        try:
            account = task.result()
        except GipperError:
            return None
        return None if account is None else account.credit_usd

    def __iter__(self) -> Iterator[str]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)
