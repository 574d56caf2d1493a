"""`gipper pod cost` over receipts."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from click.testing import CliRunner

from gipper.cli.cost import collect, cost, total
from gipper.ledger.store import SqliteLedger
from gipper.runtime import RealRuntime
from gipper.values.receipts import Owner, RunEnd, RunStart, Spend, SpendBilled

OWNER = Owner(host_id="h", boot_id="b", pid_ns="n", pid=1, start_ticks=1)
NOON = datetime(2026, 11, 10, 12, tzinfo=UTC)


class Clock(RealRuntime):
    """Real in all but the wall clock, which a test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.at = NOON

    def now(self) -> datetime:
        return self.at


class Books:
    """A ledger and short words for what is written into it."""

    def __init__(self, folder: Path) -> None:
        self.clock = Clock()
        self.ledger = SqliteLedger.open(folder, self.clock)

    def start(self, run: str, name: str = "train", workload: str | None = None) -> None:
        job = {"name": name, "workload": workload}
        payload = RunStart(job=job, owner=OWNER, client="0", plugins={})
        self.ledger.append(payload, run=run, refs={"name": name})

    def spend(self, run: str | None, pod: str, usd: str, *, provider: str = "acme", gpu: str = "L4") -> None:
        payload = Spend(
            provider=provider,
            pod=pod,
            usd=Decimal(usd),
            seconds=90.0,
            usd_h=Decimal("1"),
            basis="computed",
            gpu=gpu,
        )
        self.ledger.append(payload, run=run, refs={"name": f"{pod}-name"})

    def bill(self, run: str | None, pod: str, usd: str, *, provider: str = "acme") -> None:
        payload = SpendBilled(provider=provider, pod=pod, usd=Decimal(usd), detail={}, basis="bill")
        self.ledger.append(payload, run=run)

    def end(self, run: str, outcome: str = "succeeded") -> None:
        self.ledger.append(RunEnd(outcome=outcome, reason=""), run=run)

    def whole_run(self, run: str, usd: str, at: datetime = NOON) -> None:
        self.clock.at = at
        self.start(run)
        self.spend(run, f"{run}-pod", usd)
        self.end(run)


@pytest.fixture
def books(own_folders: Path) -> Iterator[Books]:
    """The ledger that the command reads."""
    made = Books(own_folders / "data")
    yield made
    made.ledger.close()


def _cost(*args: str) -> str:
    result = CliRunner().invoke(cost, [*args, *(() if "--since" in args else ("--since", "2026-11-01"))])
    assert result.exit_code == 0, result.output
    return result.stdout


def _json(*args: str) -> list[dict[str, object]]:
    return json.loads(_cost("--json", *args))


def test_one_job_one_line(books: Books) -> None:
    """A job's line has its run, name, minutes, computed and billed dollars and outcome."""
    books.whole_run("run1", "0.25")
    books.bill("run1", "run1-pod", "0.3")
    assert _json() == [
        {"job": "run1", "name": "train", "min": 1.5, "computed": 0.25, "billed": 0.3, "outcome": "succeeded"}
    ]


def test_not_billed_is_not_zero(books: Books) -> None:
    """What no bill is known for is unknown, and counts as computed in the total."""
    books.whole_run("run1", "0.25")
    assert _json()[0]["billed"] is None
    assert "total computed $0.2500; billed where known, else computed $0.2500" in _cost()


def test_total_takes_the_bill_where_known(books: Books) -> None:
    """Machine by machine: billed where known, else computed."""
    books.whole_run("run1", "0.25")
    books.spend("run1", "second", "1")
    books.bill("run1", "run1-pod", "0.5")
    whole = total(c for job in collect(books.ledger, NOON, None) for c in job.charges)
    assert (whole.computed, whole.billed, whole.actual) == (Decimal("1.25"), Decimal("0.5"), Decimal("1.5"))


def test_a_fuller_bill_replaces_the_last(books: Books) -> None:
    """Several bills for one machine are not added: the fullest counts."""
    books.whole_run("run1", "0.25")
    for usd in ("0.1", "0.4", "0.3"):
        books.bill("run1", "run1-pod", usd)
    assert _json()[0]["billed"] == 0.4


def test_equal_machine_ids_of_two_providers_are_two_machines(books: Books) -> None:
    """A bill belongs to the machine of its own provider."""
    books.start("run1")
    books.spend("run1", "7", "1", provider="acme")
    books.spend("run1", "7", "2", provider="emca")
    books.bill(None, "7", "5", provider="emca")
    rows = {r["provider"]: (r["computed"], r["billed"]) for r in _json("--by", "provider")}
    assert rows == {"acme": (1, None), "emca": (2, 5)}


def test_spend_without_a_job(books: Books) -> None:
    """Spend that no run is known for is shown under the machine's name and counts in the total."""
    books.spend(None, "pod9", "0.7")
    assert _json()[0]["name"] == "(no job) pod9-name"
    assert _json()[0]["job"] is None
    assert "(no job) pod9-name" in _cost()
    assert "computed $0.7000" in _cost()


def test_a_job_belongs_to_the_day_of_its_first_receipt(books: Books) -> None:
    """Spend and bills that come the next day count for the day on which the job began."""
    books.clock.at = datetime(2026, 11, 9, 23, 59, tzinfo=UTC)
    books.start("run1")
    books.clock.at = NOON
    books.spend("run1", "p", "1")
    books.bill("run1", "p", "2")
    assert [(r["day"], r["computed"], r["billed"]) for r in _json("--by", "day")] == [("2026-11-09", 1, 2)]
    assert _json("--since", "2026-11-09", "--until", "2026-11-10")[0]["billed"] == 2
    assert _json("--since", "2026-11-10") == []


def test_until_is_excluded(books: Books) -> None:
    """A window is from `since` up to, and without, `until`."""
    books.whole_run("run1", "1", at=datetime(2026, 11, 3, tzinfo=UTC))
    assert _json("--until", "2026-11-03") == []
    assert len(_json("--since", "2026-11-03", "--until", "2026-11-04")) == 1


def test_groups(books: Books) -> None:
    """By GPU and workload: jobs counted once each, dollars added."""
    books.start("run1", workload="w")
    books.spend("run1", "a", "1", gpu="L4")
    books.spend("run1", "b", "2", gpu="A100")
    books.start("run2", workload="w")
    books.spend("run2", "c", "4", gpu="L4")
    assert {r["gpu"]: (r["jobs"], r["computed"]) for r in _json("--by", "gpu")} == {
        "L4": (2, 5),
        "A100": (1, 2),
    }
    assert [(r["workload"], r["jobs"], r["computed"]) for r in _json("--by", "workload")] == [("w", 2, 7)]


def test_a_running_job_is_open(books: Books) -> None:
    """A run without an end is shown as open; what it costs isn't known, and that is no zero."""
    books.start("run1")
    assert (_json()[0]["outcome"], _json()[0]["computed"]) == ("open", None)


def test_csv_is_exact(books: Books) -> None:
    """CSV has every digit, quotes what must be quoted, and no total."""
    books.clock.at = NOON
    books.start("run1", name='a "b", c')
    books.spend("run1", "p", "0.123456")
    rows = list(csv.reader(io.StringIO(_cost("--csv"))))
    assert rows[0] == ["job", "name", "min", "computed", "billed", "outcome"]
    assert rows[1] == ["run1", 'a "b", c', "1.5", "0.123456", "", "open"]
    assert len(rows) == 2


def test_no_ledger_yet(own_folders: Path) -> None:
    """Before the first run there is nothing to show, nothing is made, and that is no error."""
    assert _json() == []
    assert not (own_folders / "data").exists()


def test_the_default_window_is_thirty_days(books: Books) -> None:
    """Without --since, the last 30 days."""
    now = RealRuntime().now()
    books.whole_run("old", "1", at=now - timedelta(days=31))
    books.whole_run("new", "1", at=now - timedelta(days=29))
    result = CliRunner().invoke(cost, ["--json"])
    assert [r["job"] for r in json.loads(result.stdout)] == ["new"]
