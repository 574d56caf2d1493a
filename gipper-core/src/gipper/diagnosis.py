"""What `gipper doctor` looks at: each finding with its cure. Nothing is changed and nothing is rented."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from gipper import diagnosis_markets as markets
from gipper import diagnosis_places as places
from gipper.diagnosis_finding import Check, Finding, trouble, warning, well
from gipper.diagnosis_timer import timer
from gipper.errors import GipperError
from gipper.installation import owner_alive
from gipper.values.receipts import Owner

if TYPE_CHECKING:
    from gipper.core import Gipper
    from gipper.lifecycle.book import Book, PodRecord

__all__ = ["Finding", "examine"]


def examine(gipper: Gipper) -> Iterator[Finding]:
    """Every check in order; one that fails by itself is a finding and doesn't stop the others."""
    told: set[str] = set()
    for check in _CHECKS:
        name = check.__name__.strip("_").replace("_", " ")
        try:
            yield from check(gipper)
        except GipperError as error:
            text = gipper.redactor.text(error.message)
            shown = "not looked at, for a reason that stands above" if text in told else text
            told.add(text)
            yield Finding(level="trouble", what=name, text=shown, cure=error.hint)
        except OSError as error:
            text = f"{error.filename or 'a file'} can't be looked at: {error.strerror or error}"
            yield trouble(name, text, "mend its permissions")


def _settings(gipper: Gipper) -> Iterator[Finding]:
    loaded = gipper.loaded_settings
    where = gipper.paths.config_file
    yield well("settings", str(where) if where.exists() else f"{where} does not exist: the defaults count")
    for note in loaded.notes:
        yield warning("settings", note, f"edit {where}")


def _ledger(gipper: Gipper) -> Iterator[Finding]:
    verdict = gipper.ledger.verify()
    damaged = gipper.ledger.damaged
    if damaged is not None:
        yield trouble("ledger", damaged, "gipper ledger verify, then gipper ledger verify --accept")
    elif not verdict.whole:
        text = f"not whole, as was accepted: {'; '.join(verdict.problems[:3])}"
        yield warning("ledger", text, "nothing: `gipper pod proof` says which runs it can't vouch for")
    else:
        yield well("ledger", f"{verdict.receipts} receipts, whole")


def _rented(gipper: Gipper) -> Iterator[Finding]:
    from gipper.lifecycle.book import KINDS, Book

    book = Book.of(gipper.ledger.read(kinds=KINDS))
    now = gipper.runtime.now()
    late = [r for r in book.open_pods() if now > r.end + timedelta(minutes=10)]
    for record in late:
        which = f"{record.provider} {record.name}"
        yield trouble("machines", f"{which} is past its end and not proved gone", "gipper pod reap")
    alone = [r for r in book.open_pods() if r not in late and not _supervised(gipper, book, r)]
    for record in alone:
        which = f"{record.provider} {record.name}, which ends at {record.end:%Y-%m-%d %H:%M} UTC"
        yield warning(
            "machines", f"nobody supervises {which}",
            f"gipper pod attach {record.run} goes on with it; gipper pod reap ends it past its end",
        )  # fmt: skip
    if not late and not alone:
        yield well("machines", f"{len(book.open_pods())} open in the ledger, none past its end")


def _supervised(gipper: Gipper, book: Book, record: PodRecord) -> bool:
    from gipper.lifecycle.runfolder import RunFolder

    if gipper.run_folder(record.run).is_dir():
        lock = RunFolder(gipper.run_folder(record.run)).lock()
        if lock is None:
            return True
        lock.release()
    run = book.runs.get(record.run)
    return run is not None and owner_alive(Owner(**run.owner)) != "dead"


def _tools(gipper: Gipper) -> Iterator[Finding]:
    found = shutil.which("ssh")
    if found is None:
        yield warning(
            "ssh", "OpenSSH's client is not installed (only `gipper pod ssh` needs it)",
            "apt-get install openssh-client",
        )  # fmt: skip
    else:
        yield well("ssh", found)


# The clock comes after the keys: it is read from the answers to their check.
_CHECKS: Final[tuple[Check, ...]] = (
    _settings, places.data_folder, places.runs, _ledger, places.keys_folder, places.dotenv, markets.plugins,
    markets.keys, markets.clock, _rented, markets.machines, timer, _tools,
)  # fmt: skip
