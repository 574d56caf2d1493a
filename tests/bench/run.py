"""Run the benchmarks: `python tests/bench/run.py [NAME...]`. Exits 1 if a yardstick is exceeded.

Each `bench_NAME.py` beside this file has `main() -> list[tuple[str, float, float]]`: what was measured,
the figure, and the most that it may be. Figures are ratios or differences to a yardstick that was
measured in the same run, or MiB.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

Row = tuple[str, float, float]


def run_one(path: Path) -> list[Row]:
    """The rows of one benchmark file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module.main()


def selected(names: list[str]) -> list[Path]:
    """The benchmark files that `names` ask for (all without names); an unknown name is an error."""
    files = {
        path.stem.removeprefix("bench_"): path for path in sorted(Path(__file__).parent.glob("bench_*.py"))
    }
    unknown = [name for name in names if name not in files]
    if unknown:
        raise SystemExit(f"no benchmark {', '.join(unknown)}; there are: {', '.join(files)}")
    return [files[name] for name in (names or files)]


def main(names: list[str]) -> int:
    """Run, print one line per figure as soon as it is known, and say how many are over."""
    over = 0
    for path in selected(names):
        for what, measured, limit in run_one(path):
            good = measured <= limit
            over += not good
            print(f"{'ok  ' if good else 'OVER'}  {measured:10.3f}  at most {limit:8.3f}  {what}", flush=True)
    print(f"{over} over" if over else "all within their yardsticks")
    return 1 if over else 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sys.exit(main(sys.argv[1:]))
