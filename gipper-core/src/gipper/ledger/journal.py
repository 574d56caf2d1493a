"""The copies of receipts outside the ledger: a run's own file, and late arrivals from a spill."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

import attrs

from gipper.ledger.chain import Draft, Row, canonical, encode
from gipper.values.receipts import stamp

NAME: Final = "receipts.jsonl"


def note(row: Row, run_folder: Callable[[str], Path] | None) -> None:
    """Append `row` to its run's own file, if the run has a folder. Failures are ignored: it is salvage."""
    if run_folder is None or row.run is None:
        return
    try:
        path = run_folder(row.run) / NAME
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, (canonical(row) + "\n").encode())
        finally:
            os.close(fd)
    except OSError:
        return


def marked_late(item: Draft, now: datetime) -> Draft:
    """A spilled receipt as it is stored: dated when it happened, `refs.stored` says when it arrived.

    Money is counted on the day of `ts`, so that a full disk must not move a spend to the next day.
    """
    refs = {**json.loads(item.refs), "stored": stamp(now)}
    return attrs.evolve(item, refs=encode(refs))
