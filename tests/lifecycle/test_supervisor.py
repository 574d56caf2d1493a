"""Whole runs on a fake market whose machines are a real sshd: every way a rent can go wrong."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import attrs
import pytest
from stubs.gpu_stubs import GpuStubs, build_driver
from support_sshd import Sshd
from support_stage import Stage, staged

from gipper.cli.closing import tell_end
from gipper.cost_history import NoHistory
from gipper.errors import BadHost
from gipper.launch import Launch
from gipper.lifecycle.services import Interrupts
from gipper.outcomes import Outcome
from gipper.testing import FakeMachine
from gipper.values.jobs import Budget, Output, Pod, RunTable
from gipper.values.machines import Address


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    folder = tmp_path_factory.mktemp("sshd")
    stubs = GpuStubs(folder / "gpu", build_driver(folder))
    with Sshd(folder, env=stubs.env()) as running:
        yield running


@pytest.fixture
def stage(tmp_path: Path, sshd: Sshd) -> Iterator[Stage]:
    yield staged(tmp_path, sshd)


def test_the_straight_way(stage: Stage, tmp_path: Path) -> None:
    """Rent, run, outputs home, proved gone, one spend, in this order in the ledger."""
    result = stage.run()
    assert (result.outcome, result.exit_code) == (Outcome.SUCCEEDED, 0)
    assert (tmp_path / "out" / "x").read_text() == "done\n"
    assert stage.market.alive() == []
    assert stage.kinds() == [
        "run.start", "estimate", "pod.intent", "pod.create", "pod.ready",
        *["preflight"] * 5, "job.start", "job.end", "sync",
        "pod.terminate", "pod.terminated", "spend", "run.end",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        ("offer_gone", Outcome.SUCCEEDED), ("no_capacity", Outcome.SUCCEEDED),
        ("refused_offer", Outcome.SUCCEEDED), ("raises", Outcome.SUCCEEDED), ("none", Outcome.SUCCEEDED),
        ("doubtful", Outcome.SUCCEEDED), ("nonsense", Outcome.SUCCEEDED), ("interrupt", Outcome.SUCCEEDED),
        ("acts_and_raises", Outcome.SUCCEEDED), ("acts_and_none", Outcome.SUCCEEDED),
        ("acts_and_doubtful", Outcome.SUCCEEDED), ("acts_and_interrupt", Outcome.SUCCEEDED),
        ("wrong_name", Outcome.SUCCEEDED), ("misnamed", Outcome.SUCCEEDED), ("twin", Outcome.SUCCEEDED),
        ("late", Outcome.SUCCEEDED), ("late_twin", Outcome.SUCCEEDED), ("dearer", Outcome.SUCCEEDED),
        ("refused_request", Outcome.NO_OFFER), ("refused_account", Outcome.NO_OFFER),
    ],
)  # fmt: skip
def test_every_way_a_rent_goes_wrong_leaves_no_machine(
    tmp_path: Path, sshd: Sshd, fault: str, outcome: Outcome
) -> None:
    """D-015: at most one machine known at a time, none in the end, each machine with its own spend."""
    stage = staged(tmp_path, sshd)
    stage.market.script("rent", fault)
    result = stage.run()
    assert result.outcome is outcome, result.reason
    assert stage.market.alive() == []
    spends = [r["pod"] for r in stage.launch.gipper.ledger.read(kinds={"spend"})]
    assert sorted(spends) == sorted(stage.market.machines)


def test_the_dearer_machine_is_given_back(tmp_path: Path, sshd: Sshd) -> None:
    """The market asks double of what it offered: ended, next offer, no blame."""
    stage = staged(tmp_path, sshd)
    stage.market.script("rent", "dearer")
    stage.run()
    assert any("costs $0.80" in w for w in stage.listener.warnings), stage.listener.warnings


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [("mkdir out; echo 1 > out/x; exit 7", 7, "exited with 7"), ("mkdir out; echo 1 > out/x; kill -9 $$", 137, "SIGKILL (or exit 137), perhaps out of memory")],
)  # fmt: skip
def test_d_055_a_failed_job_is_told_and_salvaged(
    tmp_path: Path, sshd: Sshd, command: str, code: int, says: str
) -> None:
    """Exit 1, the job's own code or signal in the reason, outputs home, machine gone."""
    stage = staged(tmp_path, sshd, command)
    result = stage.run()
    assert (result.outcome, result.exit_code) == (Outcome.FAILED, 1)
    assert result.job is not None and result.job.code == code
    assert says in result.reason
    assert (tmp_path / "out" / "x").read_text() == "1\n"
    assert stage.market.alive() == []
    assert stage.blames() == [None]


@pytest.mark.parametrize("end", ["true", "exit 7"])
def test_a_setup_that_succeeded_is_timed(
    tmp_path: Path, sshd: Sshd, capsys: pytest.CaptureFixture[str], end: str
) -> None:
    """Its seconds stand in run.end's `actual` and in the line of phases, apart from the command's."""
    run = RunTable(command=f"mkdir out; {end}", setup="sleep 0.3")
    stage = staged(tmp_path, sshd, run=run)
    result = stage.run()
    (ended,) = stage.launch.gipper.ledger.read(kinds={"run.end"})
    assert ended["actual"]["setup"] == result.timings.setup >= 0.3
    assert ended["actual"]["compute"] == result.timings.compute is not None
    tell_end(result, tmp_path / "log")
    told = capsys.readouterr()
    assert f"setup {result.timings.setup:.1f} s" in told.out + told.err


def test_a_runner_that_tells_nothing_of_setup_is_understood(tmp_path: Path, sshd: Sshd) -> None:
    """A run that an earlier gipper began has no such file, nor has a job without setup: None, not 0."""
    result = staged(tmp_path, sshd).run()
    assert result.outcome is Outcome.SUCCEEDED
    assert result.timings.setup is None
    assert result.job is not None and result.job.setup_s is None


def test_d_056_children_do_not_outlive_the_limit(tmp_path: Path, sshd: Sshd) -> None:
    """A worker that ignores TERM in a session of its own is gone with the job; outcome timeout."""
    marker = tmp_path / "worker.pid"
    command = f"mkdir out; echo 1 > out/x; setsid sh -c \"trap '' TERM; echo \\$\\$ > {marker}; exec sleep 600\" & sleep 600"
    stage = staged(tmp_path, sshd, command, budget=Budget(max_hours=2 / 3600))
    result = stage.run()
    assert (result.outcome, result.exit_code) == (Outcome.TIMEOUT, 1)
    assert (tmp_path / "out" / "x").read_text() == "1\n"
    assert not _runs(int(marker.read_text()))


def test_money_ends_the_job_too(tmp_path: Path, sshd: Sshd) -> None:
    """max_usd buys fewer seconds than max_hours: outcome over_budget, and the limit holds on the machine."""
    stage = staged(tmp_path, sshd, "sleep 600", budget=Budget(max_usd=Decimal("0.55"), max_hours=1.0))
    stage.market.offers = [stage.market.offer("o1", usd_h=Decimal("16"))]
    stage.launch.loaded = attrs.evolve(
        stage.launch.loaded, job=attrs.evolve(stage.launch.job, placement=_seconds(compute=1, setup=0))
    )
    result = stage.run()
    assert result.outcome is Outcome.OVER_BUDGET, result.reason
    assert stage.market.alive() == []


def test_an_output_that_is_missing_is_told(tmp_path: Path, sshd: Sshd) -> None:
    """D-062: what could not come home is named, what was there is here."""
    stage = staged(tmp_path, sshd, "mkdir out; echo 1 > out/a; exit 1")
    job = attrs.evolve(stage.launch.job, outputs=(Output(src="out"), Output(src="nothere")))
    stage.launch.loaded = attrs.evolve(stage.launch.loaded, job=job)
    result = stage.run()
    assert (tmp_path / "out" / "a").exists()
    assert any("nothere" in p for p in result.collected.problems)
    assert result.outcome is Outcome.FAILED


def test_a_host_that_never_answers_is_replaced_three_times(tmp_path: Path, sshd: Sshd) -> None:
    """D-024: sshd never up: bad host, replaced at most 3 times, each proved gone before the next."""
    stage = staged(tmp_path, sshd)
    stage.market.offers = [stage.market.offer(f"o{i}") for i in range(8)]
    alive: list[int] = []

    def boot(_machine: FakeMachine) -> tuple[Address, ...]:
        alive.append(len(stage.market.alive()))
        return (Address(host="127.0.0.1", port=9),)

    stage.market.boot = boot
    result = stage.run()
    assert (result.outcome, result.exit_code) == (Outcome.NO_OFFER, 3)
    assert alive == [0, 0, 0, 0]
    assert stage.market.alive() == []


def test_a_bad_host_in_preflight_is_replaced_before_any_byte_goes_up(tmp_path: Path, sshd: Sshd) -> None:
    """A verdict of the checks replaces the machine; nothing of the job was sent to it."""
    stage = staged(tmp_path, sshd)
    verdicts = iter([BadHost("GPU busy")])

    def preflight(*_given: object) -> dict[str, str]:
        for verdict in verdicts:
            raise verdict
        return {}

    stage.launch.preflight = preflight
    result = stage.run()
    assert result.outcome is Outcome.SUCCEEDED
    kinds = stage.kinds()
    assert kinds.index("pod.terminated") < kinds.index("job.start")
    assert kinds.count("pod.intent") == 2


def test_d_067_an_error_in_describe_does_not_lose_the_machine(tmp_path: Path, sshd: Sshd) -> None:
    """Describe fails for ever: the machine is still ended by the id that rent gave."""
    stage = staged(tmp_path, sshd)
    stage.market.script("describe", "fail", forever=True)
    result = stage.run()
    assert stage.market.alive() == []
    assert result.exit_code == 5
    assert any(verb == "terminate" for verb, _ in stage.market.calls)


def test_a_machine_that_cannot_be_ended_is_exit_5_and_no_second_one_is_rented(
    tmp_path: Path, sshd: Sshd
) -> None:
    """Never a second machine while one whose id is known is not proved gone."""
    stage = staged(tmp_path, sshd)
    stage.market.script("terminate", "ignored", forever=True)
    stage.market.boot = lambda _m: (Address(host="127.0.0.1", port=9),)
    result = stage.run()
    assert result.exit_code == 5
    assert len(stage.market.machines) == 1
    assert stage.kinds()[-2:] == ["pod.termination_pending", "run.end"]


def test_d_036_a_wish_to_stop_while_waiting_blames_nobody(tmp_path: Path, sshd: Sshd) -> None:
    """D-060: asked to stop before the machine is up: 130, machine gone, no bad mark."""
    stage = staged(tmp_path, sshd)
    interrupts = Interrupts(stage.launch.gipper.runtime)

    def boot(_machine: FakeMachine) -> tuple[Address, ...]:
        interrupts.raise_to(1, "Ctrl-C")
        return ()

    stage.market.boot = boot
    result = stage.run(interrupts)
    assert (result.outcome, result.exit_code) == (Outcome.INTERRUPTED, 130)
    assert stage.market.alive() == []
    assert "preflight" not in stage.kinds()


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _seconds(*, compute: float, setup: float) -> object:
    from gipper.values.jobs import Placement

    return Placement(compute_s=compute, setup_s=setup)


def test_a_host_that_was_bad_twice_is_given_back_at_once(
    tmp_path: Path, sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Known only after the rent: no check is made and nothing sent; the next machine does the work."""
    stage = staged(tmp_path, sshd)

    def boot(machine: FakeMachine) -> tuple[Address, ...]:
        machine.host_id = "rotten" if len(stage.market.machines) == 0 else "sound"
        return (sshd.address,)

    stage.market.boot = boot
    monkeypatch.setattr(Launch, "history", lambda _launch: _Rotten())
    result = stage.run()
    assert result.outcome is Outcome.SUCCEEDED
    assert any("bad twice running" in w for w in stage.listener.warnings)
    kinds = stage.kinds()
    assert kinds.index("pod.terminated") < kinds.index("preflight")
    assert kinds.count("pod.create") == 2


class _Rotten(NoHistory):
    """Knows one host."""

    def bad_twice(self, provider: str, host: str) -> bool:
        return host == "rotten"


def test_a_long_check_does_not_keep_the_user_waiting(tmp_path: Path, sshd: Sshd) -> None:
    """Asked to stop while a check waits: the machine is given back at once, 130, nobody blamed."""
    stage = staged(tmp_path, sshd)
    runtime = stage.launch.gipper.runtime
    interrupts, never = Interrupts(runtime), runtime.event()

    def waits(*_given: object) -> dict[str, str]:
        interrupts.raise_to(1, "Ctrl-C")
        runtime.wait_any([never], runtime.monotonic() + 60)
        return {}

    stage.launch.preflight = waits
    begun = runtime.monotonic()
    result = stage.run(interrupts)
    assert (result.outcome, result.exit_code) == (Outcome.INTERRUPTED, 130)
    assert runtime.monotonic() - begun < 30
    assert stage.market.alive() == []
    (asked,) = stage.launch.gipper.ledger.read(kinds={"pod.terminate"})
    assert asked["blame"] is None


def test_a_jobs_variables_cannot_touch_the_runner(tmp_path: Path, sshd: Sshd) -> None:
    """Whatever pod.env names, the limit holds, the sweep finds the job's daemons and the tools are found."""
    marker = tmp_path / "daemon.pid"
    names = ("command_s", "setup_s", "grace", "run", "here", "shell", "into", "began", "rc", "late", "PATH")
    command = (
        f'/usr/bin/setsid /bin/sh -c "echo \\$\\$ > {marker}; exec /bin/sleep 600" &\n'
        "/bin/mkdir out; echo $command_s $PATH > out/x; /bin/sleep 600"
    )
    pod = Pod(env={name: "/nowhere" if name == "PATH" else "77777" for name in names})
    stage = staged(tmp_path, sshd, command, budget=Budget(max_hours=2 / 3600), pod=pod)
    result = stage.run()
    assert result.outcome is Outcome.TIMEOUT, result.reason
    assert (tmp_path / "out" / "x").read_text() == "77777 /nowhere\n"
    assert not _runs(int(marker.read_text()))


def test_a_very_long_command_runs(tmp_path: Path, sshd: Sshd) -> None:
    """80 kB of quotes: nothing is refused after a machine was rented."""
    quotes = "'\"'\"" * 20_000
    command = f"mkdir out; cat > out/x <<'END'\n{quotes}\nEND\n"
    stage = staged(tmp_path, sshd, command)
    result = stage.run()
    assert result.outcome is Outcome.SUCCEEDED, result.reason
    assert (tmp_path / "out" / "x").read_text() == quotes + "\n"
