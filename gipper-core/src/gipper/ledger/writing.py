"""What happens under the writers' lock: begin, add, commit, and moving on from a damaged file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs

from gipper.errors import LedgerError
from gipper.ledger import files, head, health, schema, succession
from gipper.ledger.chain import Draft, Row, digest
from gipper.ledger.faults import LedgerDamaged, is_damage, translated
from gipper.ledger.head import Head
from gipper.ledger.lock import WriterLock
from gipper.runtime import Runtime

_MOST_TRIES: Final = 4
_CLOSE_S: Final = 2.0
Note = Callable[[str], None]


class Writer:
    """One process's way into the ledger; all methods but `held` need the lock."""

    def __init__(
        self, folder: Path, runtime: Runtime, note: Note, suspects: MutableMapping[str, str]
    ) -> None:
        self._folder = folder
        self._runtime = runtime
        self._note = note
        self._suspects = suspects
        self._lock = WriterLock(folder, runtime)
        self._conn: sqlite3.Connection | None = None
        self._opened: tuple[Path, int] | None = None
        self._tip = head.START
        self._last: Row | None = None
        self._patience = schema.BUSY_S
        self.added: list[Row] = []

    @property
    def mine(self) -> bool:
        """True in the thread that holds the lock."""
        return self._lock.mine

    @property
    def conn(self) -> sqlite3.Connection:
        """The connection inside a transaction."""
        if self._conn is None:
            raise LedgerError("the ledger's transaction has ended")
        return self._conn

    @property
    def path(self) -> Path | None:
        """The file that `conn` writes."""
        return self._opened[0] if self._opened else None

    @contextmanager
    def held(self, timeout: float) -> Iterator[None]:
        """The lock, within `timeout` seconds. Raises LedgerError."""
        with translated(self._folder):
            try:
                self._lock.acquire(timeout)
            except FileNotFoundError:
                files.make_folder(self._folder)
                self._lock.acquire(timeout)
        try:
            yield
        finally:
            self._lock.release()

    @contextmanager
    def transaction(self, timeout: float) -> Iterator[None]:
        """Lock, begin, and commit what was added; nothing is kept where the body raises."""
        with self.held(timeout):
            whole = False
            try:
                with translated(self._folder):
                    self._begin(timeout)
                yield
                with translated(self._folder):
                    self._commit()
                whole = True
            finally:
                if not whole:
                    self._rollback()

    def add(self, item: Draft) -> Row:
        """Put `item` at the end of the chain. Raises LedgerError."""
        with translated(self._folder):
            try:
                return self._insert(item)
            except sqlite3.DatabaseError as error:
                if self.added or not is_damage(error):
                    raise
                self._move_on(str(error))
                return self._insert(item)

    def set_aside(self, name: str, why: str) -> None:
        """From now on the file `name` gets no more receipts, in any process."""
        state = files.load_state(self._folder)
        if name not in state.closed:
            files.save_state(self._folder, attrs.evolve(state, closed={**state.closed, name: why}))
            self._note(f"the ledger file {name} is damaged: {why}; new receipts go to the next file")
        self._suspects.pop(name, None)

    def close(self) -> None:
        """Close the file; the lock keeps SQLite's last checkpoint from meeting a writer."""
        if self._conn is None:
            return
        try:
            with self.held(_CLOSE_S):
                self._drop()
        except LedgerError:
            self._drop()

    def _insert(self, item: Draft) -> Row:
        if not self.conn.in_transaction:
            # SQLite ends a transaction by itself on some errors: what follows must not be stored alone.
            raise LedgerError("the ledger's transaction was rolled back by an earlier error")
        row = item.at(self._tip.seq + 1, self._tip.hash)
        self.conn.execute(schema.INSERT, row)
        self._tip, self._last = Head(row.seq, digest(row)), row
        self.added.append(row)
        return row

    def _begin(self, timeout: float) -> None:
        self.added = []
        for _ in range(_MOST_TRIES):
            path = files.writing(self._folder, files.load_state(self._folder))
            try:
                self._begin_in(path, timeout)
                return
            except LedgerDamaged as error:
                self._give_up(path, error.message)
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise
                self._give_up(path, str(error))
        raise LedgerError("no file of the ledger can be written", hint="gipper ledger verify")

    def _begin_in(self, path: Path, timeout: float) -> None:
        if path.name in self._suspects:
            raise LedgerDamaged(self._suspects[path.name])
        conn = self._connected(path)
        if timeout != self._patience:
            conn.execute(f"PRAGMA busy_timeout = {int(timeout * 1000)}")
            self._patience = timeout
        conn.execute("BEGIN IMMEDIATE")
        last = health.end_of(conn)
        if last is None or last != self._last:
            self._tip, self._last = health.head_of(last), last
        known = head.read(self._folder)
        if known != self._tip and health.check_end(conn, known, last):
            head.write(self._folder, self._tip)

    def _connected(self, path: Path) -> sqlite3.Connection:
        if self._conn is not None and self._opened == (path, _inode(path)):
            return self._conn
        self._drop()
        self._patience = schema.BUSY_S
        self._conn = succession.opened(self._folder, path, self._runtime.now())
        self._opened = (path, _inode(path))
        files.keep_reserve(self._folder)
        return self._conn

    def _commit(self) -> None:
        if not self.conn.in_transaction:
            raise LedgerError("the ledger's transaction was rolled back by an earlier error")
        self.conn.execute("COMMIT")
        if not self.added:
            return
        try:
            head.write(self._folder, self._tip)
        except OSError as error:
            # The receipts are durable; a head that is behind is brought up by the next writer.
            self._note(f"the ledger's head file could not be written: {error}")

    def _move_on(self, why: str) -> None:
        path = self.path
        if path is None:
            raise LedgerError("the ledger's transaction has ended")
        self._give_up(path, why)
        self._begin(schema.BUSY_S)

    def _give_up(self, path: Path, why: str) -> None:
        self._rollback()
        self._drop()
        self.set_aside(path.name, why)

    def _rollback(self) -> None:
        self.added = []
        if self._conn is not None and self._conn.in_transaction:
            try:
                self._conn.execute("ROLLBACK")
            except sqlite3.Error:
                self._drop()

    def _drop(self) -> None:
        conn, self._conn, self._opened = self._conn, None, None
        if conn is not None:
            try:
                conn.close()
            except sqlite3.Error:
                # Closing a damaged file may fail in its checkpoint; the file is left as it is.
                return


def _inode(path: Path) -> int:
    try:
        return os.stat(path).st_ino  # noqa: PTH116 - on the way of every append
    except FileNotFoundError:
        return -1
