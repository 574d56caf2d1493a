"""What choosing on the whole run saves: against the cheapest hour, and against knowing everything.

200 jobs on each of 20 markets. Figures are dollars and waiting of gipper's choice over the yardstick's.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from support_crowd import World, covered

MARKETS = 20
JOBS = 200
FIRST_RUNS = 30


def totals(markets: int = MARKETS, jobs: int = JOBS) -> tuple[float, float, float]:
    """Dollars and waiting of (gipper, the cheapest hour, an oracle) over all markets."""
    gipper = cheapest = oracle = 0.0
    for seed in range(markets):
        world = World(seed)
        for number in range(jobs):
            gipper += world.gipper(number)
            cheapest += world.cheapest(number)
            oracle += world.oracle(number)
    return gipper, cheapest, oracle


def coverage(markets: int = MARKETS, jobs: int = JOBS) -> tuple[float, float]:
    """Shares of wall times and of dollars inside their 80 % interval, after the first runs of each market."""
    graded = []
    for seed in range(markets):
        world = World(1000 + seed, knows=False)
        for number in range(jobs):
            world.gipper(number)
        graded += world.graded[FIRST_RUNS:]
    return covered(graded)


def main() -> list[tuple[str, float, float]]:
    """(name, measured, largest allowed)."""
    gipper, cheapest, oracle = totals()
    time, usd = coverage()
    return [
        ("dollars and waiting / choosing the cheapest hour", gipper / cheapest, 0.75),
        ("dollars and waiting / an oracle", gipper / oracle, 1.25),
        ("wall times inside their 80 % interval, off by", abs(time - 0.80), 0.05),
        ("dollars inside their 80 % interval, off by", abs(usd - 0.80), 0.05),
    ]


if __name__ == "__main__":
    for name, measured, allowed in main():
        print(f"{name}: {measured:.3f} (at most {allowed:g})")
