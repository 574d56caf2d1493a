"""`gipper` as people type it, on a box: whole runs, a killed client, and nobody left but the box."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support_box import Box, until

GIPPER = Path(sys.executable).with_name("gipper")
LIMITS = "ready_min = 5\nchecks = 5\nsetup_min = 1\nupload_min = 1\ncollect_min = 5\nwatchdog_grace = 1\nkill_grace = 1"


class User:
    """Somebody with a home, a box and gipper."""

    def __init__(self, home: Path, box: Box) -> None:
        self.home = home
        self.box = box
        home.mkdir()
        (home / "boxes.toml").write_text(box.entry())
        (home / "config.toml").write_text(
            f'[provider.ssh]\ninventory = "{home}/boxes.toml"\n[limits]\n{LIMITS}\n[safety]\nrequire_watchdog = true\n'
        )
        self.env = {
            "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(home),
            "GIPPER_DATA": str(home / "data"), "GIPPER_CONFIG": str(home / "config.toml"),
            "GIPPER_KEYS": str(home / "keys"),
        }  # fmt: skip
        self.running: list[subprocess.Popen[bytes]] = []

    def job(self, command: str, hours: float = 0.02) -> Path:
        """A job file without GPUs; what is in `out` comes home."""
        (self.home / "in.txt").write_text("some input\n")
        path = self.home / "job.toml"
        path.write_text(
            'name = "e2e"\n[gpu]\ncount = 0\nproviders = ["ssh"]\n[[inputs]]\nsrc = "in.txt"\n'
            f'[[outputs]]\nsrc = "out"\ndst = "home-out"\n[run]\ncommand = """\n{command}\n"""\n'
            f"[budget]\nmax_usd = 1.0\nmax_hours = {hours}\n[placement]\nsetup_s = 0\ncompute_s = 1\n"
        )
        return path

    def gipper(self, *args: object) -> subprocess.CompletedProcess[str]:
        """One command to its end."""
        return subprocess.run(
            [GIPPER, *map(str, args)], env=self.env, cwd=self.home, capture_output=True, timeout=90, check=False,
            stdin=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    def start(self, *args: object) -> subprocess.Popen[bytes]:
        """One command beside the test."""
        with (self.home / "told").open("wb") as told:
            process = subprocess.Popen(
                [GIPPER, *map(str, args)], env=self.env, cwd=self.home, stdin=subprocess.DEVNULL, stdout=told,
                stderr=told, start_new_session=True,
            )  # fmt: skip
        self.running.append(process)
        return process

    def killed_while_the_job_runs(self, job: Path) -> None:
        """Start a run, and kill its client once the command is under way on the box."""
        client = self.start("pod", "run", job)
        begun = lambda: (self.box.home / "begun").exists() or client.poll() is not None  # noqa: E731
        until(begun, "the command runs")
        assert client.poll() is None, (self.home / "told").read_text()
        client.send_signal(signal.SIGKILL)
        client.wait()

    def kinds(self) -> list[str]:
        """Kinds of all receipts of all runs."""
        files = sorted((self.home / "data").glob("runs/*/receipts.jsonl"))
        return [json.loads(line)["kind"] for file in files for line in file.read_text().splitlines()]


@pytest.fixture
def user(box: Box, tmp_path: Path) -> Iterator[User]:
    """A user; at the end none of their commands runs."""
    user = User(tmp_path / "user", box)
    yield user
    for process in user.running:
        if process.poll() is None:
            process.kill()
            process.wait()


def _as_before(box: Box) -> None:
    """The box is up, and nothing of gipper's is on it but the lock."""
    assert box.alive()
    assert sorted(p.name for p in box.home.iterdir() if p.name not in ("begun", "go")) == [
        ".gipper-ssh",
        ".ssh",
    ]
    assert [p.name for p in (box.home / ".gipper-ssh").iterdir()] == ["lock"]
    assert box.authorized_keys.read_text().rstrip("\n") == f"# mine\n{box.owner}"
    left = [
        Path(f"/proc/{pid}/cmdline").read_bytes() for pid in box.processes() if Path(f"/proc/{pid}").exists()
    ]
    assert [line for line in left if b"gipper" in line] == []


def test_a_whole_run(user: User, box: Box) -> None:
    """Inputs up, the job, outputs home, the watchdog armed in between, the end proved, the box as before."""
    done = user.gipper(
        "pod", "run", user.job("mkdir out; tr a-z A-Z <in.txt >out/a; sleep 600 & echo $HOME >out/home")
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (user.home / "home-out" / "a").read_text() == "SOME INPUT\n"
    assert (user.home / "home-out" / "home").read_text() == f"{box.home}\n"
    kinds = user.kinds()
    for kind in ("watchdog.armed", "pod.terminated", "spend", "run.end"):
        assert kinds.count(kind) == 1, kinds
    _as_before(box)
    assert user.gipper("ledger", "verify").returncode == 0


def test_offers_are_shown(user: User) -> None:
    """`gipper pod estimate` ranks the box, with its price."""
    done = user.gipper("pod", "estimate", user.job("true"))
    assert done.returncode == 0 and "0.25" in done.stdout, done.stdout + done.stderr


def test_a_failed_job_frees_the_box(user: User, box: Box) -> None:
    """A command that fails ends the lease like one that doesn't."""
    assert user.gipper("pod", "run", user.job("mkdir out; exit 3")).returncode not in (0, 5)
    _as_before(box)


def test_killed_client_then_reap(user: User, box: Box) -> None:
    """kill -9 ends neither job nor lease; once the job is done, `pod reap` brings its outputs and frees the box."""
    command = f"touch ~/begun; until [ -e {box.home}/go ]; do sleep 0.1; done; mkdir out; echo done >out/a"
    user.killed_while_the_job_runs(user.job(command))
    assert "name=gipper-" in box.lease.read_text()
    user.gipper("pod", "reap")
    assert box.lease.exists()
    (box.home / "go").touch()
    until(lambda: list(box.home.glob("gipper/*/rc")), "the job ended")
    done = user.gipper("pod", "reap")
    assert (user.home / "home-out" / "a").read_text() == "done\n", done.stdout + done.stderr
    _as_before(box)


def test_killed_client_and_nobody_else(user: User, box: Box) -> None:
    """With the client dead and no reaper, the box's own watchdog ends the lease when its time is over."""
    user.killed_while_the_job_runs(user.job("touch ~/begun; trap '' TERM; sleep 600", hours=3 / 3600))
    assert (box.home / ".gipper-watchdog" / "run").exists()
    until(lambda: not box.lease.exists(), "the watchdog freed the box", 130.0)
    until(lambda: not [p for p in box.processes() if _runs_gipper(p)], "the watchdog itself ended")
    _as_before(box)
    user.gipper("pod", "reap")
    assert user.kinds().count("pod.terminated") == 1


def _runs_gipper(pid: int) -> bool:
    try:
        return b"gipper" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
