"""Links that break while a job runs: noticed, made again, the log whole; and whom that is held against."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from support_fake import handle, services
from support_sshd import Relay, Sshd, wait_until
from support_stage import QUICK, Stage, staged

from gipper.errors import ConnectionLost
from gipper.lifecycle.link import HostLost, Link
from gipper.lifecycle.proof import Rental
from gipper.lifecycle.results import RunResult
from gipper.lifecycle.waiting import Door, Ready
from gipper.outcomes import Outcome
from gipper.runtime import Runtime, Task
from gipper.ssh.settings import Patience
from gipper.testing import FakeMarket, SimRuntime
from gipper.values.jobs import Budget

# The design's bound for a dead link to be noticed, with the patience that users have.
NOTICED_S = 30.0
# Writes numbered lines, each also to a file that comes home, until the test says that it may end.
CHATTER = (
    "mkdir out; n=0; until [ -e {go} ]; do n=$((n+1)); echo line $n | tee -a out/log; sleep 0.05; done; "
    "echo the end | tee -a out/log"
)
Fault = tuple[Callable[[], None], Callable[[], None]]


@attrs.define
class Running:
    """A run in a task of its own, and the folder where its outputs come home."""

    stage: Stage
    folder: Path
    task: Task[RunResult]

    def says(self, step: str) -> int:
        """How often the run told of `step`."""
        return sum(step in s for s in self.stage.listener.steps)

    def goes_on(self) -> None:
        """Until more of the job's log has come."""
        had = len(self.stage.listener.logged)
        wait_until(lambda: len(self.stage.listener.logged) > had + 20, seconds=60, what="the log goes on")

    def end(self) -> RunResult:
        """Let the job end; how the run ended."""
        (self.folder / "go").touch()
        return self.result()

    def result(self) -> RunResult:
        runtime = self.stage.launch.gipper.runtime
        assert runtime.wait_any([self.task.done], runtime.monotonic() + 100) is not None
        return self.task.result()

    def log(self) -> bytes:
        return next(self.stage.launch.gipper.paths.data_folder.glob("runs/*/log")).read_bytes()


@contextmanager
def chatting(
    tmp_path: Path,
    host: Sshd,
    relay: Relay,
    patience: Patience | None,
    command: str = CHATTER,
    **options: Any,
) -> Iterator[Running]:
    """A run whose job has begun to write; ended with the test, whatever happens."""
    fields = {"boot": lambda _m: (relay.address,)}
    stage = staged(
        tmp_path, host, command.format(go=tmp_path / "go"), market=fields, patience=patience,
        **{"limits": {"collect_min": 20, "ready_min": 20}, **options},
    )  # fmt: skip
    interrupts = stage.interrupts()
    task = stage.launch.gipper.runtime.spawn("run", lambda: stage.run(interrupts))
    run = Running(stage, tmp_path, task)
    try:
        wait_until(lambda: b"line 3" in stage.listener.logged, seconds=30, what="the job writes")
        yield run
    finally:
        (tmp_path / "go").touch()
        relay.heal()
        host.thaw()
        interrupts.raise_to(2, "the test is over")
        run.result()


def whole(run: Running, result: RunResult) -> None:
    """Succeeded, every byte of the log here once, the outputs home, nobody blamed, nothing left."""
    assert result.outcome is Outcome.SUCCEEDED, result.reason
    written = (run.folder / "out" / "log").read_bytes()
    assert written.endswith(b"the end\n")
    assert run.log() == written
    assert run.stage.blames() == [None]
    assert run.stage.market.alive() == []


@pytest.fixture(params=["dropped", "stalled", "reset", "stopped"])
def fault(request: pytest.FixtureRequest, relay: Relay, host: Sshd) -> Fault:
    """How the link breaks, and how that is over: swallowed, read no more, RST, or the machine stands still."""
    faults: dict[str, Fault] = {
        "dropped": (relay.drop, relay.heal),
        "stalled": (relay.stall, relay.heal),
        "reset": (relay.refuse, relay.heal),
        "stopped": (host.freeze, host.thaw),
    }
    return faults[request.param]


def test_a_broken_link_is_made_again(tmp_path: Path, host: Sshd, relay: Relay, fault: Fault) -> None:
    """Noticed, dialled again once that is possible, and the log goes on at its byte."""
    break_, mend = fault
    with chatting(tmp_path, host, relay, QUICK) as run:
        break_()
        wait_until(lambda: run.says("the connection broke") > 0, seconds=20, what="noticed")
        mend()
        wait_until(lambda: run.says("connected again") > 0, seconds=30, what="connected again")
        run.goes_on()
        whole(run, run.end())


@pytest.mark.slow
def test_with_a_users_patience_it_is_noticed_in_time(
    tmp_path: Path, host: Sshd, relay: Relay, fault: Fault
) -> None:
    """Nothing set small: whatever happened to the link is noticed within 30 s, and the run goes on."""
    break_, mend = fault
    with chatting(tmp_path, host, relay, None) as run:
        broken = time.monotonic()
        break_()
        wait_until(lambda: run.says("the connection broke") > 0, seconds=NOTICED_S + 5, what="noticed")
        assert time.monotonic() - broken <= NOTICED_S
        mend()
        run.goes_on()
        whole(run, run.end())


def test_broken_again_and_again(tmp_path: Path, host: Sshd, relay: Relay) -> None:
    """Three resets in one job: each mended, no byte twice and none missing."""
    with chatting(tmp_path, host, relay, QUICK) as run:
        for _ in range(3):
            relay.reset()
            run.goes_on()
        assert run.says("connected again") == 3
        whole(run, run.end())


def test_d_054_finished_while_the_link_was_down(tmp_path: Path, host: Sshd, relay: Relay) -> None:
    """Cut just before the job ends, mended seconds after: its exit code is read from the machine."""
    marker = tmp_path / "ended"
    command = "mkdir out; {{ echo line 3; sleep 1; echo the end; }} | tee out/log; touch " + str(marker)
    with chatting(tmp_path, host, relay, QUICK, command) as run:
        relay.refuse()
        wait_until(marker.exists, what="the job ends")
        wait_until(lambda: run.says("the connection broke") > 0, what="noticed")
        relay.heal()
        whole(run, run.result())
    assert run.stage.receipts("job.end")[0]["exit_code"] == 0


def test_neither_machine_nor_market_answers(tmp_path: Path, host: Sshd, relay: Relay) -> None:
    """The fault may be here: keeps trying past `host_lost`, goes on when it is over, blames nobody."""
    with chatting(
        tmp_path, host, relay, QUICK, limits={"host_lost": 0.5, "collect_min": 20, "ready_min": 20}
    ) as run:
        run.stage.market.script("describe", "fail", forever=True)
        relay.refuse()
        wait_until(lambda: len(run.stage.calls("describe")) > 6, seconds=30, what="asked again and again")
        assert not run.task.done.is_set()
        run.stage.market.mend()
        relay.heal()
        run.goes_on()
        whole(run, run.end())


@pytest.mark.slow
def test_neither_answers_until_the_job_is_over(tmp_path: Path, host: Sshd, relay: Relay) -> None:
    """Reached again only when the job's time is over: its end and what it left come home, nobody is blamed."""
    with chatting(
        tmp_path, host, relay, QUICK, budget=Budget(max_hours=3 / 3600),
        limits={"collect_min": 60, "ready_min": 20, "kill_grace": 1},
    ) as run:  # fmt: skip
        run.stage.market.script("describe", "fail", forever=True)
        relay.refuse()
        (begun,) = run.stage.launch.gipper.ledger.read(kinds={"run.start"})
        over = host.home / "gipper" / str(begun.run) / "rc"
        wait_until(over.exists, seconds=60, what="the job's end on the machine")
        run.stage.market.mend()
        relay.heal()
        result = run.result()
        assert (result.outcome, result.exit_code) == (Outcome.TIMEOUT, 1), result.reason
        assert (tmp_path / "out" / "log").read_bytes().startswith(b"line 1\nline 2\n")
        assert run.stage.blames() == [None]
        assert run.stage.market.alive() == []


def test_the_market_says_running_and_no_address_answers(tmp_path: Path, host: Sshd, relay: Relay) -> None:
    """For `host_lost` seconds: ended, held against the host, never run again, what is missing is named."""
    with chatting(tmp_path, host, relay, QUICK, limits={"host_lost": 1, "ready_min": 20}) as run:
        relay.refuse()
        result = run.result()
        assert (result.outcome, result.exit_code) == (Outcome.HOST_LOST, 4)
        assert run.stage.blames() == ["host"]
        assert run.stage.kinds().count("pod.intent") == 1
        assert any(p.startswith("out:") for p in result.collected.problems)
        assert run.stage.market.alive() == []


def test_another_host_key_on_the_same_machine(tmp_path: Path, host: Sshd, relay: Relay) -> None:
    """Somebody else answers now: the run ends, held against the host, and nothing is sent there."""
    with chatting(tmp_path, host, relay, QUICK) as run:
        host.stop()
        host.new_host_key()
        host.start()
        result = run.result()
        assert (result.outcome, result.exit_code) == (Outcome.HOST_LOST, 4)
        assert "host key" in result.reason
        assert run.stage.blames() == ["host"]
        assert "Accepted publickey" not in host.log.rpartition("Server listening")[2]
        assert run.stage.market.alive() == []


def test_d_066_somebody_else_ended_it(tmp_path: Path, host: Sshd, relay: Relay) -> None:
    """The machine vanishes in the middle of the job: told so, proved gone, spend counted, nobody blamed."""
    with chatting(tmp_path, host, relay, QUICK) as run:
        run.stage.market.unboot = lambda _m: relay.refuse()
        (machine,) = run.stage.market.alive()
        run.stage.market.kill(machine.id)
        result = run.result()
        assert (result.outcome, result.exit_code) == (Outcome.HOST_LOST, 4)
        assert "vanished" in result.reason
        assert run.stage.blames() == [None]
        (spend,) = run.stage.receipts("spend")
        assert spend["pod"] == machine.id
        assert spend["usd"] <= run.stage.market.usd_h * 60 / 3600


class Doorless:
    """Lets everybody in and drops them at the first word."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.dialled: list[float] = []

    def dial(self, *_given: Any, **_more: Any) -> Any:
        self.dialled.append(self.runtime.monotonic())
        return self

    def ask(self, *_given: Any, **_more: Any) -> Any:
        raise ConnectionLost("reset")

    def close(self) -> None:
        pass


def test_a_machine_that_drops_everybody_is_not_hammered(tmp_path: Path) -> None:
    """Login works, the first command breaks, for ten minutes: fewer than forty logins, nobody blamed."""
    runtime = SimRuntime()
    market = FakeMarket(runtime)
    pod = market.create("gipper-x", market.usd_h)
    rental = Rental(
        provider=handle(market, tmp_path / "p"), run="r", name=pod.name, pod=pod.id, usd_h=pod.usd_h,
        since=runtime.now(),
    )  # fmt: skip
    host: Any = Doorless(runtime)
    door = Door(dialer=host, key_file=tmp_path, public_key="", pins=tmp_path)
    ready = Ready(remote=host, machine=market.as_told(pod), seconds=0.0)
    link = Link(services(tmp_path / "data", runtime), rental, door, ready)
    with pytest.raises(HostLost) as caught:
        link.call(lambda r: r.ask("true"), until=runtime.monotonic() + 600)
    assert not caught.value.blame
    assert not caught.value.final
    assert 10 < len(host.dialled) < 40
