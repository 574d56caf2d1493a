"""Offers planned a second: SkyPilot's optimizer against gipper, each over invented offers in memory.

SkyPilot gets an environment of its own, `.nox/skypilot`, made at the first run (a minute), or the interpreter
that `SKYPILOT_PYTHON` names. It plans over 1,000 offers, gipper over 30,000: SkyPilot's time grows with the
square of their number, so the smaller number is its better one. Not run in CI.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench_planning import OFFERS, planner

THEIR_OFFERS = 1_000
REPEATS = 3
AT_MOST = 1 / 20
PLACE = Path(__file__).resolve().parents[2] / ".nox" / "skypilot"
# One model in as many regions as there are offers, all prices different; the last line is the seconds.
SCRIPT = """
import csv, random, sys, time
from pathlib import Path
from sky.skylet import constants

count = int(sys.argv[1])
catalogs = Path.home() / ".sky" / "catalogs" / constants.CATALOG_SCHEMA_VERSION
for name in ("lambda", "common"):
    (catalogs / name).mkdir(parents=True)
rng = random.Random(7)
with (catalogs / "lambda" / "vms.csv").open("w", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(("InstanceType", "AcceleratorName", "AcceleratorCount", "vCPUs", "MemoryGiB", "Price",
                   "Region", "GpuInfo", "SpotPrice"))
    for i in range(count):
        rows.writerow(("one", "RTX4090", 1.0, 8.0, 64.0, rng.uniform(0.1, 4), f"r{i:06d}",
                       "{'Gpus': [{'Name': 'RTX4090'}]}", ""))
(catalogs / "common" / "accelerators.csv").write_text('AcceleratorName,Clouds\\nRTX4090,"[\\'Lambda\\']"\\n')

import sky
from sky import check, clouds, optimizer

cloud = clouds.Lambda()
check.get_cached_enabled_clouds_or_refresh = lambda *_given, **_named: [cloud]


def seconds():
    with sky.Dag() as dag:
        task = sky.Task(run="true")
        task.set_resources(sky.Resources(cloud=cloud, accelerators="RTX4090:1"))
        task.set_time_estimator(lambda _resources: 1800)
    start = time.process_time()
    optimizer.Optimizer.optimize(dag, quiet=True)
    return time.process_time() - start


seconds()
print(seconds())
"""


def main() -> list[tuple[str, float, float]]:
    """(name, measured, largest allowed); nothing in CI."""
    if os.environ.get("CI"):
        return []
    theirs = THEIR_OFFERS / min(_their_seconds() for _ in range(REPEATS))
    planned, ours = planner(), []
    for _ in range(REPEATS):
        start = time.process_time()
        planned()
        ours.append(OFFERS / (time.process_time() - start))
    return [("offers a second, SkyPilot / gipper", theirs / min(ours), AT_MOST)]


def _their_seconds() -> float:
    with tempfile.TemporaryDirectory() as home:
        env = {"PATH": os.environ["PATH"], "HOME": home, "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"}
        done = subprocess.run(
            [_interpreter(), "-c", SCRIPT, str(THEIR_OFFERS)], env=env, capture_output=True, text=True,
            check=True, timeout=300,
        )  # fmt: skip
    return float(done.stdout.split()[-1])


def _interpreter() -> str:
    given, own = os.environ.get("SKYPILOT_PYTHON"), PLACE / "bin" / "python"
    if given:
        return given
    if not (PLACE / "made").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(PLACE)], check=True)
        subprocess.run([str(own), "-m", "pip", "install", "-q", "skypilot==0.14.1"], check=True)
        (PLACE / "made").touch()
    return str(own)


if __name__ == "__main__":
    for name, measured, allowed in main():
        print(f"{name}: {measured:.4f} (at most {allowed:g})")
