"""Checkpoints of whole runs on a fake market whose machines are a real sshd, with cuts, full disks, dead clients."""

from __future__ import annotations

import getpass
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest
from support_fake import Listener
from support_root import tmpfs
from support_sshd import Relay, Sshd, wait_until

from gipper.core import Gipper
from gipper.jobfile import LoadedJob, resolved
from gipper.launch import Launch
from gipper.lifecycle.kept import Kept
from gipper.lifecycle.results import RunResult
from gipper.lifecycle.services import Interrupts
from gipper.outcomes import Outcome
from gipper.plugins.registry import Registry
from gipper.runtime import RealRuntime, Task
from gipper.takeover import Takeover
from gipper.testing import FakeMarket
from gipper.transfer.staging import PREFIX
from gipper.values.jobs import Checkpoint, GpuWants, Input, Job, Output, RunTable
from gipper.values.machines import Address
from gipper.values.plugins import ProviderInfo
from gipper.values.receipts import Receipt
from gipper.values.settings import Settings

# A command that goes on until its test lets it end.
WAIT = 'while [ ! -e "$GO" ]; do sleep 0.05; done'


class Market(FakeMarket):
    """A fake market whose machines log in as the user of this test."""

    def info(self) -> ProviderInfo:
        return attrs.evolve(super().info(), ssh_user=getpass.getuser(), ready_s=0.3)


@attrs.define
class Stage:
    """A user whose machines are reached at `address`; `go` lets the job end."""

    folder: Path
    sshd: Sshd
    address: Address
    runtime: RealRuntime = attrs.field(factory=RealRuntime)
    listener: Listener = attrs.field(factory=Listener)
    market: Market = attrs.field(init=False)
    gipper: Gipper = attrs.field(init=False)
    tasks: list[Task[RunResult]] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.market = Market(
            self.runtime, boot=lambda _m: (self.address,), appear_s=0.3, settle_s=0.05, gone_patience_s=1.0
        )
        registry = Registry()
        registry.add_provider(self.market.provider_class(), distribution="gipper-fake", version="1")
        config = self.folder / "config.toml"
        config.write_text(
            "daily_cap_usd = 50.0\n[limits]\ngone_patience = 1\nready_min = 1\nkill_grace = 1\nhost_lost = 1\n"
        )
        env = {
            "HOME": str(self.folder), "GIPPER_DATA": str(self.folder / "data"),
            "GIPPER_KEYS": str(self.folder / "keys"), "GIPPER_CONFIG": str(config),
        }  # fmt: skip
        self.gipper = Gipper(env=env, runtime=self.runtime, registry=registry)
        self.sshd.authorize(self.gipper.key_pair.public)

    @property
    def go(self) -> Path:
        return self.folder / "go"

    def launch(self, command: str, **changes: object) -> Launch:
        text = f"GO={self.go}; {command}"
        every_s = float(str(changes.pop("every_s", 0.2)))
        given = {"outputs": (Output(src="out", dst="home"),), **changes}
        job = Job(
            name="job", folder=self.folder, gpu=GpuWants(count=1),
            run=RunTable(command=text, checkpoint=Checkpoint(src="out/ck", every_s=every_s)),
            **given,  # type: ignore[arg-type]
        )  # fmt: skip
        loaded = LoadedJob(job=resolved(job, Settings()))
        return Launch(gipper=self.gipper, loaded=loaded, reporter=self.listener, preflight=lambda *_given: {})

    def start(self, command: str, **changes: object) -> Task[RunResult]:
        launch = self.launch(command, **changes)
        return self.spawned(lambda: launch.run(Interrupts(self.runtime)))

    def spawned(self, fn: Callable[[], RunResult]) -> Task[RunResult]:
        self.tasks.append(self.runtime.spawn("run", fn))
        return self.tasks[-1]

    def run(self, command: str, **changes: object) -> RunResult:
        return self.launch(command, **changes).run(Interrupts(self.runtime))

    def end(self, task: Task[RunResult]) -> RunResult:
        self.go.touch()
        return task.result()

    def syncs(self, what: str = "checkpoint out/ck") -> list[Receipt]:
        return [r for r in self.gipper.ledger.read(kinds={"sync"}) if r["what"] == what]

    def synced(self, count: int, *, whole: bool = True) -> Callable[[], bool]:
        return lambda: len([r for r in self.syncs() if r["whole"] == whole]) >= count

    def home(self, name: str) -> Path:
        return self.folder / "home" / name


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with Sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


def _closed(stage: Stage) -> Iterator[Stage]:
    """Whatever a test did: its job ends, and its run before the server goes."""
    yield stage
    stage.go.touch()
    for task in stage.tasks:
        stage.runtime.wait_any([task.done], stage.runtime.monotonic() + 30)


@pytest.fixture
def stage(tmp_path: Path, sshd: Sshd) -> Iterator[Stage]:
    yield from _closed(Stage(tmp_path, sshd, sshd.address))


@pytest.fixture
def relay(sshd: Sshd) -> Iterator[Relay]:
    with Relay(sshd.port) as running:
        yield running


@pytest.fixture
def behind(tmp_path: Path, sshd: Sshd, relay: Relay) -> Iterator[Stage]:
    yield from _closed(Stage(tmp_path, sshd, relay.address))


def test_a_checkpoint_comes_home_while_the_job_runs(stage: Stage) -> None:
    """It lies where its output's dst puts it, before the job ends; receipts and the run folder say so."""
    task = stage.start(f'echo one > "$GIPPER_CHECKPOINT_DIR/a"; echo log; {WAIT}; echo end > out/b')
    wait_until(stage.home("ck/a").exists, what="the checkpoint is home")
    wait_until(stage.synced(2), what="two syncs")
    assert not stage.home("b").exists()
    result = stage.end(task)
    assert result.outcome is Outcome.SUCCEEDED, result.reason
    assert stage.home("ck/a").read_text() == "one\n"
    assert stage.home("b").read_text() == "end\n"
    assert stage.listener.logged == b"log\n"
    travelled = [path for r in stage.syncs() for path, *_ in r["files"]]
    assert travelled == ["a"]
    (out,) = stage.syncs("out")
    assert out["bytes"] == 4
    assert sorted(path for path, *_ in out["files"]) == ["b", "ck/a"]
    assert result.collected.files == 2
    whole = Kept(stage.gipper.run_folder(result.run)).whole()
    assert whole is not None and [f[:2] for f in whole.files] == [("a", 4)]
    assert whole.place == stage.home("ck")


def test_the_users_files_stay_and_deletions_are_not_mirrored(stage: Stage) -> None:
    """What the machine deletes stays here, what was here before too."""
    stage.home("ck").mkdir(parents=True)
    stage.home("mine").write_text("mine")
    task = stage.start(
        f'cd out/ck; echo 1 > a; echo 2 > b; while [ ! -e "$GO.2" ]; do sleep 0.05; done; rm a; {WAIT}'
    )
    wait_until(lambda: stage.home("ck/a").exists() and stage.home("ck/b").exists(), what="both are home")
    Path(f"{stage.go}.2").touch()
    seen = len(stage.syncs())
    wait_until(lambda: len(stage.syncs()) >= seen + 2, what="two more syncs")
    assert stage.end(task).outcome is Outcome.SUCCEEDED
    assert stage.home("ck/a").exists() and stage.home("mine").read_text() == "mine"


WRITER = """
import os, sys, time
out, go = sys.argv[1:]
turn = 0
while not os.path.exists(go):
    turn += 1
    with open(out + "/tmp", "wb") as f:
        f.write(bytes([turn % 251]) * 5_000_000)
    os.rename(out + "/tmp", out + "/renamed")
    with open(out + "/inplace", "wb") as f:
        for part in range(10):
            f.write(bytes([turn % 251]) * 300_000)
            f.flush()
            time.sleep(0.05)
            if os.path.exists(go):
                break
    with open(out + "/closed", "wb"):
        pass
    for part in range(4):
        with open(out + "/closed", "ab") as f:
            f.write(bytes([turn % 251]) * 200_000)
        time.sleep(0.02)
    time.sleep(0.3)
"""
SIZES = {"renamed": 5_000_000, "inplace": 3_000_000, "closed": 800_000}


def test_d_061_no_torn_file_ever_bears_its_name(stage: Stage) -> None:
    """Renamed, rewritten in place, and written piece by piece: at every moment what is here is one whole
    version; a sync that met a file in the making names it."""
    writer = stage.folder / "writer.py"
    writer.write_text(WRITER)
    task = stage.start(f'{sys.executable} {writer} out/ck "$GO"')
    looks = 0
    while not (stage.synced(4)() or stage.synced(12, whole=False)()) and not task.done.is_set():
        looks += _all_whole(stage.home("ck"))
        stage.runtime.sleep(0.01)
    assert _all_whole(stage.home("ck"))
    assert looks > 0
    named = {line for r in stage.syncs() for line in r["missing"]}
    assert named <= {*SIZES, "tmp", "the download was given up"}, named
    assert named & {*SIZES, "tmp"}
    stage.end(task)


def _all_whole(folder: Path) -> int:
    """How many files are here; each must be one byte, repeated to its full size."""
    count = 0
    for name, size in SIZES.items():
        try:
            data = (folder / name).read_bytes()
        except FileNotFoundError:
            continue
        assert data == data[:1] * size, f"{name}: {len(data)} bytes, {set(data)}"
        count += 1
    return count


def test_a_link_cut_during_a_sync_harms_nobody(behind: Stage, relay: Relay) -> None:
    """The connections are reset under a sync: the log goes on, the next syncs bring what is missing, once."""
    behind_ck = "i=0; while [ $i -lt 40 ]; do head -c 1000000 /dev/urandom > out/ck/f$i; i=$((i+1)); done"
    task = behind.start(f"{behind_ck}; echo written; {WAIT}; echo over")
    wait_until(lambda: any(behind.folder.rglob(PREFIX + "*")), what="a sync is under way")
    relay.reset()
    wait_until(behind.synced(1), seconds=30, what="a whole sync")
    result = behind.end(task)
    assert result.outcome is Outcome.SUCCEEDED, result.reason
    assert behind.listener.logged == b"written\nover\n"
    assert len(list(behind.home("ck").glob("f*"))) == 40
    assert not list(behind.folder.rglob(PREFIX + "*"))


def test_a_full_disk_here_is_warned_once_and_tried_again(stage: Stage) -> None:
    """D-063: the old version stays, one warning for many failures; with room again the next sync is whole."""
    with tmpfs(stage.folder / "disk", "3m") as disk:
        outputs = (Output(src="out", dst="disk/home"),)
        (disk / "ballast").write_bytes(bytes(2_000_000))
        task = stage.start(
            f'cd out/ck; echo small > a; while [ ! -e "$GO.2" ]; do sleep 0.05; done; '
            f"head -c 2000000 /dev/urandom > b; {WAIT}", outputs=outputs,
        )  # fmt: skip
        wait_until((disk / "home/ck/a").exists, what="the small one is home")
        Path(f"{stage.go}.2").touch()
        wait_until(stage.synced(3, whole=False), what="three failures")
        warned = [w for w in stage.listener.warnings if "No space left" in w]
        assert len(warned) == 1 and "tried again every 0.2 s" in warned[0], stage.listener.warnings
        assert os.listdir(disk / "home/ck") == ["a"]
        (disk / "ballast").unlink()
        wait_until((disk / "home/ck/b").exists, what="the big one is home")
        assert stage.end(task).outcome is Outcome.SUCCEEDED


def test_unchanged_files_do_not_travel(behind: Stage, relay: Relay) -> None:
    """3 MB that don't change go through the relay once, however many syncs and the collection follow."""
    task = behind.start(f"head -c 3000000 /dev/urandom > out/ck/big; {WAIT}; echo x > out/small")
    wait_until(behind.home("ck/big").exists, what="the checkpoint is home")
    wait_until(behind.synced(1), what="its receipt")
    relay.reset_counts()
    seen = len(behind.syncs())
    wait_until(lambda: len(behind.syncs()) >= seen + 3, what="three more syncs")
    assert behind.end(task).outcome is Outcome.SUCCEEDED
    assert relay.down < 1_000_000


def test_a_file_that_was_changed_here_is_fetched_again_at_the_end(stage: Stage) -> None:
    """What lies here in the end is what the job left, whatever happened to the local copy meanwhile."""
    task = stage.start(f"echo theirs > out/ck/a; {WAIT}", every_s=0.2)
    wait_until(stage.synced(1), what="a sync")
    wait_until(stage.home("ck/a").exists, what="the file is home")
    stage.home("ck/a").write_text("mine")
    assert stage.end(task).outcome is Outcome.SUCCEEDED
    assert stage.home("ck/a").read_text() == "theirs\n"


def test_a_lost_host_leaves_what_the_last_sync_held(behind: Stage, relay: Relay) -> None:
    """The machine is gone for good after a sync: host_lost, the checkpoint is here and named."""
    task = behind.start(f"echo one > out/ck/a; {WAIT}")
    wait_until(behind.home("ck/a").exists, what="the checkpoint is home")
    wait_until(behind.synced(1), what="its receipt")
    relay.refuse()
    result = task.result()
    assert result.outcome is Outcome.HOST_LOST, result.reason
    assert behind.home("ck/a").read_text() == "one\n"
    assert any("is here, whole (1 file in" in p for p in result.collected.problems), result.collected
    relay.heal()
    behind.go.touch()


def test_the_second_run_goes_on_from_the_checkpoint(behind: Stage, relay: Relay) -> None:
    """The same job again: the local checkpoint goes up first, is told, is in the custody receipt, and
    doesn't travel back as long as the job leaves it."""
    behind.go.touch()
    count = 'n=$(cat "$GIPPER_CHECKPOINT_DIR/n" || echo 0); echo $((n+1)) > "$GIPPER_CHECKPOINT_DIR/n"'
    big = "[ -e out/ck/big ] || head -c 3000000 /dev/urandom > out/ck/big"
    assert behind.run(f"{count}; {big}").outcome is Outcome.SUCCEEDED
    assert behind.home("ck/n").read_text() == "1\n"
    relay.reset_counts()
    assert behind.run(f"{count}; {big}").outcome is Outcome.SUCCEEDED
    assert behind.home("ck/n").read_text() == "2\n"
    assert any("going on from the checkpoint in" in s for s in behind.listener.steps)
    (upload,) = behind.gipper.ledger.read(kinds={"custody.upload"})
    assert sorted(f[0] for f in upload["files"]) == ["out/ck/big", "out/ck/n"]
    assert relay.down < 1_000_000


def test_inputs_win_over_an_earlier_checkpoint(stage: Stage) -> None:
    """Where an input puts a file, the checkpoint's is not sent, and that is said."""
    stage.go.touch()
    stage.home("ck").mkdir(parents=True)
    stage.home("ck/a").write_text("old checkpoint\n")
    stage.home("ck/b").write_text("b\n")
    (stage.folder / "a").write_text("input\n")
    result = stage.run("cat out/ck/a out/ck/b", inputs=(Input(src="a", dst="out/ck/a"),))
    assert result.outcome is Outcome.SUCCEEDED, result.reason
    assert stage.listener.logged == b"input\nb\n"
    assert any("inputs win over the checkpoint for out/ck/a" in w for w in stage.listener.warnings)


def test_an_input_below_the_machines_home(stage: Stage) -> None:
    """A dst that begins with ~/ is the home folder there."""
    stage.go.touch()
    (stage.folder / "a").write_text("x\n")
    result = stage.run('cat "$HOME/below/a"', inputs=(Input(src="a", dst="~/below/a"),))
    assert result.outcome is Outcome.SUCCEEDED, result.reason
    assert stage.listener.logged == b"x\n"


def test_an_input_that_becomes_dirty_ends_the_run_as_the_users_mistake(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that got into an input after the survey: exit 2, one machine, ended; no second one."""
    key = "acme-secret-key-0123456789"
    monkeypatch.setattr(stage.gipper, "_key_names", lambda: ("ACME_API_KEY",))
    stage.gipper.env["ACME_API_KEY"] = key
    (stage.folder / "a").write_text("clean")
    launch = stage.launch("true", inputs=(Input(src="a"),))

    def preflight(*_given: object) -> dict[str, str]:
        (stage.folder / "a").write_text(key)
        return {}

    launch.preflight = preflight
    result = launch.run(Interrupts(stage.runtime))
    assert result.exit_code == 2, result
    assert "ACME_API_KEY" in result.reason and key not in result.reason
    assert stage.market.alive() == [] and len(stage.market.machines) == 1


def test_a_later_client_goes_on_with_checkpoints(stage: Stage) -> None:
    """The first client is gone without a word after a sync: attach syncs on, and nothing travels twice."""
    task = _left_behind(stage, f"echo one > out/ck/a; {WAIT}")
    run = _run_id(stage)
    assert stage.syncs() == []
    taken = Takeover(stage.gipper, run, stage.listener)
    resumption = taken.resumption(Interrupts(stage.runtime), "attach")
    going = stage.spawned(resumption.go_on)
    wait_until(stage.synced(2), what="syncs by attach")
    assert stage.home("ck/a").read_text() == "one\n"
    assert stage.end(going).outcome is Outcome.SUCCEEDED
    assert [path for r in stage.syncs() for path, *_ in r["files"]] == ["a"]
    assert task.outcome is Outcome.DETACHED


def _left_behind(stage: Stage, command: str) -> RunResult:
    launch = stage.launch(command)
    launch.leave = True
    return launch.run(Interrupts(stage.runtime))


def _run_id(stage: Stage) -> str:
    return str(next(iter(stage.gipper.ledger.read(kinds={"run.start"}))).run)


def test_what_was_kept_is_read_by_the_next_process(tmp_path: Path) -> None:
    """The list of what came survives odd names; a damaged or newer one only means to fetch again."""
    from gipper.remote import Known

    one = Known(size=1, mtime_ns=2, inode=3, sha256="x", here_ns=4)
    kept = Kept(tmp_path)
    kept.replace("out/", {"a": one, os.fsdecode(b"\xff\xe9"): one, "é": one})
    kept.replace("outer", {"": one})
    again = Kept(tmp_path)
    assert again.below("out") == {"a": one, os.fsdecode(b"\xff\xe9"): one, "é": one}
    assert again.below("outer") == {"": one}
    assert set(again.below(".")) == {"out/a", os.fsdecode(b"out/\xff\xe9"), "out/é", "outer"}
    kept.replace("out/x", {})
    kept.replace("out", {"b": one})
    assert set(Kept(tmp_path).below(".")) == {"out/b", "outer"}
    (tmp_path / "fetched.json").write_text(json.dumps({"schema": 99, "files": {}}))
    assert Kept(tmp_path).below(".") == {}
    (tmp_path / "fetched.json").write_text("{")
    assert Kept(tmp_path).below(".") == {}
    assert Kept(tmp_path).whole() is None
