"""What the rest of gipper asks of a ledger; the embedded one is `gipper.ledger.store`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

import attrs

from gipper.values.receipts import Payload, Receipt


@attrs.frozen(kw_only=True)
class Verdict:
    """What `verify` found; `problems` is empty where the trail is whole."""

    receipts: int
    head: str
    problems: tuple[str, ...] = ()
    mended: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """True where nothing is missing, altered or unreadable."""
        return not self.problems


class LedgerReader(Protocol):
    """Reading; every filter narrows."""

    def read(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        kinds: Collection[str] | None = None,
        run: str | None = None,
        after_seq: int = 0,
    ) -> Iterator[Receipt]:
        """Receipts in order of `seq`, ts in [`since`, `until`). Damaged rows are skipped and counted."""


class LedgerTransaction(LedgerReader, Protocol):
    """Check, then act: what is read stays true until the transaction ends. No network inside."""

    def append(self, payload: Payload, *, run: str | None, refs: Mapping[str, str] | None = None) -> Receipt:
        """As `LedgerStore.append`."""


class LedgerStore(LedgerReader, Protocol):
    """Append-only, many writers, durable before it returns."""

    def append(self, payload: Payload, *, run: str | None, refs: Mapping[str, str] | None = None) -> Receipt:
        """Store a receipt durably. Raises LedgerError where that can't be done."""

    def append_or_spill(
        self, payload: Payload, *, run: str | None, refs: Mapping[str, str] | None = None
    ) -> Receipt | None:
        """For teardown: at most 2 s of waiting, never raises for the ledger's sake.

        None = it went to the run's folder and to stderr, and the next process stores it.
        """

    def transaction(self) -> AbstractContextManager[LedgerTransaction]:
        """Hold the writers' lock for check-then-act. Raises LedgerError."""

    @property
    def damaged(self) -> str | None:
        """What is wrong with the ledger so that nothing may be rented, or None."""

    @property
    def skipped(self) -> int:
        """How many unreadable rows the last `read` passed over."""

    def verify(self) -> Verdict:
        """Walk the chain from the first receipt to the head."""

    def close(self) -> None:
        """Release the file."""
