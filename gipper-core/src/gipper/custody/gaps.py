"""What nobody can vouch for, as far as the ledger and the runs' own copies of it tell. Pure but for one read.

A copy of each run's receipts lies in its folder: what is there and not in the ledger was taken out of it,
also where the head file was turned back with it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from gipper.custody.report import Gap, Scope, in_scope
from gipper.custody.stays import RunSeen, Stay, Trail
from gipper.ledger.journal import NAME
from gipper.prooftext import MachineProof
from gipper.wording import counted

_COPIES: Final = f"*/{NAME}"
_SHOWN: Final = 20


def gaps_of(trail: Trail, scope: Scope) -> Iterator[Gap]:
    """Machines not proved gone, rents in doubt, shells, takeovers, volumes, missing receipts."""
    for stay in in_scope(trail, scope):
        run = trail.runs.get(stay.run or "")
        machine = trail.proof.machines.get((stay.provider, stay.pod))
        yield from _teardown(stay, machine)
        yield from _visits(stay)
        yield from _volumes(stay, run, machine)
        yield from _missing_receipts(stay, run)
    yield from _rents(trail, scope)
    yield from _elsewhere(trail, scope)
    for kind, count in sorted(trail.unknown.items()):
        text = (
            f"{counted(count, 'receipt')} of kind {kind}, which a later gipper wrote and this one can't read"
        )
        yield Gap(kind="unknown receipts", text=text)


def ledger_gaps(problems: Iterable[str], skipped: int, lost: Collection[str], waiting: int) -> Iterator[Gap]:
    """The ledger's own: what `verify` found, rows passed over, receipts known from copies alone, receipts
    that wait to be stored."""
    for problem in problems:
        yield Gap(kind="ledger not whole", text=f"the ledger is not whole: {problem}")
    if skipped:
        yield Gap(kind="ledger not whole", text=f"{counted(skipped, 'receipt')} can't be read")
    for text in list(lost)[:_SHOWN]:
        yield Gap(kind="ledger not whole", text=text)
    if len(lost) > _SHOWN:
        yield Gap(kind="ledger not whole", text=f"and {len(lost) - _SHOWN} more that only runs' copies hold")
    if waiting:
        yield Gap(kind="receipts waiting", text=f"{counted(waiting, 'receipt')} could not be stored yet")


def copied_receipts(data: Path) -> dict[str, str]:
    """Ids of all receipts that runs' own copies hold, each with a line that says which it is.

    To be read before the ledger: a copy is written after its receipt.
    """
    return {
        str(row["id"]): f"receipt {row['seq']} ({row['kind']}, run {row['run']}, {row['ts']})"
        for path in sorted((data / "runs").glob(_COPIES))
        for row in _rows(path)
    }


def lost_receipts(copied: Mapping[str, str], ids: Collection[str]) -> list[str]:
    """One line for each receipt of `copied` that the ledger (its `ids`) lacks."""
    return [
        f"{which} is in the run's own copy, and in the ledger it is missing or unreadable"
        for ident, which in copied.items()
        if ident not in ids
    ]


def waiting_receipts(data: Path) -> int:
    """How many receipts lie in spill files, to be stored by the next process that writes."""
    from gipper.ledger.spill import waiting

    return sum(_lines(path) for path in waiting(data, lambda run: data / "runs" / run))


def _rows(path: Path) -> Iterator[dict[str, object]]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for line in text.split("\n"):
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and {"id", "seq", "kind", "run", "ts"} <= row.keys():
            yield row


def _lines(path: Path) -> int:
    try:
        return sum(1 for line in path.read_text("utf-8", "replace").split("\n") if line.strip())
    except OSError:
        return 0


def _teardown(stay: Stay, machine: MachineProof | None) -> Iterator[Gap]:
    doubt = "nobody ended it yet" if machine is None else machine.doubt
    if doubt is not None:
        yield _gap("teardown unconfirmed", stay, f"not proved gone: {doubt}")


def _visits(stay: Stay) -> Iterator[Gap]:
    for at, by in stay.shells:
        yield _gap(
            "shell", stay, f"{by} opened a shell at {_time(at)}: what was typed there is in no receipt"
        )


def _volumes(stay: Stay, run: RunSeen | None, machine: MachineProof | None) -> Iterator[Gap]:
    for volume in run.volumes(stay.provider) if run else ():
        yield _gap("volume", stay, f"{volume} was attached: what was written to it outlives the machine")
    for left in dict.fromkeys(x for gone in (machine.gone if machine else ()) for x in gone.leftovers):
        yield _gap("volume", stay, f"left over after its end: {left}")


def _missing_receipts(stay: Stay, run: RunSeen | None) -> Iterator[Gap]:
    if run is None:
        text = (
            "the beginning of its run is in no receipt" if stay.run else "it belongs to no run that is known"
        )
        yield _gap("receipts missing", stay, f"{text}: what it was given is not known")
        return
    if stay.started and run.inputs and not stay.files:
        yield _gap("receipts missing", stay, "its job has inputs, and no receipt says that they were sent")
    if stay.started and run.secrets and not stay.secrets:
        yield _gap(
            "receipts missing", stay, "its job has secrets, and no receipt says that they were handed over"
        )


def _rents(trail: Trail, scope: Scope) -> Iterator[Gap]:
    for rent in trail.proof.rents.values():
        run = rent.name.split("-")[2] if rent.name.count("-") >= 4 else None
        if rent.doubt and scope.covers(rent.provider, run) and scope.meets(rent.intended, None):
            text = f"a machine {rent.name} may exist that nobody knows: {rent.doubt}"
            yield Gap(kind="rent in doubt", text=text, provider=rent.provider, run=run)


def _elsewhere(trail: Trail, scope: Scope) -> Iterator[Gap]:
    touched = {stay.run: stay.provider for stay in in_scope(trail, scope)}
    for run in trail.runs.values():
        if run.run in touched:
            for at in run.elsewhere:
                text = f"taken over from another computer at {_time(at)}: this one can't know what was done"
                yield Gap(kind="attached from elsewhere", text=text, provider=touched[run.run], run=run.run)


def _gap(kind: str, stay: Stay, text: str) -> Gap:
    return Gap(kind=kind, text=text, provider=stay.provider, pod=stay.pod, run=stay.run)


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
