"""The embedded ledger: one SQLite file that many processes append to.

Opening notices, in time that doesn't grow with the ledger: a missing file, a lost header, missing
tables or triggers, an unreadable end, a head file that is missing, ahead of the ledger or off its
chain, and a broken chain among the last 32 receipts. A read notices the rows that it can't read.
Everything else is found by `verify`. Whoever notices damage while writing closes the file for all
processes; new receipts then go to the next one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Final

from gipper.errors import LedgerError
from gipper.ledger import files, head, journal, reading, schema, spill
from gipper.ledger import verify as walking
from gipper.ledger.chain import Draft, Row, draft, draft_line, to_receipt
from gipper.ledger.faults import LedgerFull, translated
from gipper.ledger.files import State
from gipper.ledger.opening import notice
from gipper.ledger.protocol import LedgerTransaction, Verdict
from gipper.ledger.sources import Sources
from gipper.ledger.writing import Note, Writer
from gipper.runtime import Runtime
from gipper.values.receipts import Payload, Receipt

TEARDOWN_S: Final = 2.0


class SqliteLedger:
    """`LedgerStore` over a folder. Threads may share one; nothing is created before the first append."""

    def __init__(
        self,
        folder: Path,
        runtime: Runtime,
        *,
        writable: bool,
        note: Note,
        observers: Callable[[Receipt], None] | None,
        run_folder: Callable[[str], Path] | None,
    ) -> None:
        self._folder = folder
        self._runtime = runtime
        self._writable = writable
        self._note = note
        self._observers = observers
        self._run_folder = run_folder
        self._suspects: dict[str, str] = {}
        self._writer = Writer(folder, runtime, note, self._suspects)
        self._sources = Sources(folder)
        self._tally = reading.Tally()

    @classmethod
    def open(
        cls,
        folder: Path,
        runtime: Runtime,
        *,
        writable: bool = True,
        on_note: Callable[[str], None] | None = None,
        observers: Callable[[Receipt], None] | None = None,
        run_folder: Callable[[str], Path] | None = None,
    ) -> SqliteLedger:
        """The ledger in `folder`, whether or not it exists yet.

        `on_note` hears what the user should know (standard error without it); `observers` hears every
        stored receipt, outside the lock. Receipts that an earlier process could not store are stored
        now. Raises LedgerError where the folder can't be used or a later gipper wrote it; damage is
        no error here, see `damaged`.
        """
        note = on_note or _to_stderr
        store = cls(folder, runtime, writable=writable, note=note, observers=observers, run_folder=run_folder)
        with translated(folder):
            if writable:
                files.check_writable(folder)
            store._look()
            if writable:
                store._store_spilled()
        return store

    def append(self, payload: Payload, *, run: str | None, refs: Mapping[str, str] | None = None) -> Receipt:
        """Store a receipt durably, waiting at most 30 s for other writers. Raises LedgerError."""
        return self._store(draft(payload, run, refs, self._runtime.now()), schema.BUSY_S)

    def append_or_spill(
        self, payload: Payload, *, run: str | None, refs: Mapping[str, str] | None = None
    ) -> Receipt | None:
        """Store a receipt within 2 s, or keep it for the next process and return None."""
        item = draft(payload, run, refs, self._runtime.now())
        deadline = self._runtime.monotonic() + TEARDOWN_S
        try:
            try:
                return self._store(item, TEARDOWN_S)
            except LedgerFull:
                files.free_reserve(self._folder)
                return self._store(item, max(0.0, deadline - self._runtime.monotonic()))
        except LedgerError as error:
            self._spill(item, error.message)
            return None

    @contextmanager
    def transaction(self) -> Iterator[LedgerTransaction]:
        """Hold the writers' lock for check-then-act; nothing is stored where the body raises.

        Inside another transaction of the same thread it joins that one. Raises LedgerError.
        """
        self._must_be_writable()
        if self._writer.mine:
            yield _Transaction(self)
            return
        with self._writer.transaction(schema.BUSY_S):
            yield _Transaction(self)
            added = self._writer.added
        self._publish(added)

    def read(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        kinds: Collection[str] | None = None,
        run: str | None = None,
        after_seq: int = 0,
    ) -> Iterator[Receipt]:
        """Receipts in order of `seq`, ts in [`since`, `until`); kinds of later versions included.

        Rows that can't be read or parsed are passed over and counted in `skipped`, and so are missing
        ones where no filter but `after_seq` is given. Raises LedgerError while it is consumed.
        """
        self._tally = tally = reading.Tally()
        return self._receipts(reading.query(since, until, kinds, run, after_seq), tally)

    @property
    def damaged(self) -> str | None:
        """What is wrong and not accepted, file by file, or None."""
        with translated(self._folder):
            state = files.load_state(self._folder)
            found = {**self._suspects, **files.complaints(self._folder, state)}
        return "; ".join(f"{name}: {why}" for name, why in sorted(found.items())) or None

    @property
    def skipped(self) -> int:
        """How many rows the last `read` has passed over so far."""
        return self._tally.skipped

    def verify(self) -> Verdict:
        """Walk the chain over all files. A damaged file is closed for writing; a head file that is
        behind is brought up. Raises LedgerError where it can't be read at all now."""
        with translated(self._folder):
            state = files.load_state(self._folder)
            walked = self._walked(state)
            # A file that had to be read from a mended copy is damaged, however well the copy reads.
            for name, what in self._suspects.items():
                if name not in state.closed and name not in {n for n, _ in walked.problems}:
                    walked.blame(name, what)
            current = files.writing(self._folder, state).name
            why = next((what for name, what in walked.problems if name == current), None)
            if why is not None:
                self._suspects.setdefault(current, why)
        if self._writable and (why is not None or walked.mended):
            self._act_on(current, why)
        return walked.verdict()

    def accept(self) -> tuple[str, ...]:
        """Take note that the user knows of all damage found so far; the names of the files accepted.

        Runs `verify` first. The damaged files stay as they are and are still read; the receipts that
        follow go to the next file. Raises LedgerError.
        """
        self._must_be_writable()
        self.verify()
        if self._suspects or files.complaints(self._folder, files.load_state(self._folder)):
            with self._writer.transaction(schema.BUSY_S):
                pass
        return self._note_acceptance()

    def close(self) -> None:
        """Release the files."""
        # Readers first: the last one out removes the write-ahead log, and only a writer can.
        self._sources.close()
        self._writer.close()

    def _look(self) -> None:
        try:
            with translated(self._folder):
                found = notice(self._folder, files.load_state(self._folder))
        except LedgerFull:
            # Even reading needs some room: 32 KiB that readers and writers share.
            if not (self._writable and files.free_reserve(self._folder)):
                raise
            found = notice(self._folder, files.load_state(self._folder))
        self._suspects.update(found)

    def _note_acceptance(self) -> tuple[str, ...]:
        with self._writer.held(schema.BUSY_S), translated(self._folder):
            state = files.load_state(self._folder)
            names = tuple(files.complaints(self._folder, state))
            if names:
                closed = {**dict.fromkeys(names, "a later file took over"), **state.closed}
                accepted = state.accepted.union(names)
                files.save_state(self._folder, State(closed=closed, accepted=accepted))
        return names

    def _act_on(self, current: str, why: str | None) -> None:
        if why is None:
            with self._writer.transaction(schema.BUSY_S):
                return
        with self._writer.held(schema.BUSY_S), translated(self._folder):
            self._writer.set_aside(current, why)

    def _walked(self, state: State) -> walking.Walk:
        # Head and end must be of one moment, else a writer between the two looks like a crash.
        lock = self._writer.held(schema.BUSY_S) if self._may_lock() else nullcontext()
        with lock:
            known = head.read(self._folder)
            sources = self._sources.whole(known)
        return walking.walk(sources, known, state.closed)

    def _may_lock(self) -> bool:
        return self._writable and self._folder.is_dir()

    def _store(self, item: Draft, timeout: float) -> Receipt:
        self._must_be_writable()
        if self._writer.mine:
            return to_receipt(self._writer.add(item))
        with self._writer.transaction(timeout):
            row = self._writer.add(item)
        return self._publish([row])[0]

    def _must_be_writable(self) -> None:
        if not self._writable:
            raise LedgerError(f"the ledger in {self._folder} was opened for reading only")

    def _publish(self, rows: Sequence[Row]) -> list[Receipt]:
        receipts = [to_receipt(row) for row in rows]
        for row, receipt in zip(rows, receipts, strict=True):
            journal.note(row, self._run_folder)
            self._tell(receipt)
        return receipts

    def _tell(self, receipt: Receipt) -> None:
        if self._observers is None:
            return
        try:
            self._observers(receipt)
        except Exception as error:  # noqa: BLE001 - an observer is someone else's code and never fatal
            self._note(f"an observer of receipts failed on {receipt.kind}: {error!r}")

    def _receipts(self, want: reading.Query, tally: reading.Tally) -> Iterator[Receipt]:
        inside = self._writer if self._writer.mine else None
        with translated(self._folder):
            current = files.writing(self._folder, files.load_state(self._folder)).name
            found = self._sources.rows(want, tally, head.read(self._folder), inside)
        while (step := self._next(found)) is not None:
            name, row = step
            try:
                receipt = to_receipt(row)
            except ValueError as error:
                tally.skipped += 1
                self._suspect(name, current, f"receipt {row.seq} can't be parsed ({error})")
                continue
            yield receipt
        for name in self._sources.unreadable:
            self._suspect(name, current, "rows of it can't be read")

    def _next(self, found: Iterator[tuple[str, Row]]) -> tuple[str, Row] | None:
        with translated(self._folder):
            return next(found, None)

    def _suspect(self, name: str, current: str, why: str) -> None:
        if name == current:
            self._suspects.setdefault(name, why)

    def _spill(self, item: Draft, why: str) -> None:
        kept = spill.put(spill.places(self._folder, self._run_folder, item.run), item)
        where = f"kept in {kept}" if kept else "kept nowhere but here"
        self._note(f"a receipt could not be stored ({why}); {where}: {draft_line(item)}")

    def _store_spilled(self) -> None:
        for path in spill.waiting(self._folder, self._run_folder):
            try:
                self._take_in(path)
            except (LedgerError, OSError) as error:
                self._note(f"{path} holds receipts that can't be stored yet: {error}")

    def _take_in(self, path: Path) -> None:
        with (
            self._writer.held(TEARDOWN_S),
            spill.taken(path) as (good, bad),
            self._writer.transaction(TEARDOWN_S),
        ):
            self._add_new(good)
            added = self._writer.added
        if bad:
            self._note(f"{len(bad)} line(s) of {path} were no receipts; they are kept beside it")
        self._publish(added)

    def _add_new(self, items: Sequence[Draft]) -> None:
        seen: set[str] = set()
        for item in items:
            if item.id not in seen and not self._sources.knows(item.id, self._writer):
                self._writer.add(journal.marked_late(item, self._runtime.now()))
            seen.add(item.id)


class _Transaction:
    def __init__(self, store: SqliteLedger) -> None:
        self._store = store

    def append(self, payload: Payload, *, run: str | None, refs: Mapping[str, str] | None = None) -> Receipt:
        if not self._store._writer.mine:
            raise LedgerError("the ledger's transaction has ended")
        return self._store.append(payload, run=run, refs=refs)

    def read(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        kinds: Collection[str] | None = None,
        run: str | None = None,
        after_seq: int = 0,
    ) -> Iterator[Receipt]:
        return self._store.read(since=since, until=until, kinds=kinds, run=run, after_seq=after_seq)


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
