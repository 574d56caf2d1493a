"""However the job ends: its outputs come home, its machine is given back, and the exit code says which."""

from __future__ import annotations

import signal
import time

import pytest
from support_cli import World

TINY_HOURS = {"max_usd": 0.5, "max_hours": 0.0003}  # about a second


def test_a_job_that_exits_with_7(user: World) -> None:
    """Exit 1, the 7 is told, the outputs are salvaged and the machine is gone."""
    done = user.gipper("pod", "run", user.job("mkdir out; echo half > out/a; exit 7"))
    assert done.code == 1, done.all
    assert "exited with 7" in done.err and "gone: not listed" in done.out
    assert user.out("a").read_text() == "half\n"
    assert user.receipts("job.end")[0]["exit_code"] == 7
    assert user.ends() == ["failed"]
    user.sound()


@pytest.mark.parametrize("name", ["SEGV", "KILL"])
def test_a_job_that_is_killed_by_a_signal(user: World, name: str) -> None:
    """Exit 1, and the signal is told by its name."""
    done = user.gipper("pod", "run", user.job(f"mkdir out; echo half > out/a; kill -{name} $$"))
    assert done.code == 1, done.all
    assert f"SIG{name}" in done.err
    assert user.out("a").read_text() == "half\n"
    assert user.receipts("job.end")[0]["signal"] == f"SIG{name}"


def test_a_job_past_its_hours(user: World) -> None:
    """It is ended at `max_hours`, told as a timeout, salvaged, exit 1."""
    job = user.job("mkdir out; echo half > out/a; sleep 600", budget=TINY_HOURS)
    done = user.gipper("pod", "run", job)
    assert done.code == 1, done.all
    assert "timeout" in done.err and "limit" in done.err
    assert user.out("a").read_text() == "half\n"
    assert user.ends() == ["timeout"]
    assert user.receipts("job.end")[0]["timed_out"] is True
    user.sound()


def test_a_job_that_ignores_term(user: World) -> None:
    """What doesn't hear TERM is killed after the grace, its children with it, and it is still a timeout."""
    user.settings(limits={"kill_grace": 1})
    command = (
        "mkdir out; echo half > out/a; trap '' TERM; (trap '' TERM; sleep 611) & while :; do sleep 1; done"
    )
    begun = time.monotonic()
    done = user.gipper("pod", "run", user.job(command, budget=TINY_HOURS))
    assert done.code == 1, done.all
    assert user.ends() == ["timeout"]
    assert time.monotonic() - begun < 25
    assert not [p for p in user.processes().values() if "sleep" in p]


def test_set_up_that_fails(user: World) -> None:
    """A failed `run.setup` is told as such, and the command never runs."""
    job = user.job("x", run={"setup": "exit 3", "command": "mkdir out; touch out/ran"})
    done = user.gipper("pod", "run", job)
    assert done.code == 1, done.all
    assert "setup exited with 3" in done.err
    assert not user.out("ran").exists()
    user.sound()


def test_outputs_that_the_job_never_made(user: World) -> None:
    """A command that exits with 0 but leaves no output is no success: it is named, exit 1."""
    done = user.gipper("pod", "run", user.job("true"))
    assert done.code == 1, done.all
    assert "out" in done.err and "not home" in done.err
    user.sound()


def test_d_052_detached_start(user: World) -> None:
    """A long job's start returns within 5 s, although its streams stay open."""
    running = user.start("pod", "run", user.job("mkdir out; (sleep 60 &) ; sleep 60"))
    user.wait_for("pod.ready")
    begun = time.monotonic()
    user.wait_for("job.start")
    assert time.monotonic() - begun < 5
    running.signal(signal.SIGINT)
    assert running.wait().code == 130
    user.sound()


def test_d_052_a_start_that_fails_is_no_start(user: World) -> None:
    """Where the job's work folder turns out to be a file: exit not 0, told, no `job.start`, none left."""
    (user.work / "file").write_text("x")
    inputs = [{"src": "file", "dst": "~/gipper"}]
    done = user.gipper("pod", "run", user.job("mkdir out; touch out/a", inputs=inputs))
    assert done.code != 0 and "Traceback" not in done.all, done.all
    assert "job.start" not in user.kinds()
    assert user.machines() == []
