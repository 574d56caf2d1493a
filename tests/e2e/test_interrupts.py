"""Ctrl-C, SIGTERM and SIGHUP at every moment: no machine is left, and the exit code says what happened."""

from __future__ import annotations

import re
from signal import SIGHUP, SIGINT, SIGTERM, Signals

import pytest
from support_cli import Background, World, until

LONG = "mkdir out; echo half > out/a; echo begun; sleep 600"
STUBBORN = f"trap '' TERM; {LONG}; sleep 600"


def _running(user: World, command: str = LONG) -> Background:
    running = user.start("pod", "run", user.job(command))
    running.wait_for_text("begun")
    return running


@pytest.mark.parametrize("number", [SIGINT, SIGTERM, SIGHUP])
def test_d_060_asked_once_while_the_job_runs(user: World, number: Signals) -> None:
    """The job is ended, its outputs come home, the machine is proved gone, exit 130."""
    running = _running(user)
    running.signal(number)
    done = running.wait()
    assert done.code == 130, done.all
    assert user.out("a").read_text() == "half\n"
    assert "gone: not listed" in done.out
    assert user.ends() == ["interrupted"]
    user.sound()


def test_d_060_asked_twice(user: World) -> None:
    """The second Ctrl-C waits for no grace and skips collecting; the machine is proved gone, exit 130."""
    user.settings(limits={"kill_grace": 600})
    running = _running(user, STUBBORN)
    running.signal(SIGINT)
    running.wait_for_text("asked to stop")
    running.signal(SIGINT)
    done = running.wait(25)
    assert done.code == 130, done.all
    assert not user.out("a").exists()
    assert "not collected, as asked" in done.err and "gone: not listed" in done.out
    assert "gipper: bringing outputs home" not in done.err
    user.sound()


def test_d_060_asked_three_times(user: World) -> None:
    """The third leaves at once with 5, says which machine is left and what ends it; reap leaves none."""
    user.settings(limits={"kill_grace": 600}, provider={"local": {"usd_h": 0.25}})
    running = _running(user, STUBBORN)
    machine = str(user.receipts("pod.create")[0]["pod"])
    for told in ("asked to stop", "asked twice"):
        running.signal(SIGINT)
        running.wait_for_text(told)
    running.signal(SIGINT)
    done = running.wait(10)
    assert done.code == 5, done.all
    assert machine in done.err and "$0.250/h" in done.err and "gipper pod reap" in done.err
    reaped = user.gipper("pod", "reap")
    if user.machines():  # no teardown had begun: the job may still run, so only its end ends it
        assert f"left local {machine}" in reaped.out, reaped.all
        _end_by_hand(user)
        reaped = user.gipper("pod", "reap")
    assert reaped.code == 0 and f"closed local {machine}" in reaped.out, reaped.all
    assert user.machines() == []
    user.sound()


def _end_by_hand(user: World) -> None:
    from gipper.core import Gipper

    for machine in Gipper.open(user.env).provider("local").list_ours():
        Gipper.open(user.env).provider("local").terminate(machine.id)
    until(lambda: not user.machines(), "the machine's end")


@pytest.mark.parametrize(
    "kind", ["run.start", "pod.intent", "pod.create", "pod.ready", "sync", "pod.terminate"]
)
def test_d_060_asked_at(user: World, kind: str) -> None:
    """Whenever Ctrl-C comes: exit 130 (0 or 1 once the job was over), none left, one whole trail."""
    running = user.start("pod", "run", user.job("mkdir out; echo x > out/a"))
    user.wait_for(kind)
    running.signal(SIGINT)
    done = running.wait()
    assert done.code == (130 if kind in ("run.start", "pod.intent", "pod.create", "pod.ready") else 0), (
        done.all
    )
    assert user.machines() == []
    user.sound()


def test_d_060_asked_during_the_upload(user: World) -> None:
    """Ctrl-C while inputs go up stops them and gives the machine back."""
    with (user.work / "big").open("wb") as big:
        big.truncate(400_000_000)
    running = user.start("pod", "run", user.job("true", inputs=[{"src": "big", "dst": "big"}]))
    user.wait_for("custody.upload")
    running.signal(SIGINT)
    done = running.wait()
    assert done.code == 130, done.all
    assert "job.start" not in user.kinds()
    user.sound()


def test_ctrl_c_before_anything_is_rented(user: World) -> None:
    """Exit 130 and nothing was rented, also where Ctrl-C comes while inputs are read."""
    with (user.work / "big").open("wb") as big:
        big.truncate(8_000_000_000)
    running = user.start("pod", "run", user.job("true", inputs=[{"src": "big", "dst": "big"}]))
    until(lambda: _reads(running.pid, "big"), "reading")
    running.signal(SIGINT)
    done = running.wait(15)
    assert done.code == 130, done.all
    assert not re.search("Traceback", done.all)
    assert "pod.intent" not in user.kinds()


def _reads(pid: int, name: str) -> bool:
    from pathlib import Path

    try:
        return any(str(p.readlink()).endswith(name) for p in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False
