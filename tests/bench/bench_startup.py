"""Start-up of the installed command against `python -c "import click"`, interleaved, and its memory."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 15
RATIO_LIMIT = 1.6
MEMORY_LIMIT_MIB = 22.0


def _once(command: list[str]) -> tuple[float, float]:
    """Wall seconds and peak MiB of one run."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return time.perf_counter() - started, usage.ru_maxrss / 1024


def main() -> list[tuple[str, float, float]]:
    """Ratios of medians of wall time, and peak memory in MiB."""
    script = str(Path(sys.executable).parent / "gipper")
    commands = {
        "click": [sys.executable, "-c", "import click"],
        "--version": [script, "--version"],
        "--help": [script, "--help"],
    }
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            seen[name].append(_once(command))
    medians = {name: statistics.median(wall for wall, _ in runs) for name, runs in seen.items()}
    rows = []
    for name in ("--version", "--help"):
        rows.append((f"gipper {name}: wall / import click", medians[name] / medians["click"], RATIO_LIMIT))
        peak = max(memory for _, memory in seen[name])
        rows.append((f"gipper {name}: peak memory, MiB", peak, MEMORY_LIMIT_MIB))
    return rows
