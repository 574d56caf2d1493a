"""A fresh user for each end-to-end test; and two runs that nobody looks after."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support_cli import SMALL_LIMITS, Orphan, World, until, world


@pytest.fixture
def user(own_folders: Path) -> Iterator[World]:
    """A user with an empty HOME; nothing of theirs may run when the test is over."""
    with world(own_folders) as made:
        yield made


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One user for tests of a file that only need a run's traces."""
    with world(tmp_path_factory.mktemp("shared")) as made:
        yield made


@pytest.fixture(scope="module")
def orphans(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Orphan]]:
    """Two machines without clients: `alone` ends itself at its end + 1 s, `overdue` not for 10 minutes.

    Ends are whole minutes: a file of tests that uses these waits more than one.
    """
    with (
        world(tmp_path_factory.mktemp("alone")) as alone,
        world(tmp_path_factory.mktemp("overdue")) as overdue,
    ):
        yield {
            "alone": _orphaned(alone, watchdog_grace=1),
            "overdue": _orphaned(overdue, watchdog_grace=600),
        }


def _orphaned(user: World, watchdog_grace: int) -> Orphan:
    user.settings(limits={**SMALL_LIMITS, "watchdog_grace": watchdog_grace})
    job = user.job("mkdir out; echo kept > out/a; sleep 600", budget={"max_usd": 0.5, "max_hours": 0.005})
    client = user.start("pod", "run", job)
    machine = str(user.wait_for("job.start")["pod"])
    client.signal(signal.SIGKILL)
    until(lambda: client.process.poll() is not None, "the client's end")
    return Orphan(user, machine)
