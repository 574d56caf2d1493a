"""The day's cap holds however many processes ask at once, and a running machine stays inside it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import attrs
import pytest
from support_fake import handle, services
from support_relay import wait_until

from gipper.errors import CapRefused
from gipper.lifecycle.book import KINDS, Book
from gipper.lifecycle.caps import Meter, intend
from gipper.lifecycle.proof import Rental
from gipper.lifecycle.services import Services
from gipper.testing import FakeMarket, SimRuntime
from gipper.values.receipts import PodCreate, PodIntent, PodTerminated, Spend, SpendBilled

CAP = Decimal("1.00")
PROCESSES, AT_ONCE = 50, 8
# One process: reserve, and every third gives its machine back for less than it reserved.
RENTER = """
import sys
import time
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from support_fake import services
from gipper.errors import CapRefused
from gipper.lifecycle.caps import intend
from gipper.runtime import RealRuntime
from gipper.values.receipts import PodCreate, PodIntent, PodTerminated, Spend

number, folder = int(sys.argv[1]), Path(sys.argv[2])
svc = services(folder, RealRuntime(), daily_cap_usd=Decimal("1.00"))
Path(f"{folder}.ready{number}").touch()
while not Path(f"{folder}.go{number // 8}").exists():
    time.sleep(0.0005)
run, now, pod = f"run{number}", svc.runtime.now(), f"m{number}"
name = f"gipper-{run}"
own = {"provider": "acme", "name": name}
try:
    intend(svc, PodIntent(
        **own, offer="o", attempt=1, end=now + timedelta(hours=1), usd_h=Decimal("0.000001"),
        reserved_usd=Decimal("0.03") + Decimal("0.01") * (number % 4),
    ), run=run, job="job")
except CapRefused as error:
    print("refused:", error.message)
    sys.exit(0)
svc.ledger.append(PodCreate(**own, pod=pod, usd_h=Decimal("0.000001")), run=run)
if number % 3 == 0:
    svc.ledger.append(PodTerminated(**own, pod=pod, described=now, listings=(now, now)), run=run)
    svc.ledger.append(Spend(
        provider="acme", pod=pod, usd=Decimal("0.02"), seconds=1.0, usd_h=Decimal("0.01"), basis="computed",
    ), run=run)
print("reserved")
"""


@pytest.mark.slow
def test_fifty_processes_never_pass_one_daily_cap(tmp_path: Path) -> None:
    """After each of their receipts, what is spent or reserved is within the cap; who is refused hears the
    sums, and nobody hangs."""
    script = tmp_path / "renter.py"
    script.write_text(RENTER)
    folder = tmp_path / "data"
    services(folder, SimRuntime())
    commands = [[sys.executable, str(script), str(n), str(folder)] for n in range(PROCESSES)]
    told = [said for first in range(0, PROCESSES, AT_ONCE) for said in _together(commands, first, folder)]
    refused = [t for t in told if t.startswith("refused:")]
    assert told.count("reserved") + len(refused) == PROCESSES, told
    assert refused
    assert all("$1.00" in t and "spent or reserved today" in t for t in refused)
    sums = list(_committed(folder))
    assert max(sums) <= CAP
    assert max(sums) > CAP * Decimal("0.9")


def _together(commands: Sequence[Sequence[str]], first: int, folder: Path) -> list[str]:
    """What `AT_ONCE` of them printed: all are up before any of them may ask."""
    path = os.pathsep.join([str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")])
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    batch = commands[first : first + AT_ONCE]
    running = [subprocess.Popen(c, text=True, env={"PYTHONPATH": path}, **pipes) for c in batch]
    try:
        ready = [Path(f"{folder}.ready{first + i}") for i in range(len(batch))]
        wait_until(lambda: all(f.exists() for f in ready), seconds=60, what="all are up")
    finally:
        Path(f"{folder}.go{first // AT_ONCE}").touch()
    ended = [process.communicate(timeout=60) for process in running]
    assert [p.returncode for p in running] == [0] * len(running), [err for _, err in ended]
    return [out.strip() for out, _ in ended]


def _committed(folder: Path) -> Iterator[Decimal]:
    """What counts against the cap after each receipt."""
    receipts = list(services(folder, SimRuntime()).ledger.read(kinds=KINDS))
    day = receipts[-1].ts
    for n in range(1, len(receipts) + 1):
        yield Book.of(receipts[:n]).committed(day, receipts[n - 1].ts)


@attrs.define
class Running:
    """A machine at $1/h, rented at the runtime's start with `reserved` for it."""

    svc: Services
    rental: Rental
    meter: Meter

    def after(self, **duration: float) -> str | None:
        """Let time go by, then tick."""
        self.svc.runtime.sleep(timedelta(**duration).total_seconds())
        return self.meter.tick()

    @property
    def book(self) -> Book:
        return Book.of(self.svc.ledger.read(kinds=KINDS))


def running(tmp_path: Path, reserved: str, cap: str, *, start: datetime | None = None) -> Running:
    runtime = SimRuntime(start) if start else SimRuntime()
    svc = services(tmp_path / "data", runtime, daily_cap_usd=Decimal(cap))
    provider = handle(FakeMarket(runtime), tmp_path / "p")
    rental = Rental(
        provider=provider, run="r", name="gipper-r", pod="m", usd_h=Decimal(1), since=runtime.now(), job="job"
    )
    end = runtime.now() + timedelta(hours=3)
    intend(svc, PodIntent(
        provider="acme", offer="o", name="gipper-r", attempt=1, end=end, usd_h=Decimal(1),
        reserved_usd=Decimal(reserved),
    ), run="r", job="job")  # fmt: skip
    svc.ledger.append(PodCreate(provider="acme", pod="m", name="gipper-r", usd_h=Decimal(1)), run="r")
    meter = Meter(svc, rental, Decimal(reserved), 600.0, end)
    return Running(svc, rental, meter)


def test_a_reservation_is_raised_before_it_is_used_up(tmp_path: Path) -> None:
    """With room in the day, the job goes on, and accrued plus the rest never passes what is reserved."""
    machine = running(tmp_path, "0.50", "5")
    rest = Decimal(1200) / 3600
    while machine.svc.runtime.monotonic() < 2.5 * 3600:
        assert machine.after(seconds=20) is None
        assert machine.meter.accrued() + rest <= machine.meter.reserved
    raised = [r["reserved_usd"] for r in machine.svc.ledger.read(kinds={"pod.reserve"})]
    assert raised == sorted(set(raised))
    assert len(raised) < 12
    assert machine.meter.reserved <= machine.meter.most()


def test_a_full_day_ends_the_job_only_when_the_reservation_is_used_up(tmp_path: Path) -> None:
    """Nothing can be raised: the job still gets all that is reserved, less collecting and teardown."""
    machine = running(tmp_path, "0.50", "0.50")
    used_up = (0.50 - 1200 / 3600) * 3600
    refusal = None
    while refusal is None:
        refusal = machine.after(seconds=5)
        assert machine.svc.runtime.monotonic() < used_up + 60
    assert machine.svc.runtime.monotonic() >= used_up - 5
    assert "the day's cap of $0.50" in refusal
    assert list(machine.svc.ledger.read(kinds={"pod.reserve"})) == []


def test_the_last_cents_of_the_day_are_taken(tmp_path: Path) -> None:
    """No room for half an hour more, but for some minutes: those are reserved, and the job ends later."""
    machine = running(tmp_path, "0.50", "0.60")
    while machine.after(seconds=5) is None:
        assert machine.svc.runtime.monotonic() < 3600
    assert Decimal("0.55") < machine.meter.reserved <= Decimal("0.60")


def test_reserve_all_is_the_most_or_a_refusal(tmp_path: Path) -> None:
    """Ten minutes past the machine's end at its price; with less room, nothing is changed."""
    machine = running(tmp_path / "a", "0.50", "5")
    machine.meter.reserve_all()
    assert machine.meter.reserved == machine.meter.most() == Decimal("3.166667")
    assert machine.book.pods["gipper-r"].reserved == machine.meter.most()
    small = running(tmp_path / "b", "0.50", "3")
    with pytest.raises(CapRefused, match=r"\$3\.17 for this run"):
        small.meter.reserve_all()
    assert small.meter.reserved == Decimal("0.50")
    assert small.book.pods["gipper-r"].reserved == Decimal("0.50")


def test_a_run_over_midnight_belongs_to_the_day_of_its_teardown(tmp_path: Path) -> None:
    """Open, it counts today, whichever day that is; ended, on the day of its end and on no other."""
    machine = running(tmp_path, "0.50", "5", start=datetime(2026, 3, 1, 23, 50, tzinfo=UTC))
    first = machine.svc.runtime.now()
    machine.after(hours=1)
    second = machine.svc.runtime.now()
    assert machine.book.committed(second, second) >= Decimal(1)
    own = {"provider": "acme", "pod": "m"}
    machine.svc.ledger.append(
        PodTerminated(**own, name="gipper-r", described=second, listings=(second, second)), run="r"
    )
    spend = Spend(**own, usd=Decimal(1), seconds=3600.0, usd_h=Decimal(1), basis="computed")
    machine.svc.ledger.append(spend, run="r")
    assert machine.book.committed(first, second) == 0
    assert machine.book.committed(second, second) == 1
    assert machine.book.committed(second + timedelta(days=1), second) == 0


@pytest.mark.parametrize(
    "bills", [("0.05",), ("0.05", "0.09"), ("0.05", "0.09", "0.07"), ("0.05", "0.09", "0.09")]
)
def test_d_074_bills_that_grow_count_once(tmp_path: Path, bills: tuple[str, ...]) -> None:
    """The fullest bill of a machine replaces what was computed and what was billed before."""
    machine = running(tmp_path, "0.50", "5")
    own = {"provider": "acme", "pod": "m"}
    now = machine.svc.runtime.now()
    machine.svc.ledger.append(
        PodTerminated(**own, name="gipper-r", described=now, listings=(now, now)), run="r"
    )
    spend = Spend(**own, usd=Decimal("0.04"), seconds=60.0, usd_h=Decimal(1), basis="computed")
    machine.svc.ledger.append(spend, run="r")
    for usd in bills:
        machine.svc.ledger.append(SpendBilled(**own, usd=Decimal(usd), detail={}, basis="itemised"), run="r")
    assert machine.book.committed(now, now) == Decimal(max(bills))
