"""What each receipt adds to the summary. Pure; receipts are folded once, in their order."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from gipper.gpus import model_name
from gipper.history_grading import grade, prediction
from gipper.history_rentals import Ending, Verdict
from gipper.history_summary import Summary, machine_key
from gipper.values.receipts import (
    CustodyUpload,
    EstimateReceipt,
    JobStart,
    PodCreate,
    PodIntent,
    PodReady,
    PodReappeared,
    PodTerminate,
    PodTerminated,
    Receipt,
    RunEnd,
    RunStart,
    Spend,
    SpendBilled,
    Sync,
)

# A transfer of less tells more of its start than of the link.
LEAST_MB: Final = 8.0
_MBIT: Final = 8 / 1e6
_REASON: Final = 300


def fold(summary: Summary, receipt: Receipt) -> None:
    """Add `receipt`. One whose content is not as this gipper knows it teaches nothing."""
    handler = _HANDLERS.get(receipt.kind)
    if handler is None:
        return
    try:
        handler(summary, receipt)
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError):
        return


def _run_start(s: Summary, r: Receipt) -> None:
    job = r.payload["job"]
    workload = job.get("workload") or job.get("name") or r.refs.get("name")
    s.runs[r.run or ""] = {"workload": None if workload is None else str(workload)}


def _run(s: Summary, r: Receipt) -> dict[str, Any]:
    return s.runs.setdefault(r.run or "", {})


def _estimate(s: Summary, r: Receipt) -> None:
    _run(s, r)["predicted"] = prediction(r.payload["estimate"])


def _intent(s: Summary, r: Receipt) -> None:
    asked = {key: r.payload.get(key) for key in ("host_id", "region", "gpu")}
    _run(s, r).setdefault("intents", {})[r.payload["name"]] = asked


def _create(s: Summary, r: Receipt) -> None:
    key, mark = machine_key(r.payload["provider"], r.payload["pod"]), _mark(r.payload["name"])
    if key in s.machines and s.rentals.ids["name"][s.machines[key]] == mark:
        return
    run = s.runs.get(r.run or "", {})
    asked = run.get("intents", {}).get(r.payload["name"], {})
    row = s.machines[key] = s.rentals.add()
    s.rentals.ids["name"][row] = mark
    gpu = asked.get("gpu")
    _name(s, row, "provider", r.payload["provider"])
    _name(s, row, "host", r.payload.get("host_id") or asked.get("host_id"))
    _name(s, row, "region", asked.get("region"))
    _name(s, row, "gpu", gpu)
    s.rentals.ids["model"][row] = _model(s, gpu)
    _name(s, row, "workload", run.get("workload"))
    s.rentals.numbers["at"][row] = r.ts.timestamp()
    _take_prediction(s, row, run, r.payload["pod"])


def _model(s: Summary, gpu: str | None) -> int:
    if gpu not in s.models:
        s.models[gpu] = s.names.number("cpu" if gpu is None else model_name(gpu))
    return s.models[gpu]


def _mark(name: str) -> int:
    # Enough to tell a machine from a later one whose market gave it the same id.
    return zlib.crc32(name.encode("utf-8", "backslashreplace")) >> 1


def _take_prediction(s: Summary, row: int, run: dict[str, Any], pod: str) -> None:
    # The estimate that stands before a machine's creation is the one of its offer.
    told = run.pop("predicted", None)
    if told is not None:
        s.rentals.numbers["factor"][row], s.rentals.numbers["extra"][row] = told["factor"], told["extra"]
        run.setdefault("forecasts", {})[pod] = told


def _name(s: Summary, row: int, column: str, text: str | None) -> None:
    s.rentals.ids[column][row] = s.names.number(text)


def _row(s: Summary, r: Receipt) -> int:
    return s.machines[machine_key(r.payload["provider"], r.payload["pod"])]


def _ready(s: Summary, r: Receipt) -> None:
    # A client that takes a run over is let in again, and tells nothing of the boot.
    known, row = s.rentals.numbers["ready"], _row(s, r)
    if math.isnan(known[row]):
        known[row] = float(r.payload["seconds"])
    # Some markets tell which host it is only once the machine runs.
    if r.payload.get("host_id"):
        _name(s, row, "host", r.payload["host_id"])


def _custody(s: Summary, r: Receipt) -> None:
    s.rentals.numbers["sent_mb"][_row(s, r)] += r.payload["bytes"] * _MBIT


def _sync(s: Summary, r: Receipt) -> None:
    _measured(s, _row(s, r), "up", r.payload["bytes"] * _MBIT, float(r.payload["seconds"]))


def _measured(s: Summary, row: int, column: str, megabits: float, seconds: float) -> None:
    if megabits >= LEAST_MB and seconds > 0:
        s.rentals.numbers[f"{column}_mb"][row] += megabits
        s.rentals.numbers[f"{column}_s"][row] += seconds


def _job_start(s: Summary, r: Receipt) -> None:
    verdict, row = s.rentals.ids["verdict"], _row(s, r)
    verdict[row] = verdict[row] or Verdict.GOOD


def _terminate(s: Summary, r: Receipt) -> None:
    row = _row(s, r)
    s.rentals.ids["ending"][row] = Ending.ASKED
    if r.payload.get("blame") == "host":
        s.rentals.ids["verdict"][row] = Verdict.BAD
        _name(s, row, "reason", str(r.payload["why"])[:_REASON])


def _terminated(s: Summary, r: Receipt) -> None:
    s.rentals.ids["ending"][_row(s, r)] = Ending.PROVED


def _reappeared(s: Summary, r: Receipt) -> None:
    s.rentals.ids["ending"][_row(s, r)] = Ending.ASKED


def _spend(s: Summary, r: Receipt) -> None:
    n, row = s.rentals.numbers, _row(s, r)
    n["seconds"][row] = float(r.payload["seconds"])
    n["computed"][row] = float(r.payload["usd"]) * n["factor"][row] + n["extra"][row]


def _billed(s: Summary, r: Receipt) -> None:
    # Each bill of a machine is fuller than the one before; a smaller one saw less of it.
    n, row, usd = s.rentals.numbers, _row(s, r), float(r.payload["usd"])
    if not usd <= n["paid"][row]:
        n["paid"][row] = usd
        n["billed"][row] = usd - float(r.payload["detail"].get("bandwidth", 0))


def _run_end(s: Summary, r: Receipt) -> None:
    run = s.runs.pop(r.run or "", {})
    actual, pod = r.payload.get("actual"), r.payload.get("pod")
    if actual is None or pod is None:
        return
    row = _row(s, r)
    if actual.get("upload"):
        _measured(s, row, "down", s.rentals.numbers["sent_mb"][row], float(actual["upload"]))
    if r.payload["outcome"] == "succeeded":
        if actual.get("compute") is not None:
            s.rentals.numbers["compute"][row] = float(actual["compute"])
        grade(s.rentals, row, run.get("forecasts", {}).get(pod), r.payload.get("predicted"), actual)


_HANDLERS: Final[Mapping[str, Callable[[Summary, Receipt], None]]] = {
    RunStart.kind: _run_start,
    EstimateReceipt.kind: _estimate,
    PodIntent.kind: _intent,
    PodCreate.kind: _create,
    PodReady.kind: _ready,
    CustodyUpload.kind: _custody,
    JobStart.kind: _job_start,
    Sync.kind: _sync,
    PodTerminate.kind: _terminate,
    PodTerminated.kind: _terminated,
    PodReappeared.kind: _reappeared,
    Spend.kind: _spend,
    SpendBilled.kind: _billed,
    RunEnd.kind: _run_end,
}
KINDS: Final = frozenset(_HANDLERS)
