"""The ledger's files as readers see them: in order, each with what can be read of it."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from gipper.ledger import files, reading
from gipper.ledger.chain import Row
from gipper.ledger.faults import is_busy
from gipper.ledger.head import Head
from gipper.ledger.schema import Frozen
from gipper.ledger.succession import connect_anyhow
from gipper.ledger.verify import Source
from gipper.ledger.writing import Writer


@attrs.frozen(kw_only=True)
class _Opened:
    inode: int
    conn: sqlite3.Connection | None


class Sources:
    """Reading connections, kept open; several threads take turns query by query."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._turn = threading.Lock()
        self._opened: dict[Path, _Opened] = {}
        self.unreadable: set[str] = set()

    def rows(
        self, want: reading.Query, tally: reading.Tally, head: Head | None, inside: Writer | None
    ) -> Iterator[tuple[str, Row]]:
        """File name and row of everything that `want` admits; inside a transaction with its own rows.

        Raises sqlite3.Error (busy), OSError.
        """
        self.unreadable = set()
        reached = 0
        for source in self._all(head, inside):
            if not want.narrow:
                tally.skipped += max(0, source.floor - max(reached, want.after_seq))
            before = tally.skipped
            found = reading.matching(source.fetch, want, source.floor, source.top, tally)
            yield from ((source.name, row) for row in found)
            if tally.skipped > before:
                self.unreadable.add(source.name)
            reached = source.top
        if not want.narrow and head is not None:
            tally.skipped += max(0, head.seq - max(reached, want.after_seq))

    def whole(self, head: Head | None) -> list[Source]:
        """All files for a verification. Raises OSError."""
        return self._all(head, None)

    def knows(self, receipt_id: str, inside: Writer) -> bool:
        """True where a receipt of that id is stored in any file."""
        sql = "SELECT 1 FROM receipts WHERE id = ?"
        return any(_asked(s.fetch, sql, (receipt_id,)) for s in self._all(None, inside))

    def close(self) -> None:
        """Close all connections."""
        with self._turn:
            for opened in self._opened.values():
                if opened.conn is not None:
                    opened.conn.close()
            self._opened.clear()

    def _all(self, head: Head | None, inside: Writer | None) -> list[Source]:
        found: list[Source] = []
        above: int | None = None if head is None else head.seq
        for path in reversed(files.existing(self._folder)):
            conn = inside.conn if inside is not None and inside.path == path else self._connection(path)
            if conn is None:
                continue
            source = self._source(path, conn, above)
            found.insert(0, source)
            above = source.floor
        return found

    def _source(self, path: Path, conn: sqlite3.Connection, above: int | None) -> Source:
        def fetch(sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
            with self._turn:
                return conn.execute(sql, values).fetchall()

        first, top = reading.first_seq(fetch), reading.last_seq(fetch)
        alone = files.number_of(path) == 1
        floor = 0 if alone or first is None else first - 1
        return Source(
            name=path.name,
            conn=conn,
            fetch=fetch,
            floor=floor,
            top=max(floor, (above or floor) if top is None else top),
        )

    def _connection(self, path: Path) -> sqlite3.Connection | None:
        inode = path.stat().st_ino
        with self._turn:
            opened = self._opened.get(path)
            if opened is None or opened.inode != inode or isinstance(opened.conn, Frozen):
                # The old connection may still serve a read that is under way: it goes with that.
                opened = _Opened(inode=inode, conn=connect_anyhow(path))
                self._opened[path] = opened
        return opened.conn


def _asked(fetch: reading.Fetch, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    try:
        return fetch(sql, values)
    except sqlite3.DatabaseError as error:
        if is_busy(error):
            raise
        return []
