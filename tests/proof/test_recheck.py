"""A machine that was proved gone is looked for once more; one that is back is ended, and told."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import attrs
import pytest
from support_fake import handle, kinds, services

from gipper.installation import this_host
from gipper.lifecycle.book import KINDS, Book
from gipper.lifecycle.reaper import Reaper, ReapResult
from gipper.lifecycle.services import Services
from gipper.lifecycle.verdicts import Sight, rechecks, verdicts
from gipper.naming import MachineName, round_up_to_minute
from gipper.testing import FakeMarket, SimRuntime
from gipper.values.machines import Machine, MachineState
from gipper.values.receipts import Owner, PodCreate, PodIntent, RunEnd, RunStart

INST = "00000"
RUN = "0000000000"
AFTER = timedelta(seconds=300)


@attrs.define
class Stage:
    """A run whose machine was ended by a reaper, and a reaper on demand."""

    tmp_path: Path
    market: FakeMarket
    services: Services
    name: str
    pod: str = ""

    def reaper(self, **options: bool) -> Reaper:
        provider = handle(self.market, self.tmp_path / "p")
        return Reaper(self.services, [provider], INST, self.tmp_path / "data", **options)

    def reap(self, **options: bool) -> ReapResult:
        return self.reaper(**options).run()

    def wait(self, seconds: float) -> None:
        self.market.runtime.sleep(seconds)

    def count(self, kind: str) -> int:
        return kinds(self.services).count(kind)

    def revive(self, pod: str) -> None:
        self.market.machines[pod].ended = None

    @property
    def listings(self) -> int:
        return sum(verb == "list_ours" for verb, _ in self.market.calls)

    @property
    def book(self) -> Book:
        return Book.of(self.services.ledger.read(kinds=KINDS))


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """The machine is proved gone and its run has ended."""
    runtime = SimRuntime()
    svc = services(tmp_path / "data", runtime)
    end = round_up_to_minute(runtime.now() + timedelta(minutes=10))
    name = str(MachineName(inst=INST, run=RUN, attempt=1, end=end))
    made = Stage(tmp_path, FakeMarket(runtime), svc, name)
    made.pod = _created(made, end)
    runtime.sleep(601)
    assert [line.verb for line in made.reap().lines] == ["ended"]
    return made


def _created(stage: Stage, end: datetime) -> str:
    host = this_host()
    owner = Owner(host_id=host.host_id, boot_id="another", pid_ns=host.pid_ns, pid=1, start_ticks=1)
    ledger, refs = stage.services.ledger, {"name": "job"}
    ledger.append(RunStart(job={"name": "job"}, owner=owner, client="test", plugins={}), run=RUN, refs=refs)
    intent = PodIntent(
        provider="acme", offer="o1", name=stage.name, attempt=1, end=end, usd_h=Decimal("0.40"),
        reserved_usd=Decimal("0.50"), appear_s=5.0,
    )  # fmt: skip
    ledger.append(intent, run=RUN, refs=refs)
    machine = stage.market.create(stage.name, Decimal("0.40"))
    created = PodCreate(provider="acme", pod=machine.id, name=stage.name, usd_h=Decimal("0.40"))
    ledger.append(created, run=RUN, refs=refs)
    ledger.append(RunEnd(outcome="succeeded", reason="exit code 0"), run=RUN, refs=refs)
    return machine.id


def test_not_before_its_time(stage: Stage) -> None:
    """Within `recheck_after` of the proof nothing is looked up again on purpose."""
    stage.wait(290)
    assert stage.reap().lines == ()
    assert stage.count("pod.recheck") == 0


def test_once_for_each_proof(stage: Stage) -> None:
    """The first pass that is late enough leaves one receipt, later ones none; nothing else is told."""
    stage.wait(301)
    for _ in range(3):
        result = stage.reap()
        assert result == ReapResult(lines=())
        stage.wait(900)
    assert stage.count("pod.recheck") == 1
    assert stage.count("reap") == 1
    (receipt,) = stage.services.ledger.read(kinds={"pod.recheck"})
    assert (receipt.run, receipt["provider"], receipt["pod"]) == (RUN, "acme", stage.pod)


def test_a_dry_run_and_a_failed_listing_prove_nothing(stage: Stage) -> None:
    """Neither leaves a receipt."""
    stage.wait(301)
    stage.reap(dry_run=True)
    stage.market.script("list_ours", "cut_short")
    assert stage.reap().failed == ("acme",)
    assert stage.count("pod.recheck") == 0


def test_a_machine_that_is_back_is_ended_and_told_although_its_run_succeeded(stage: Stage) -> None:
    """Listed again: a receipt, ended, proved again, and this pass exits 5; the next one is content."""
    stage.wait(301)
    stage.revive(stage.pod)
    result = stage.reap()
    assert [line.verb for line in result.lines] == ["ended"]
    assert result.reappeared == result.unproved == (stage.pod,)
    assert stage.market.alive() == []
    told = [k for k in kinds(stage.services) if k.startswith("pod.") or k == "spend"]
    assert told[-3:] == ["pod.reappeared", "pod.terminate", "pod.terminated"]
    assert stage.count("spend") == 1
    assert stage.reap() == ReapResult(lines=())
    stage.wait(301)
    assert stage.reap() == ReapResult(lines=())
    assert stage.count("pod.recheck") == 1


def test_a_machine_that_is_back_and_stays_is_told_by_every_pass(stage: Stage) -> None:
    """It can't be ended: each pass retries, and each says so."""
    stage.revive(stage.pod)
    stage.market.script("terminate", "ignored", forever=True)
    assert stage.reap().reappeared == (stage.pod,)
    again = stage.reap()
    assert (again.unproved, again.reappeared) == ((stage.pod,), ())
    assert stage.count("pod.reappeared") == 1


def test_one_that_is_back_and_then_cannot_be_asked_about_is_told(stage: Stage) -> None:
    """The reaper dies right after `pod.reappeared`: the machine counts as not proved gone from then on."""
    stage.revive(stage.pod)
    stage.market.script("terminate", "ignored", forever=True)
    stage.reap()
    stage.market.script("list_ours", "fail", forever=True)
    assert stage.reap().unproved == (stage.pod,)


def test_back_after_its_recheck(stage: Stage) -> None:
    """A recheck is no licence: one that is seen later is ended all the same."""
    stage.wait(301)
    stage.reap()
    stage.revive(stage.pod)
    assert stage.reap().reappeared == (stage.pod,)
    assert stage.market.alive() == []


def test_only_what_is_due_is_looked_at(stage: Stage) -> None:
    """`look_again`, for the end of a run: no question to the market before its time, one when it is due."""
    before = stage.listings
    assert stage.reaper().look_again() == ReapResult(lines=())
    assert stage.listings == before
    stage.wait(301)
    stage.market.create("gipper-strange", Decimal("1"))
    assert stage.reaper().look_again() == ReapResult(lines=())
    assert stage.listings == before + 1
    assert stage.count("pod.recheck") == 1
    assert stage.reaper().look_again() == ReapResult(lines=())
    assert stage.listings == before + 1


def test_only_what_is_due_is_ended(stage: Stage) -> None:
    """`look_again` ends a machine that is back, and leaves every other one to a reaper."""
    forgotten = str(MachineName(inst=INST, run="1111111111", attempt=1, end=stage.market.runtime.now()))
    stage.market.create(forgotten, Decimal("1"))
    stage.revive(stage.pod)
    stage.wait(301)
    assert stage.reaper().look_again().reappeared == (stage.pod,)
    assert [m.name for m in stage.market.alive()] == [forgotten]


def test_two_reapers_write_one_recheck(stage: Stage) -> None:
    """Two passes at once leave one receipt."""
    stage.wait(301)
    tasks = [stage.market.runtime.spawn(f"reaper-{i}", stage.reap) for i in range(2)]
    for task in tasks:
        task.result()
    assert stage.count("pod.recheck") == 1


def _seen(stage: Stage, listed: datetime, **changes: object) -> Sight:
    machine = Machine(provider="acme", id=stage.pod, name=stage.name, state=MachineState.RUNNING)
    return Sight(
        provider="acme", machines=(attrs.evolve(machine, **changes),), inst=INST, now=listed, listed=listed,
        ledger_whole=True, end_unknown=False, client=lambda _run: "dead",
    )  # fmt: skip


def test_a_listing_older_than_the_proof_shows_no_comeback(stage: Stage) -> None:
    """Listed, then ended by its own client, then the ledger is read: that is no reappearance."""
    proved = stage.book.pods[stage.name].proved_at[stage.pod]
    assert verdicts(_seen(stage, proved - timedelta(seconds=1)), stage.book) == []
    (verdict,) = verdicts(_seen(stage, proved + timedelta(seconds=1)), stage.book)
    assert (verdict.action, verdict.back) == ("end", (stage.pod,))


def test_another_s_machine_with_a_used_id_is_not_touched(stage: Stage) -> None:
    """An id that the market gave out again, under a foreign name, is neither a comeback nor a hindrance."""
    late = stage.market.runtime.now() + 2 * AFTER
    sight = _seen(stage, late, name="training")
    assert verdicts(sight, stage.book) == []
    assert [pod for _, pod in rechecks(sight, stage.book, AFTER)] == [stage.pod]


def test_a_final_record_in_the_list_is_no_comeback(stage: Stage) -> None:
    """A machine that the market still lists as gone was looked for and isn't there."""
    late = stage.market.runtime.now() + 2 * AFTER
    sight = _seen(stage, late, state=MachineState.GONE)
    assert verdicts(sight, stage.book) == []
    assert [pod for _, pod in rechecks(sight, stage.book, AFTER)] == [stage.pod]


def test_a_twin_that_is_back_is_ended_alone(stage: Stage) -> None:
    """Of two machines of one name only the one that is listed again is asked to end again."""
    twin = stage.market.create(stage.name, Decimal("0.40")).id
    stage.reap()
    assert stage.market.alive() == []
    stage.market.calls.clear()
    stage.revive(twin)
    assert stage.reap().reappeared == (twin,)
    assert {detail for verb, detail in stage.market.calls if verb == "terminate"} == {twin}


def test_back_before_its_spend_was_written(stage: Stage) -> None:
    """The client died between proof and `spend`, and the machine is back: ended, not asked how it is."""
    book = stage.book
    book.pods[stage.name].spends.clear()
    (verdict,) = verdicts(_seen(stage, stage.market.runtime.now()), book)
    assert (verdict.action, verdict.back) == ("end", (stage.pod,))
