"""The client is killed after a sync: what it held is home, and attach goes on from there."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support_cli import SMALL_LIMITS, World, until, world


@pytest.fixture
def user(own_folders: Path) -> Iterator[World]:
    """A user with an empty HOME; nothing of theirs may run when the test is over."""
    with world(own_folders) as made:
        yield made


def test_a_client_killed_after_a_sync(user: World) -> None:
    """kill -9 after a whole sync: the file is home at once; attach syncs on and nothing travels twice."""
    go = user.work / "go"
    user.settings(limits=SMALL_LIMITS)
    command = (
        f"echo one > $GIPPER_CHECKPOINT_DIR/a; while [ ! -e {go} ]; do sleep 0.1; done; echo end > out/b"
    )
    job = user.job(command, run={"command": command, "checkpoint": {"src": "out/ck", "every_s": 0.3}})
    client = user.start("pod", "run", job)
    until(lambda: any(r["files"] for r in user.receipts("sync")), "a sync with the file", 30)
    client.signal(signal.SIGKILL)
    until(lambda: client.process.poll() is not None, "the client's end")
    assert user.out("ck/a").read_text() == "one\n"
    run = str(user.receipts("run.start")[0].run)
    before = len(user.receipts("sync"))
    later = user.start("pod", "attach", run)
    until(lambda: len(user.receipts("sync")) > before + 1, "syncs by attach", 30)
    go.touch()
    until(lambda: later.process.poll() is not None, "the end of attach", 60)
    assert later.process.returncode == 0
    assert user.out("b").read_text() == "end\n"
    travelled = [f[0] for r in user.receipts("sync") if r["what"] == "checkpoint out/ck" for f in r["files"]]
    assert travelled == ["a"]
    assert user.machines() == []
    user.sound()
