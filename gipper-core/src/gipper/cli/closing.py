"""What every run ends with, whoever brought it to its end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from gipper.wording import counted

if TYPE_CHECKING:
    from gipper.lifecycle.results import MachineEnd, RunResult


def tell_end(result: RunResult, log: Path) -> None:
    """The outcome, then four lines: outputs, phases, cost, the machine's proof."""
    from gipper.cli.render import tell, warn

    warn(f"gipper: run {result.run} {result.outcome.value}: {result.reason}")
    if result.hint:
        warn(f"  next: {result.hint}")
    tell(f"outputs: {_outputs(result)}; log: {shown_log(log)}")
    for problem in result.collected.problems:
        warn(f"gipper: not home: {problem}")
    tell(f"phases: {_phases(result)}")
    tell(f"cost: {_cost(result)}")
    for end in result.machines:
        tell(_proof(end))
    if not result.machines:
        tell(_no_machine(result))


def shown_log(log: Path) -> str:
    """Where the log is, or that there is none: a job that never started wrote nothing."""
    return os.path.normpath(log) if log.exists() else "none"


def _outputs(result: RunResult) -> str:
    places = ", ".join(os.path.normpath(p) for p in result.collected.places)
    came = result.collected
    files = f" ({counted(came.files, 'file')}, {counted(came.bytes, 'byte')})"
    return places + files if places else "none"


def _phases(result: RunResult) -> str:
    t = result.timings
    named = {
        "ready": t.ready,
        "setup": t.setup,
        "upload": t.upload,
        "command": t.compute,
        "download": t.download,
    }
    return ", ".join(f"{name} {s:.1f} s" for name, s in named.items() if s is not None) or "none began"


def _cost(result: RunResult) -> str:
    spends = [s for end in result.machines for s in end.spends]
    total = sum((s.usd for s in spends), start=type(spends[0].usd)(0)) if spends else 0
    seconds = sum(s.seconds for s in spends)
    return f"${total:.6f} by gipper's own count ({seconds:.0f} s rented); `gipper pod cost` has the rest"


def _proof(end: MachineEnd) -> str:
    if end.proof is None:
        return (
            f"machine {end.pod} ({end.provider}, {end.name}) is NOT proved gone and may still cost money; "
            "type: gipper pod reap"
        )
    first, second = (t.strftime("%H:%M:%S.%f")[:-3] for t in end.proof.listings)
    return f"machine {end.pod} ({end.provider}) gone: not listed at {first} and {second} UTC"


def _no_machine(result: RunResult) -> str:
    if result.doubt is not None:
        return f"machine: unknown; {result.doubt}"
    return "machine: none was rented"
