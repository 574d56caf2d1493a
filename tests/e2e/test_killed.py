"""`kill -9` of the client at every receipt of a run: afterwards one command cleans up, and nothing is lost."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from support_cli import World, distribution, until

from gipper.values.receipts import parse_stamp

# A plugin that ends its own process, as kill -9 does, when a receipt of one kind was stored.
KILLER = """
import os, signal
import gipper.api as api

@api.hookimpl
def gipper_receipt_written(receipt):
    if receipt.kind == os.environ.get("KILL_AT"):
        os.kill(os.getpid(), signal.SIGKILL)
"""
COMMAND = "mkdir out; for i in 1 2 3 4 5; do echo line $i; sleep 0.1; done; echo done > out/a"
LOG = b"line 1\nline 2\nline 3\nline 4\nline 5\n"


@pytest.fixture
def user(user: World) -> World:
    """A user with the killer installed and small limits."""
    site = user.home / "site"
    distribution(
        site, "gipper-killer", {"killer_plugin": KILLER}, {"gipper.plugins": {"killer": "killer_plugin"}}
    )
    user.env["PYTHONPATH"] = str(site)
    user.settings(
        limits={
            "ready_min": 1,
            "checks": 1,
            "setup_min": 1,
            "upload_min": 1,
            "collect_min": 5,
            "watchdog_grace": 5,
        }
    )
    return user


def _killed_at(user: World, kind: str) -> str:
    job = user.job(
        COMMAND, budget={"max_usd": 1.0, "max_hours": 10 / 3600}, inputs=[{"src": "in.txt", "dst": "in.txt"}]
    )
    (user.work / "in.txt").write_text("x")
    done = user.gipper("pod", "run", job, env={"KILL_AT": kind})
    assert done.code == -9, done.all
    assert user.kinds()[-1] == kind
    return str(user.receipts("run.start")[0].run)


def _clean(user: World) -> None:
    assert user.machines() == []
    assert [len(user.receipts(kind)) for kind in ("spend", "run.end")] == [1, 1]
    user.sound()


@pytest.mark.parametrize("kind", ["pod.create", "pod.ready", "watchdog.armed", "custody.upload"])
def test_killed_before_the_job_started(user: World, kind: str) -> None:
    """Nothing was run: attach gives the machine back, one spend, one end."""
    run = _killed_at(user, kind)
    done = user.gipper("pod", "attach", run)
    assert done.code == 4 and "nothing was run" in done.all, done.all
    _clean(user)


@pytest.mark.parametrize("kind", ["job.start", "job.end", "sync"])
def test_killed_while_the_job_is_there(user: World, kind: str) -> None:
    """Attach follows to the end: outputs home, the log byte-exact, exit as `run` would."""
    run = _killed_at(user, kind)
    done = user.gipper("pod", "attach", run)
    assert done.code == 0, done.all
    assert user.out("a").read_text() == "done\n"
    assert _log(user, run) == LOG
    _clean(user)


@pytest.mark.parametrize("kind", ["job.start", "job.end", "sync"])
def test_a_reaper_collects_what_is_finished(user: World, kind: str) -> None:
    """One pass, once the job is over: outputs home, machine gone, log whole."""
    run = _killed_at(user, kind)
    until(lambda: "collected" in user.gipper("pod", "reap").out, "the job's end", 20)
    assert user.out("a").read_text() == "done\n"
    assert _log(user, run) == LOG
    _clean(user)


@pytest.mark.parametrize("kind", ["pod.terminate", "pod.terminated"])
def test_killed_in_the_teardown(user: World, kind: str) -> None:
    """The next reap finishes it at once; what was home stays home."""
    _killed_at(user, kind)
    done = user.gipper("pod", "reap")
    assert done.code == 0, done.all
    assert user.out("a").read_text() == "done\n"
    _clean(user)


@pytest.mark.parametrize("kind", ["spend", "run.end"])
def test_killed_when_all_is_over(user: World, kind: str) -> None:
    """Nothing is left to do, and nothing is counted twice."""
    _killed_at(user, kind)
    assert "nothing to reap" in user.gipper("pod", "reap").out
    assert len(user.receipts("spend")) == 1
    assert user.machines() == []
    user.sound()


@pytest.mark.parametrize("kind", ["run.start", "estimate"])
def test_killed_before_the_intent(user: World, kind: str) -> None:
    """No machine, no reservation: the next run isn't hindered."""
    _killed_at(user, kind)
    assert "nothing to reap" in user.gipper("pod", "reap").out
    assert user.gipper("pod", "run", user.work / "job.toml").code == 0


@pytest.mark.slow
def test_killed_at_the_intent(user: World) -> None:
    """Nobody knows whether a machine came: looked for until the end, then the reservation is freed."""
    _killed_at(user, "pod.intent")
    assert "left local" in user.gipper("pod", "reap").out
    end = parse_stamp(user.receipts("pod.intent")[0]["end"])
    until(lambda: datetime.now(UTC) > end, "the machine's end", 90)
    assert "closed local" in user.gipper("pod", "reap").out
    assert user.kinds()[-3:] == ["pod.create_failed", "run.end", "reap"]
    user.sound()


def _log(user: World, run: str) -> bytes:
    return Path(user.env["GIPPER_DATA"], "runs", run, "log").read_bytes()
