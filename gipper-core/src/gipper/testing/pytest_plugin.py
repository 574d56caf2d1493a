"""For pytest, switched on by `pytest_plugins = ["gipper.testing.pytest_plugin"]`: the report on the contract.

At the end of a run it says for each suite which sentences were proved, which a bench can't show and why, and
which are broken. `--gipper-report FILE` writes the same as JSON.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

Row = tuple[str, str, str, str, str]


def pytest_addoption(parser: Any) -> None:
    """Add `--gipper-report` and `--gipper-live`."""
    group = parser.getgroup("gipper", "the contract of gipper's providers")
    group.addoption("--gipper-report", metavar="FILE", help="write what was proved of the contract as JSON")
    group.addoption(
        "--gipper-live",
        metavar="USD_PER_HOUR",
        help="rent one real machine that costs at most so much, in every contract.LiveSuite",
    )


def pytest_configure(config: Any) -> None:
    """Begin with an empty record."""
    config.gipper_contract = []


def pytest_terminal_summary(terminalreporter: Any, config: Any) -> None:
    """Print the report."""
    rows: list[Row] = config.gipper_contract
    by_suite: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_suite[row[0]].append(row)
    for suite, found in sorted(by_suite.items()):
        terminalreporter.section(f"contract of {suite}")
        for line in report(found):
            terminalreporter.write_line(line)
    target = config.getoption("--gipper-report", default=None)
    if target:
        Path(target).write_text(json.dumps([_json(row) for row in rows], indent=1), encoding="utf-8")


def report(rows: list[Row]) -> list[str]:
    """The report on one suite, line by line."""
    proved = [row for row in rows if row[3] == "proved"]
    lines = [f"{len(proved)} of {len(rows)} sentences proved"]
    lines += [f"  broken       {row[1]}: {row[2]}" for row in rows if row[3] == "broken"]
    lines += [f"  not shown    {row[1]}: {row[2]} ({row[4]})" for row in rows if row[3] == "unsupported"]
    return lines


def _json(row: Row) -> dict[str, str]:
    return dict(zip(("suite", "id", "sentence", "verdict", "why"), row, strict=True))
