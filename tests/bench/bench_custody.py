"""The pass over the inputs before anything is rented, and the look at each file again while it is sent.

The pass reads, hashes, looks for provider keys and asks the rules for sensitive files; its yardstick is
`sha256sum` over the same files, in a process of its own as well. Everything lies in memory and was read
before. Sending needs no machine here: the tar stream goes nowhere, so that what is measured is our own work
and the upload's share of it can only look too big.

    python tests/bench/bench_custody.py [SHARE]    # SHARE of the data, 1 by default
"""

from __future__ import annotations

import hashlib
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
Row = tuple[str, float, float]
ROUNDS = 5
LARGE = 2.5
SMALL = 6.0
AGAIN = 1.05
KEYS = {f"MARKET_{n}_API_KEY": hashlib.sha256(f"key {n}".encode()).hexdigest()[:40] for n in range(3)}


def make_data(top: Path, share: float) -> None:
    """One file of 1 GiB; 10,000 files of 4 KiB in 100 folders, half of them text."""
    draw = random.Random(1)
    (top / "large").mkdir(parents=True)
    with (top / "large" / "f").open("wb") as file:
        for _ in range(max(1, int(1024 * share))):
            file.write(draw.randbytes(1 << 20))
    for n in range(int(10_000 * share)):
        path = top / "small" / f"d{n // 100:03}" / f"f{n % 100:03}"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = f"def step_{n}(x):\n    return x + {n}\n".encode() * 140
        path.write_bytes(text[:4096] if n % 2 else draw.randbytes(4096))


def surveyed(folder: Path) -> Any:
    """The pass as `pod run` makes it, with three providers' keys."""
    from gipper.builtin.sensitive import gipper_classify_upload
    from gipper.redact import KeyScanner
    from gipper.runtime import RealRuntime
    from gipper.transfer.inputs import survey
    from gipper.values.jobs import Input

    return survey(
        [Input(src=str(folder), dst=".")], folder, scanner=KeyScanner(KEYS).fresh,
        classify=gipper_classify_upload, progress=None, runtime=RealRuntime(),
    )  # fmt: skip


def timed_pass(folder: Path) -> float:
    """Seconds of the pass in a process of its own; its imports are every command's, and not counted."""
    done = subprocess.run([sys.executable, HERE, "worker", folder], check=True, stdout=subprocess.PIPE)
    return float(done.stdout)


def worker(folder: Path) -> None:
    """Print the seconds of one pass."""
    surveyed(HERE.parent / "nothing" if False else folder.parent / "warm-up")
    begun = time.perf_counter()
    surveyed(folder)
    print(time.perf_counter() - begun)


def sha256sum(folder: Path) -> float:
    """Seconds of coreutils over the same files."""
    begun = time.perf_counter()
    subprocess.run(
        f"find {folder} -type f -print0 | xargs -0 -n 100000 sha256sum > /dev/null", shell=True, check=True
    )
    return time.perf_counter() - begun


def race(*cases: Callable[[], float]) -> list[float]:
    """Medians of the cases, interleaved."""
    times: list[list[float]] = [[] for _ in cases]
    for turn in range(ROUNDS):
        for n in range(len(cases)):
            which = (n + turn) % len(cases)
            times[which].append(cases[which]())
    return [statistics.median(t) for t in times]


def streamed(manifest: Any, scanner: Any) -> float:
    """Seconds to make the whole tar stream, unchanged files not read for anything but sending."""
    from gipper.transfer.tarwrite import TarWriter

    begun = time.perf_counter()
    with Path(os.devnull).open("wb") as sink:
        for block in TarWriter(manifest, scanner=scanner).blocks():
            sink.write(block)
    return time.perf_counter() - begun


def main(share: float = 1.0) -> list[Row]:
    """All rows; `share` below 1 makes the data smaller and the figures rougher."""
    shm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shm if shm.is_dir() else None) as name:
        top = Path(name)
        make_data(top, share)
        (top / "warm-up").mkdir()
        (top / "warm-up" / "f").write_bytes(b"x")
        rows: list[Row] = []
        for what, limit in (("large", LARGE), ("small", SMALL)):
            ours, theirs = race(lambda w=what: timed_pass(top / w), lambda w=what: sha256sum(top / w))
            rows.append((f"the pass over {what} inputs against sha256sum", ours / theirs, limit))
        return rows


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(Path(sys.argv[2]))
    else:
        for what, figure, most in main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0):
            print(f"{what}: {figure:.2f} (at most {most:g})", flush=True)
