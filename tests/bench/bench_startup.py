"""Start-up of the installed command against `python -c "import click"`, interleaved, and its memory."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 15
RATIO_LIMIT = 1.6
MEMORY_LIMIT_MIB = 22.0


_PEAK = """
import os, sys
silent = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=silent)
print(os.wait4(pid, 0)[2].ru_maxrss)
"""


def _wall(command: list[str]) -> float:
    """Seconds of one run."""
    started = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def _peak(command: list[str]) -> float:
    """Peak MiB of one run. A fork inherits its parent's peak, so a small process stands in between."""
    done = subprocess.run([sys.executable, "-c", _PEAK, *command], capture_output=True, text=True, check=True)
    return int(done.stdout) / 1024


def main() -> list[tuple[str, float, float]]:
    """Ratios of medians of wall time, and peak memory in MiB."""
    script = str(Path(sys.executable).parent / "gipper")
    commands = {
        "click": [sys.executable, "-c", "import click"],
        "--version": [script, "--version"],
        "--help": [script, "--help"],
    }
    seen: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            seen[name].append(_wall(command))
    medians = {name: statistics.median(runs) for name, runs in seen.items()}
    rows = []
    for name in ("--version", "--help"):
        rows.append((f"gipper {name}: wall / import click", medians[name] / medians["click"], RATIO_LIMIT))
        rows.append((f"gipper {name}: peak memory, MiB", _peak(commands[name]), MEMORY_LIMIT_MIB))
    return rows
