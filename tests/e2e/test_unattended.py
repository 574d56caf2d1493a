"""The client is killed for good: the machine ends itself, or a reaper ends it, and the ledger is made whole."""

from __future__ import annotations

import signal
from datetime import UTC, datetime

import pytest
from support_cli import Orphan, World, until


def test_d_069_a_reaper_leaves_it_alone_before_its_end(orphans: dict[str, Orphan]) -> None:
    """Before the end the reaper leaves a machine whose job may still run, and a dry run changes nothing."""
    orphan = orphans["overdue"]
    user = orphan.user
    assert datetime.now(UTC) < _end(user)
    before = user.kinds()
    for words in (["pod", "reap", "--dry-run"], ["pod", "reap"]):
        done = user.gipper(*words)
        assert done.code == 0, done.all
        assert f"left local {orphan.machine}" in done.out and "nobody supervises it" in done.out
    assert user.kinds() == before
    assert len(user.machines()) == 1
    assert "running" in user.gipper("pod", "ls").out


@pytest.mark.slow
def test_d_069_a_reaper_ends_it_past_its_end(orphans: dict[str, Orphan]) -> None:
    """Past its end `reap --dry-run` only says so, `reap` ends it and says why; the ledger is whole."""
    orphan = orphans["overdue"]
    user = orphan.user
    until(lambda: datetime.now(UTC) > _end(user), "the machine's end", 90)
    before = user.kinds()
    dry = user.gipper("pod", "reap", "--dry-run")
    assert f"would end local {orphan.machine}" in dry.out and "past its end" in dry.out, dry.all
    assert user.kinds() == before and len(user.machines()) == 1
    done = user.gipper("pod", "reap")
    assert done.code == 0 and f"ended local {orphan.machine}" in done.out and "past its end" in done.out, (
        done.all
    )
    assert user.machines() == []
    _told_once(user)


@pytest.mark.slow
def test_d_069_a_machine_without_anybody_ends_itself(orphans: dict[str, Orphan]) -> None:
    """No client and no reaper: at its time machine, job and folder are gone; reap then closes the books."""
    orphan = orphans["alone"]
    user = orphan.user
    until(lambda: not user.processes() and not user.machines(), "the machine's own end", 100)
    late = (datetime.now(UTC) - _end(user)).total_seconds()
    assert late > 0
    assert "run.end" not in user.kinds()
    done = user.gipper("pod", "reap")
    assert done.code == 0 and f"closed local {orphan.machine}" in done.out, done.all
    assert user.receipts("spend")[0]["basis"] == "upper bound"
    _told_once(user)


def test_an_unfinished_teardown_is_retried(user: World) -> None:
    """A client killed between `pod.terminate` and its proof: reap retries, proves, and closes the books."""
    for number in range(1, 6):
        client = user.start("pod", "run", user.job("mkdir out; touch out/a"))
        user.wait_for("pod.terminate", number)
        client.signal(signal.SIGKILL)
        client.wait()
        if user.kinds().count("pod.terminated") < number:
            break
    else:
        pytest.fail("the client was never killed in time")
    done = user.gipper("pod", "reap")
    assert done.code == 0 and "retried local" in done.out, done.all
    user.sound()


def test_killed_between_proof_and_books(user: World) -> None:
    """A client killed right after `pod.terminated` leaves spend and end to the next reap, each once."""
    client = user.start("pod", "run", user.job("mkdir out; touch out/a"))
    user.wait_for("pod.terminated")
    client.signal(signal.SIGKILL)
    client.wait()
    assert user.gipper("pod", "reap").code == 0
    assert user.gipper("pod", "reap").code == 0
    _told_once(user)


@pytest.mark.parametrize("kind", ["pod.intent", "pod.create", "custody.upload"])
def test_killed_before_the_job_started(user: World, kind: str) -> None:
    """Whenever the client dies before its job began, `pod ls` shows what is left and reap ends it."""
    (user.work / "in").write_text("x")
    client = user.start("pod", "run", user.job("sleep 600", inputs=[{"src": "in", "dst": "in"}]))
    user.wait_for(kind)
    client.signal(signal.SIGKILL)
    client.wait()
    assert "job.start" not in user.kinds()
    listed = user.gipper("pod", "ls").lines
    assert len(listed) - 1 == len(user.machines()) <= 1
    done = user.gipper("pod", "reap")
    assert done.code == 0, done.all
    assert user.machines() == [], done.all
    assert user.gipper("ledger", "verify").code == 0
    if "pod.create" in user.kinds():
        _told_once(user)


def _told_once(user: World) -> None:
    assert len(user.receipts("spend")) == len(user.receipts("run.end")) == 1
    user.sound()


def _end(user: World) -> datetime:
    text = str(user.receipts("pod.intent")[0]["end"])
    return datetime.fromisoformat(text)
