"""A run folder that was damaged, and a place that can't be written: the machine ends all the same."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from support_cli import World

LONG = "mkdir out; echo begun; echo half > out/a; sleep 600"


def _abandoned(user: World) -> tuple[str, Path]:
    running = user.start("pod", "run", user.job(LONG))
    user.wait_for("job.start")
    running.wait_for_text("begun")
    running.signal(signal.SIGKILL)
    running.wait()
    run = str(user.receipts("run.start")[0].run)
    return run, user.data / "runs" / run


@pytest.mark.parametrize(
    ("name", "text"),
    [("state.json", '{"schema": 1}'), ("state.json", '{"schema": 1, "limits": 3}'), ("job.json", "[]"), ("job.json", "{")],
)  # fmt: skip
def test_a_damaged_run_folder_stops_neither_reap_nor_stop(user: World, name: str, text: str) -> None:
    """`reap` goes on with its pass, `stop` ends job and machine; one spend, one end."""
    run, folder = _abandoned(user)
    (folder / name).write_text(text)
    done = user.gipper("pod", "reap")
    assert done.code == 0 and "left local" in done.out and "fault of gipper" not in done.all, done.all
    done = user.gipper("pod", "stop", run)
    assert done.code == 1 and "gone: not listed" in done.out, done.all
    assert user.machines() == []
    user.sound()


def test_limits_of_a_later_version_are_passed_over(user: World) -> None:
    """A key that this version doesn't know is no reason to leave a machine alone."""
    import json

    run, folder = _abandoned(user)
    state = json.loads((folder / "state.json").read_text())
    state["limits"]["later"] = 1.0
    (folder / "state.json").write_text(json.dumps(state))
    done = user.gipper("pod", "stop", run)
    assert done.code == 1, done.all
    assert user.out("a").read_text() == "half\n"
    user.sound()


def test_a_log_folder_that_cannot_be_made_hides_nothing(user: World) -> None:
    """The run's own exit code and its four lines stay, the trouble is a note."""
    done = user.gipper("pod", "run", user.job("mkdir out; echo 1 > out/a"), "--log-dir", "/proc/nope")
    assert done.code == 0 and "could not be copied" in done.err, done.all
    assert "gone: not listed" in done.out
