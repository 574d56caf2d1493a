"""A whole run of `true` on `local` against the same job by hand over OpenSSH: the difference in seconds."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support_sshd import Sshd

ROUNDS = 5
LIMIT_S = 3.0
JOB = """
name = "true"
[gpu]
count = 0
providers = ["local"]
[[inputs]]
src = "in.txt"
[[outputs]]
src = "out"
[run]
command = "mkdir out; true"
"""


def main() -> list[tuple[str, float, float]]:
    """(what, seconds over the job by hand, most seconds)."""
    with tempfile.TemporaryDirectory() as name, Sshd(Path(name) / "sshd") as sshd:
        folder = Path(name) / "job"
        folder.mkdir()
        (folder / "in.txt").write_text("x")
        (folder / "job.toml").write_text(JOB)
        pairs = [(_gipper(folder), _by_hand(folder, sshd)) for _ in range(ROUNDS)]
    over = statistics.median(a for a, _ in pairs) - statistics.median(b for _, b in pairs)
    return [("a whole local run of `true`, seconds over the job by hand", over, LIMIT_S)]


def _gipper(folder: Path) -> float:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    command = [str(Path(sys.executable).with_name("gipper")), "pod", "run", "job.toml"]
    return _timed(command, folder, env)


def _by_hand(folder: Path, sshd: Sshd) -> float:
    ssh = " ".join(["ssh", *sshd.ssh_options(), f"{sshd.user}@{sshd.host}"])
    work = f"hand-{time.monotonic_ns()}"
    script = (
        f"set -e; {ssh} mkdir {work}; tar c in.txt | {ssh} tar x -C {work}; "
        f"{ssh} 'cd {work} && mkdir out && true'; {ssh} tar c -C {work} out | tar x; {ssh} rm -r {work}"
    )
    taken = _timed(["sh", "-c", script], folder, dict(os.environ))
    shutil.rmtree(folder / "out", ignore_errors=True)
    return taken


def _timed(command: list[str], folder: Path, env: dict[str, str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True)
    return time.perf_counter() - begun


if __name__ == "__main__":
    for what, measured, limit in main():
        print(f"{what}: {measured:.2f} (at most {limit})")
