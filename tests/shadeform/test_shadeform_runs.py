"""Whole runs on an emulated Shadeform: its API over loopback, machines with a real sshd, and no root in them."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from emulators import faults
from emulators.housing import Gpu
from emulators.shadeform.app import SOLD_OUT
from emulators.shadeform.catalog import at, kind
from emulators.shadeform.guests import Guest
from emulators.shadeform.market import PRIVATE
from stubs.gpu_stubs import build_driver, card
from support_cli import until
from support_markets import ShadeformWorld, shadeform_world

Make = Callable[..., AbstractContextManager[ShadeformWorld]]
needs_root = pytest.mark.skipif(
    os.getuid() != 0 and not os.environ.get("CI"),
    reason="only root may make a machine with users and processes of its own",
)
pytestmark = [needs_root, pytest.mark.slow, pytest.mark.timeout(300)]
SAYS = "mkdir out; nvidia-smi --query-gpu=name --format=csv,noheader >out/x"
FIRST = kind("massedcompute", "RTX4090", cents=50, vram=24)
SECOND = kind("hyperstack", "A5000", cents=60, vram=24, places=[at("oslo-norway-1", "NO, Oslo")])
A5000 = Gpu(cards=[card(name="NVIDIA RTX A5000", compute_cap="8.6")])


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_driver(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def shadeform(tmp_path: Path, driver: Path) -> Iterator[Make]:
    def make(*kinds: dict[str, Any], **changes: Any) -> AbstractContextManager[ShadeformWorld]:
        changes.setdefault("hosts", {"hyperstack/oslo-norway-1": A5000})
        return shadeform_world(tmp_path, driver, kinds, **changes)

    yield make


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        number: int = sock.getsockname()[1]
        return number


def test_a_run_as_an_ordinary_user(shadeform: Make) -> None:
    """Outputs come home, the machine is gone, and ls, hosts, account and cost agree; the job is no root's."""
    with shadeform() as world:
        port = free_port()
        command = 'mkdir out; { id -un; pwd; env | grep "^GIPPER_P" | sort; } | tee out/x; nvidia-smi -L'
        done = world.user.gipper(
            "pod", "run", world.job(command, pod={"ports": [f"{port}/tcp"]}), timeout=150
        )
        assert done.code == 0, done.all
        told = world.user.out("x").read_text()
        assert told.startswith("shadeform\n/home/shadeform/gipper/")
        assert f"GIPPER_PORT_{port}_TCP={port}" in told and "GIPPER_PUBLIC_IP=127.0.0.1" in told
        world.gone()
        world.user.sound()
        assert json.loads(world.user.gipper("pod", "ls", "--json").out) == []
        assert "massedcompute/desmoines-usa-1" in world.user.gipper("pod", "hosts").out
        assert "tells nothing of accounts" in world.user.gipper("pod", "account").out
        assert json.loads(world.user.gipper("pod", "cost", "--json").out)[0]["outcome"] == "succeeded"
        (check,) = [r for r in world.user.receipts("preflight") if "firewall" in r["facts"]]
        assert "shadeform" in check["check"] and check["verdict"] == "passed"
        assert {**check["facts"], "boot": None} == {
            "root": True,
            "driver": True,
            "firewall": "none",
            "boot": None,
        }
        assert [r["pod"] for r in world.user.receipts("watchdog.armed")] == list(world.market.instances)


def test_its_firewall_is_opened_for_the_job(shadeform: Make) -> None:
    """An active UFW lets in the job's ports, by sudo, and is neither switched on nor off (reference: UFW)."""
    with shadeform() as world:
        world.housing.prepare = Guest.ufw
        port = free_port()
        done = world.user.gipper(
            "pod", "run", world.job(SAYS, pod={"ports": [f"{port}/tcp", f"{port}/udp"]}), timeout=150
        )
        assert done.code == 0, done.all
        (guest,) = world.housing.made
        assert guest.opened == [f"{port}/tcp", f"{port}/udp"]
        assert not [c for c in guest.calls if "enable" in c or "disable" in c]
        world.gone()


def test_neither_key_is_where_it_shouldn_t_be(shadeform: Make) -> None:
    """The account's key is in its header alone: in no file here or there, in no output; nor is the market's own
    private key, which its list of keys tells (field cases D-048, D-080)."""
    with shadeform() as world:
        done = world.user.gipper("pod", "run", world.job("mkdir out; env >out/x"), timeout=150)
        assert done.code == 0, done.all
        secrets = (world.market.key, PRIVATE.splitlines()[1])
        files = [f for f in world.user.home.parent.rglob("*") if f.is_file()]
        assert world.user.out("x") in files
        assert not [f for f in files if any(s.encode() in f.read_bytes() for s in secrets)]
        assert not any(s in done.all for s in secrets) and world.app.leaks == []


def test_d_015_sold_out_leads_to_the_next_offer(shadeform: Make) -> None:
    """Another offer at once, nobody blamed, one create each."""
    with shadeform(FIRST, SECOND) as world:
        world.app.faults.script("create", faults.status(409, SOLD_OUT))
        done = world.user.gipper("pod", "run", world.job(SAYS), timeout=150)
        assert done.code == 0 and "A5000" in world.user.out("x").read_text(), done.all
        assert world.market.creates == 1 and len(world.app.seen("create")) == 2
        assert not [r for r in world.user.receipts("pod.terminate") if r["blame"]]
        world.gone()


def test_d_017_the_create_s_answer_is_lost(shadeform: Make) -> None:
    """A gateway error after the machine was made: no second create, and the one that is there is used (D-016)."""
    with shadeform() as world:
        world.app.faults.script("create", faults.status(504, "<html>gateway</html>", after=True))
        done = world.user.gipper("pod", "run", world.job(SAYS), timeout=240)
        assert done.code == 0, done.all
        assert len(world.app.seen("create")) == world.market.creates == 1
        assert [r["adopted"] for r in world.user.receipts("pod.create")] == [True]
        world.gone()
        world.user.sound()


def test_d_027_a_machine_that_could_not_be_built(shadeform: Make) -> None:
    """Its text is told, its row deleted, its cloud and region blamed, and the next offer does the work."""
    with shadeform(FIRST, SECOND, late_error="boot disk is broken") as world:
        running = world.user.start("pod", "run", world.job(SAYS))
        until(lambda: world.market.asked_to_end, "the broken one deleted", 90)
        world.market.knobs.late_error = None
        done = running.wait(150)
        assert done.code == 0 and "boot disk is broken" in done.all, done.all
        hosts = json.loads(world.user.gipper("pod", "hosts", "--json").out)
        assert {h["host"]: h["bad"] for h in hosts["machines"]}["massedcompute/desmoines-usa-1"] == 1
        world.gone()


def test_a_machine_that_is_taken_away_from_a_job(shadeform: Make) -> None:
    """Preempted while it works: the run ends as lost, the books are closed, the command isn't run again."""
    with shadeform() as world:
        running = world.user.start("pod", "run", world.job("mkdir out; sleep 600"))
        world.user.wait_for("job.start", seconds=90)
        world.market.preempt(world.market.alive()[0])
        done = running.wait(150)
        assert done.code not in (0, 5) and world.market.creates == 1, done.all
        assert len(world.user.receipts("spend")) == 1
        assert not [r for r in world.user.receipts("pod.terminate") if r["blame"]]
        world.gone()


def test_kill_9_and_a_stop_after_it(shadeform: Make) -> None:
    """The client dies for good; stop leaves no machine and one spend."""
    with shadeform() as world:
        running = world.user.start("pod", "run", world.job("mkdir out; sleep 600"))
        world.user.wait_for("job.start", seconds=90)
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
        run = world.user.receipts("run.start")[0].run
        stopped = world.user.gipper("pod", "stop", run, timeout=150)
        assert stopped.code in (1, 4), stopped.all
        world.gone()
        assert len(world.user.receipts("spend")) == 1


class Later:
    """The market's clock, set on by so much."""

    def __init__(self, runtime: Any, by: timedelta) -> None:
        self._runtime, self._by = runtime, by

    def now(self) -> datetime:
        return self._runtime.now() + self._by

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)


def test_what_each_layer_stops_once_everybody_left(shadeform: Make) -> None:
    """Client killed for good and no reaper. At its end plus 10 minutes, by its own clock, the machine powers itself
    off: the work ends and the bill doesn't. An hour after its end the market's timer deletes it, and that ends the
    bill. Before each moment neither does anything."""
    with shadeform(own_clock=True) as world:
        running = world.user.start("pod", "run", world.job("mkdir out; /bin/sleep 600"))
        world.user.wait_for("job.start", seconds=90)
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
        (guest,), (made,) = world.housing.made, world.market.instances.values()
        end = datetime.fromisoformat(world.user.receipts("pod.intent")[0]["end"])
        left = (end - datetime.now(UTC)).total_seconds() + 600
        guest.advance(left - 100)
        time.sleep(1.5)
        assert not guest.is_off
        guest.advance(220)
        until(lambda: guest.is_off, "the machine powered itself off", 60)
        assert made.alive and world.market.asked_to_end == []
        real, timer = world.market.runtime, end + timedelta(minutes=60)
        for seconds, alive in ((-5, True), (5, False)):
            world.market.runtime = Later(real, timer - real.now() + timedelta(seconds=seconds))
            assert bool(world.market.alive()) is alive
        assert made.deleting == timer and world.market.asked_to_end == []
