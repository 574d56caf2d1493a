"""History over a ledger of a million receipts: the first summary, what it adds to planning, memory."""

from __future__ import annotations

import os
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from bench_planning import market, offers

from gipper.cost_history import Direction, NoHistory, Sourced
from gipper.history import LedgerHistory, open_history
from gipper.history_file import NAME
from gipper.ledger import files, head, schema
from gipper.ledger.chain import GENESIS, Draft, Row, digest, draft
from gipper.ledger.store import SqliteLedger
from gipper.planning import plan
from gipper.runtime import RealRuntime
from gipper.values import receipts as r
from gipper.values.estimates import PHASES
from gipper.values.jobs import Budget, GpuWants, Job, RunTable
from gipper.values.settings import Settings

RECEIPTS = 1_000_000
DAYS = 365
# Machines that were rented; the market's are h0 to h14999, so that a third of these are on offer again.
HOSTS = 300
APART = 150
REPEATS = 9
FIRST_S = 15.0
SHARE = 1.2
PEAK_MIB = 200.0
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)

_PEAK = """
import resource, sys
from pathlib import Path
sys.path.insert(0, {here!r})
import bench_history
bench_history.opened(Path({folder!r}))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
_ESTIMATE = """
import sys
from pathlib import Path
sys.path.insert(0, {here!r})
import bench_history
print(bench_history.estimating({folder}))
"""


class Told(NoHistory):
    """Answers that cost nothing to look up. Links are alike, as measured ones are: offers then tie, and
    ranking has as much to do as with a history that was learnt."""

    def link_mbps(self, _provider: str, _host: str | None, _region: str | None, _way: Direction) -> Sourced:
        return Sourced(100.0, "told")


def life() -> list[Draft]:
    """The receipts of one ordinary run; RUN, POD, HOST and WORK stand for what differs."""
    pod = {"provider": "acme", "pod": "POD"}
    end, some = NOW + timedelta(hours=1), Decimal("0.4")
    phases = dict.fromkeys(PHASES, 60.0)
    told = {
        "phases_s": phases, "wall_s": 360.0, "usd": 0.04, "basis": dict.fromkeys(PHASES, "history: 5 runs"),
        "adjustments": [], "interval": {"wall_s": [300.0, 450.0], "usd": [0.03, 0.05], "thin": False},
        "assumptions": ["no download: placement.download_gb is not set"] * 3,
        **{f"flat_name_{i}": 123.456 for i in range(30)},
    }  # fmt: skip
    owner = r.Owner(host_id="h", boot_id="b" * 36, pid_ns="n", pid=1, start_ticks=1)
    job = {"name": "bench", "workload": "WORK", "gpu": {"min_mem_gb": 24}, "run": {"command": "true " * 20}}
    spent = r.Spend(**pod, usd=Decimal("0.04"), seconds=370.0, usd_h=some, basis="computed", gpu="RTX 4090")
    actual = {**phases, "wall_s": 370.0, "usd": 0.041}
    intent = r.PodIntent(
        provider="acme", offer="o", name="NAME", attempt=1, end=end, usd_h=some, reserved_usd=some,
        gpu="RTX 4090", gpu_count=1, host_id="HOST", region="US",
    )  # fmt: skip
    payloads = [
        r.RunStart(job=job, owner=owner, client="gipper-core 0", plugins={"acme": "gipper-acme 1"}),
        r.EstimateReceipt(provider="acme", offer="o", estimate=told, seen=400, left_out={"memory": 100}),
        intent,
        r.PodCreate(**pod, name="NAME", usd_h=some, host_id="HOST"),
        r.PodReady(**pod, seconds=61.0, address="1.2.3.4", port=22, host_key="SHA256:" + "k" * 43),
        *(r.Preflight(**pod, check=c, verdict="passed", seconds=0.1, facts={"n": 1}) for c in "abcde"),
        r.WatchdogArmed(**pod, how="shell", until=end),
        r.CustodyUpload(**pod, files=tuple((f"f{i}", 10**6, "0" * 64, 420, None) for i in range(5)), bytes=5 * 10**6),
        r.JobStart(**pod, folder="~/gipper/RUN", limit_s=3600.0),
        r.JobEnd(**pod, exit_code=0, signal=None, timed_out=False, seconds=60.0),
        r.Sync(**pod, what="out", bytes=10**8, seconds=4.0, whole=True, files=(("a", 10**8, "0" * 64),)),
        r.PodTerminate(**pod, name="NAME", why="the run is over", answer="accepted", answered=NOW),
        r.PodTerminated(**pod, name="NAME", described=NOW, listings=(NOW, NOW)),
        spent,
        r.RunEnd(outcome="succeeded", reason="", **pod, predicted={**phases, "wall_s": 360.0, "usd": 0.04}, actual=actual),
        r.SpendBilled(**pod, usd=Decimal("0.043"), detail={"gpu": Decimal("0.042")}, basis="billed"),
    ]  # fmt: skip
    return [draft(payload, "RUN", {"name": "bench"}, NOW) for payload in payloads]


def rows(count: int) -> Iterator[Row]:
    """`count` receipts of ordinary runs over a year, as a whole chain."""
    rng, prev, parts = random.Random(3), GENESIS, life()
    step = timedelta(days=DAYS) / count
    for seq in range(1, count + 1):
        number, part = divmod(seq - 1, len(parts))
        if part == 0:
            host, work = f"h{rng.randrange(HOSTS) * APART}", f"w{number % 40}"
            slow = f"{rng.uniform(30, 90):.3f}"
        item = parts[part]
        payload = item.payload.replace("POD", f"p-{number:08d}").replace("HOST", host).replace("WORK", work)
        payload = payload.replace("NAME", f"gipper-bench-{number:08d}").replace("61.0", slow)
        stamp = r.stamp(NOW - timedelta(days=DAYS) + step * seq)
        row = Row(seq, f"{seq:032x}", stamp, item.kind, f"r{number:09d}", item.refs, payload, prev)
        prev = digest(row)
        yield row


def fill(folder: Path, count: int = RECEIPTS) -> None:
    """A ledger of `count` receipts in `folder`, written in one go."""
    path = folder / files.file_name(1)
    files.create_private(path)
    conn = sqlite3.connect(path, isolation_level=None)
    conn.execute("PRAGMA journal_mode = WAL")
    conn.execute("PRAGMA synchronous = OFF")
    schema.create(conn, 0)
    trigger = conn.execute("SELECT sql FROM sqlite_master WHERE name = 'in_order'").fetchone()[0]
    conn.execute("DROP TRIGGER in_order")
    conn.execute("BEGIN")
    last: list[Row] = []

    def noted() -> Iterator[Row]:
        for row in rows(count):
            last[:] = [row]
            yield row

    conn.executemany(schema.INSERT, noted())
    conn.execute("COMMIT")
    conn.execute(trigger)
    conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    conn.close()
    head.write(folder, head.Head(last[0].seq, digest(last[0])))


def opened(folder: Path) -> LedgerHistory:
    """What a planning command does to learn, the ledger's opening included."""
    ledger = SqliteLedger.open(folder, RealRuntime(), writable=False)
    try:
        return open_history(ledger, folder, now=NOW, days=90)
    finally:
        ledger.close()


def estimating(folder: Path | None) -> float:
    """CPU seconds of this process as `pod estimate` would need them: start-up, lessons, planning.

    Without a folder nothing is learnt. What it takes to make up the market is left out.
    """
    begun = time.process_time()
    acme, runtime = market(offers()), RealRuntime()
    made_up = time.process_time() - begun
    job = Job(
        name="bench", workload="w1", run=RunTable(command="true"), folder=Path("/"),
        gpu=GpuWants(min_mem_gb=24, prefer=("H100", "RTX 4090")), budget=Budget(max_usd=Decimal(50)),
    )  # fmt: skip
    history = Told() if folder is None else opened(folder)
    found = plan(job, [acme], settings=Settings(), history=history, upload_bytes=10**9, runtime=runtime)
    assert found.ranked[0].estimate.usd > 0
    return time.process_time() - made_up


def main(count: int = RECEIPTS) -> list[tuple[str, float, float]]:
    """(what, measured, largest allowed)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(folder, count)
        peak = _child(_PEAK, str(folder))
        (folder / NAME).unlink()
        first = _seconds(lambda: opened(folder))
        ratio = _share(folder)
    what = f"{count:,} receipts"
    return [
        (f"first summary of {what}, CPU seconds", first, FIRST_S),
        (f"first summary of {what}, peak MiB of a process", peak, PEAK_MIB),
        (f"estimate among 30,000 offers, start-up included, with history of {what} / without", ratio, SHARE),
    ]


def _child(code: str, folder: object) -> float:
    """What a fresh interpreter prints."""
    text = code.format(here=os.path.dirname(os.path.abspath(__file__)), folder=folder)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    return float(done.stdout)


def _share(folder: Path) -> float:
    """With a history over without, side by side."""
    pairs = [(_child(_ESTIMATE, f"Path({str(folder)!r})"), _child(_ESTIMATE, None)) for _ in range(REPEATS)]
    return statistics.median(learnt / without for learnt, without in pairs)


def _seconds(work: Callable[[], object]) -> float:
    # CPU time of all threads: a busy machine must not decide.
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    for text, measured, allowed in main():
        print(f"{text}: {measured:.3f} (at most {allowed:g})")
