"""The reaper: ends what should be over, leaves what may be in use, touches nobody else's."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import attrs
import pytest
from support_fake import NoKeys, handle, kinds, services

from gipper.http_clock import MarketTime
from gipper.installation import this_host
from gipper.lifecycle.reaper import Reaper, ReapResult
from gipper.lifecycle.services import Services
from gipper.naming import MachineName, round_up_to_minute
from gipper.plugins.context import Context
from gipper.plugins.handle import Provider
from gipper.plugins.registry import Registry
from gipper.testing import FakeMarket, SimRuntime
from gipper.values.receipts import (
    JobStart,
    Owner,
    PodCreate,
    PodIntent,
    PodTerminate,
    RunStart,
)

INST = "00000"
RUN = "0000000000"


@attrs.define
class Stage:
    """A market, a ledger, and a reaper on demand."""

    tmp_path: Path
    market: FakeMarket
    services: Services
    end: datetime

    @property
    def name(self) -> str:
        return str(MachineName(inst=INST, run=RUN, attempt=1, end=self.end))

    def reap(self, **options: bool) -> ReapResult:
        provider = handle(self.market, self.tmp_path / "p")
        return Reaper(self.services, [provider], INST, self.tmp_path / "data", **options).run()

    def verbs(self, **options: bool) -> list[str]:
        return [line.verb for line in self.reap(**options).lines]

    def wait_until_past_the_end(self) -> None:
        self.market.runtime.sleep((self.end - self.market.runtime.now()).total_seconds() + 1)

    def spends(self) -> list[str]:
        return [r["pod"] for r in self.services.ledger.read(kinds={"spend"})]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    runtime = SimRuntime()
    svc = services(tmp_path / "data", runtime)
    return Stage(tmp_path, FakeMarket(runtime), svc, round_up_to_minute(runtime.now() + timedelta(hours=1)))


def dead_client(**changes: str) -> Owner:
    """The owner of a run whose process is gone: this host, another boot."""
    host = this_host()
    facts = {"host_id": host.host_id, "boot_id": "another", "pid_ns": host.pid_ns, **changes}
    return Owner(**facts, pid=1, start_ticks=1)


def started(stage: Stage, owner: Owner | None = None) -> None:
    svc = stage.services
    start = RunStart(job={"name": "job"}, owner=owner or dead_client(), client="test", plugins={})
    svc.ledger.append(start, run=RUN, refs={"name": "job"})
    svc.ledger.append(
        PodIntent(
            provider="acme", offer="o1", name=stage.name, attempt=1, end=stage.end, usd_h=Decimal("0.40"),
            reserved_usd=Decimal("0.50"), appear_s=5.0,
        ),
        run=RUN, refs={"name": "job"},
    )  # fmt: skip


def created(stage: Stage, owner: Owner | None = None) -> str:
    started(stage, owner)
    machine = stage.market.create(stage.name, Decimal("0.40"))
    receipt = PodCreate(provider="acme", pod=machine.id, name=stage.name, usd_h=Decimal("0.40"))
    stage.services.ledger.append(receipt, run=RUN, refs={"name": "job"})
    return machine.id


class ClockedContext(Context):
    """A context whose market told a time: the readings in turn, the last one for ever."""

    readings: list[MarketTime]

    def market_time(self) -> MarketTime:
        return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]


def reap_by(stage: Stage, *readings: MarketTime) -> ReapResult:
    """A pass with a market whose clock reads so."""
    loaded = Registry().add_provider(stage.market.provider_class(), distribution="gipper-fake", version="1")
    context = ClockedContext(
        loaded.info, None, stage.market.runtime, stage.tmp_path / "p", NoKeys(), lambda: None
    )
    context.readings = list(readings)
    provider = Provider(loaded, context, NoKeys())
    return Reaper(stage.services, [provider], INST, stage.tmp_path / "data").run()


def test_the_end_is_judged_by_the_market_s_clock(stage: Stage) -> None:
    """A machine ends by the market's time: earlier by ours where that is ahead, later where it is behind."""
    created(stage)
    ahead = MarketTime(ahead=timedelta(minutes=9))
    stage.market.runtime.sleep((stage.end - stage.market.runtime.now()).total_seconds() - 480)
    assert [x.verb for x in reap_by(stage, MarketTime(ahead=-timedelta(minutes=9))).lines] == ["left"]
    assert [x.verb for x in reap_by(stage, ahead).lines] == ["ended"]
    assert stage.market.alive() == []


def test_a_clock_that_can_t_be_true_ends_nothing(stage: Stage) -> None:
    """Two hours off and not confirmed: nobody's machine is ended by deadline, and the user is told."""
    created(stage)
    stage.wait_until_past_the_end()
    doubtful = MarketTime(ahead=timedelta(hours=2), sure=False)
    assert [x.verb for x in reap_by(stage, doubtful).lines] == ["left"]
    assert len(stage.market.alive()) == 1
    told = " ".join(stage.services.reporter.warnings)
    assert "7200 s behind acme's" in told and "nothing is ended by its time" in told


def test_a_clock_far_off_is_asked_once_more_and_then_believed(stage: Stage) -> None:
    """Where the second answer agrees, the pass goes on with the second listing."""
    created(stage)
    stage.wait_until_past_the_end()
    unsure = MarketTime(ahead=timedelta(hours=2), sure=False)
    result = reap_by(stage, unsure, unsure, MarketTime(ahead=timedelta(hours=2)))
    assert [x.verb for x in result.lines] == ["ended"]


def test_nothing_to_reap_leaves_no_receipt(stage: Stage) -> None:
    """A pass that did nothing writes nothing."""
    assert stage.reap().lines == ()
    assert kinds(stage.services) == []


def test_d_069_a_machine_is_left_until_its_end_and_ended_then(stage: Stage) -> None:
    """A dead client's machine may still work: before its end it is left, afterwards it is ended, once."""
    pod = created(stage)
    stage.services.ledger.append(JobStart(provider="acme", pod=pod, folder="f", limit_s=60.0), run=RUN)
    assert stage.verbs() == ["left"]
    assert len(stage.market.alive()) == 1
    stage.wait_until_past_the_end()
    assert stage.verbs(dry_run=True) == ["would end"]
    assert len(stage.market.alive()) == 1
    result = stage.reap()
    assert [line.verb for line in result.lines] == ["ended"]
    assert "past its end" in result.lines[0].why
    assert stage.market.alive() == []
    assert stage.spends() == [pod]
    assert kinds(stage.services)[-3:] == ["spend", "run.end", "reap"]
    assert stage.reap().lines == ()


def test_an_unfinished_teardown_is_retried_at_once(stage: Stage) -> None:
    """Asked to end and never proved: retried whatever the time."""
    pod = created(stage)
    asked = PodTerminate(
        provider="acme", pod=pod, name=stage.name, why="over", answer="accepted", answered=None
    )
    stage.services.ledger.append(asked, run=RUN)
    assert stage.verbs() == ["retried"]
    assert stage.market.alive() == []
    assert stage.spends() == [pod]


def test_a_forgotten_machine_is_ended(stage: Stage) -> None:
    """This installation's, not in a whole ledger: nobody will ever come back to it."""
    stage.market.create(stage.name, Decimal("0.40"))
    result = stage.reap()
    assert "forgotten" in result.lines[0].why
    assert stage.market.alive() == []


def test_a_machine_behind_an_open_intent_is_found_by_its_name(stage: Stage) -> None:
    """The client died between the rent call and `pod.create`: the name finds the machine at its end."""
    started(stage)
    machine = stage.market.create(stage.name, Decimal("0.40"))
    stage.wait_until_past_the_end()
    assert stage.verbs() == ["ended"]
    assert stage.market.alive() == []
    assert stage.spends() == [machine.id]


def test_an_intent_whose_machine_never_appeared_is_closed_after_its_end(stage: Stage) -> None:
    """Two complete listings after end + appear_s free the reservation, and not one second earlier."""
    started(stage)
    assert stage.verbs() == ["left"]
    stage.wait_until_past_the_end()
    assert stage.verbs() == ["left"]
    stage.market.runtime.sleep(5)
    assert stage.verbs() == ["closed"]
    assert kinds(stage.services)[-3:] == ["pod.create_failed", "run.end", "reap"]


def test_a_machine_that_vanished_is_proved_and_counted(stage: Stage) -> None:
    """Not listed, client dead: absence is proved like any other, spend is an upper bound."""
    pod = created(stage)
    stage.market.kill(pod)
    stage.market.runtime.sleep(600)
    assert stage.verbs() == ["closed"]
    (spend,) = stage.services.ledger.read(kinds={"spend"})
    assert spend["basis"] == "upper bound"


def test_another_host_s_client_is_unknown_and_left_until_the_end(stage: Stage) -> None:
    """Nobody here can say whether it lives."""
    created(stage, dead_client(host_id="elsewhere"))
    assert stage.verbs() == ["left"]
    stage.wait_until_past_the_end()
    assert stage.verbs() == ["ended"]


def test_another_installation_s_machine_is_left_until_half_an_hour_past_its_end(stage: Stage) -> None:
    """Two installations on one account don't end each other's machines in time."""
    name = str(MachineName(inst="11111", run=RUN, attempt=1, end=stage.end))
    stage.market.create(name, Decimal("0.40"))
    stage.wait_until_past_the_end()
    assert stage.verbs() == ["left"]
    stage.market.runtime.sleep(1800)
    assert stage.verbs() == ["ended"]


def test_d_071_names_that_are_not_gipper_s_are_never_touched(stage: Stage) -> None:
    """A name that doesn't parse is reported only; --unknown ends it; others aren't even shown."""
    for name in ("", "training", "gipperish", "Gipper-x", "gipper-t1-ab12"):
        stage.market.create(name, Decimal("1"))
    result = stage.reap()
    assert [(line.verb, line.name) for line in result.lines] == [("left", "gipper-t1-ab12")]
    assert len(stage.market.alive()) == 5
    assert stage.verbs(end_unknown=True) == ["ended"]
    assert len(stage.market.alive()) == 4


def test_d_068_a_market_that_cannot_list_fails_the_pass_and_ends_nothing(stage: Stage) -> None:
    """A failed listing is told; no machine is thought gone, none forgotten."""
    created(stage)
    stage.wait_until_past_the_end()
    stage.market.script("list_ours", "fail", forever=True)
    result = stage.reap()
    assert result.failed == ("acme",)
    assert len(result.unproved) == 1
    assert len(stage.market.alive()) == 1


def test_a_machine_that_will_not_go_is_told(stage: Stage) -> None:
    """Exit 5 rests on this list."""
    pod = created(stage)
    stage.wait_until_past_the_end()
    stage.market.script("terminate", "ignored", forever=True)
    assert stage.reap().unproved == (pod,)
    assert stage.spends() == []


def test_a_machine_whose_plugin_is_missing_is_told(stage: Stage) -> None:
    """The ledger knows an open machine at a provider that nobody can ask."""
    created(stage)
    result = Reaper(stage.services, [], INST, stage.tmp_path / "data").run()
    assert len(result.unproved) == 1
    assert "gipper-acme" in stage.services.reporter.warnings[0]  # type: ignore[attr-defined]


def test_a_machine_that_is_back_is_ended_again(stage: Stage) -> None:
    """Proved gone and listed again: `pod.reappeared`, ended."""
    pod = created(stage)
    stage.wait_until_past_the_end()
    stage.reap()
    stage.market.machines[pod].ended = None
    assert stage.verbs() == ["ended"]
    assert "pod.reappeared" in kinds(stage.services)
    assert stage.market.alive() == []


def test_two_passes_at_once_write_one_spend(stage: Stage) -> None:
    """Two reapers side by side are harmless."""
    pod = created(stage)
    stage.wait_until_past_the_end()
    runtime = stage.market.runtime
    tasks = [runtime.spawn(f"reaper-{i}", stage.reap) for i in range(2)]
    for task in tasks:
        task.result()
    assert stage.market.alive() == []
    assert stage.spends() == [pod]
