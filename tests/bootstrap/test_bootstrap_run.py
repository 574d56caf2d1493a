"""The bootstrap in whole runs: rented, prepared over a real sshd, sourced by setup's and command's shell."""

from __future__ import annotations

import getpass
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from bootstrap.bare_machine import BareMachine, gpu
from support_fake import Listener
from support_sshd import Sshd

from gipper import bootstrap
from gipper.core import Gipper
from gipper.jobfile import LoadedJob, resolved
from gipper.launch import Launch
from gipper.lifecycle.results import RunResult
from gipper.lifecycle.services import Interrupts
from gipper.outcomes import Outcome
from gipper.plugins.registry import Registry
from gipper.runtime import RealRuntime
from gipper.testing import FakeMarket
from gipper.values.jobs import GpuWants, Job, Output, Pod, RunTable
from gipper.values.plugins import ProviderInfo
from gipper.values.settings import Settings

SHOW = (
    'mkdir -p out; { echo "$GIPPER_TORCH_CUDA"; echo "$HF_HOME"; echo "$MARK"; command -v uv || :; } >out/%s'
)


class Rented(FakeMarket):
    """A market whose machines want the bootstrap."""

    wanted = True

    def info(self) -> ProviderInfo:
        return attrs.evolve(super().info(), ssh_user=getpass.getuser(), ready_s=0.3, bootstrap=self.wanted)


class Own(Rented):
    """A market on whose machines nothing may be installed."""

    wanted = False


@attrs.define
class Stage:
    """One job on one market; its machines are this computer, with stubs first on PATH."""

    launch: Launch
    market: FakeMarket
    machine: BareMachine
    listener: Listener
    out: Path

    def run(self) -> RunResult:
        return self.launch.run(Interrupts(self.launch.gipper.runtime))

    @property
    def log(self) -> list[str]:
        """What gipper says in the job's log."""
        lines = self.listener.logged.decode().splitlines()
        return [line for line in lines if line.startswith("gipper: ")]

    def seen(self, name: str) -> list[str]:
        return (self.out / name).read_text().splitlines()


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with Sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


def staged(tmp_path: Path, sshd: Sshd, market: type[Rented] = Rented, **run: str) -> Stage:
    runtime = RealRuntime()
    fake = market(runtime, boot=lambda _m: (sshd.address,), appear_s=0.3, settle_s=0.05, gone_patience_s=1.0)
    registry = Registry()
    registry.add_provider(fake.provider_class(), distribution="gipper-fake", version="1")
    config = tmp_path / "config.toml"
    config.write_text("[limits]\ngone_patience = 1\nready_min = 1\nkill_grace = 1\n")
    env = {
        "HOME": str(tmp_path), "GIPPER_DATA": str(tmp_path / "data"), "GIPPER_KEYS": str(tmp_path / "keys"),
        "GIPPER_CONFIG": str(config),
    }  # fmt: skip
    gipper = Gipper(env=env, runtime=runtime, registry=registry)
    sshd.authorize(gipper.key_pair.public)
    machine = BareMachine(tmp_path / "machine")
    machine.gpus(gpu(driver="570.26", cap="12.0"))
    (machine.root / "volume").mkdir()
    listener = Listener()
    pod = Pod(env={
        "PATH": f"{machine.bin}:{os.defpath}", "GIPPER_VOLUME": str(machine.root / "volume"), "MARK": "mine",
    })  # fmt: skip
    job = Job(
        name="job", folder=tmp_path, gpu=GpuWants(count=1), outputs=(Output(src="out"),), pod=pod,
        run=RunTable(**{"command": SHOW % "command", **run}),
    )  # fmt: skip
    loaded = LoadedJob(job=resolved(job, Settings()))
    launch = Launch(gipper=gipper, loaded=loaded, reporter=listener, preflight=lambda *_given: {})
    return Stage(launch, fake, machine, listener, tmp_path / "out")


def test_setup_and_command_both_have_it(tmp_path: Path, sshd: Sshd) -> None:
    """Both shells have the variables beside the job file's own; the lines stand in the log once."""
    stage = staged(tmp_path, sshd, setup=SHOW % "setup")
    result = stage.run()
    assert result.outcome is Outcome.SUCCEEDED, result.reason
    volume = stage.machine.root / "volume"
    expected = ["cu128", f"{volume}/.cache/huggingface", "mine", str(stage.machine.bin / "uv")]
    assert stage.seen("setup") == stage.seen("command") == expected
    assert stage.log == [
        "gipper: driver 570.26, PyTorch index https://download.pytorch.org/whl/cu128",
        "gipper: GPU 0: NVIDIA GeForce RTX 4090, 24564 MiB",
    ]
    assert stage.machine.asked() == 1
    assert stage.market.alive() == []


def test_a_provider_without_bootstrap_gets_none(tmp_path: Path, sshd: Sshd) -> None:
    """Where the provider says so nothing is sourced, asked or said."""
    stage = staged(tmp_path, sshd, Own)
    assert stage.run().outcome is Outcome.SUCCEEDED
    assert stage.seen("command") == ["", "", "mine", str(stage.machine.bin / "uv")]
    assert (stage.log, stage.machine.asked()) == ([], 0)


@pytest.mark.parametrize("broken", ["if then\n", "no_such_program_anywhere\n", "return 3\n"])
def test_a_broken_bootstrap_is_never_the_jobs_failure(
    tmp_path: Path, sshd: Sshd, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """Whatever is wrong with it: one line, and the job runs in the environment that it asked for."""
    monkeypatch.setattr(bootstrap, "script", lambda **_given: broken)
    stage = staged(tmp_path, sshd)
    result = stage.run()
    assert result.outcome is Outcome.SUCCEEDED, result.reason
    assert stage.seen("command")[2] == "mine"
    (line,) = stage.log
    assert line.startswith("gipper: the bootstrap failed (exit ") and line.endswith(
        "; the job goes on without it"
    )


@pytest.mark.skipif(shutil.which("uv") is not None, reason="this computer has uv of its own")
def test_a_uv_that_cannot_be_had_is_never_the_jobs_failure(tmp_path: Path, sshd: Sshd) -> None:
    """pip, curl and wget fail: one line in the log for both shells together, and the job succeeds."""
    stage = staged(tmp_path, sshd, setup=SHOW % "setup")
    (stage.machine.bin / "uv").unlink()
    for name in ("python3", "curl", "wget"):
        stage.machine.program(name, "exit 1")
    assert stage.run().outcome is Outcome.SUCCEEDED
    assert [line for line in stage.log if "uv could not be installed" in line] == stage.log[:1]
    assert len(stage.log) == 3


def test_the_job_keeps_its_own_name_and_status(tmp_path: Path, sshd: Sshd) -> None:
    """$0 is the job's script, as without the bootstrap, and its status is its own."""
    stage = staged(tmp_path, sshd, command="mkdir out; echo ${0##*/} >out/name; exit 7")
    result = stage.run()
    assert result.job is not None and result.job.code == 7
    assert stage.seen("name") == ["job.sh"]
