"""Whole runs on an emulated Runpod: its API over loopback, machines in sandboxes with a real sshd."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from emulators import faults
from emulators.housing import Gpu
from emulators.runpod.app import NO_CAPACITY
from emulators.runpod.market import Pod, gpu
from stubs.gpu_stubs import build_driver, card
from support_cli import until
from support_markets import RunpodWorld, runpod_world

Make = Callable[..., AbstractContextManager[RunpodWorld]]
needs_root = pytest.mark.skipif(
    os.getuid() != 0 and not os.environ.get("CI"),
    reason="only root may make a machine with processes of its own",
)
pytestmark = [needs_root, pytest.mark.timeout(240)]
SAYS = "mkdir out; nvidia-smi --query-gpu=name --format=csv,noheader >out/x"
CARD = "NVIDIA GeForce RTX 4090"
FIRST = gpu(CARD, host="host-a", community=False)
A5000 = Gpu(cards=[card(name="NVIDIA RTX A5000", compute_cap="8.6")])
SECOND = gpu("NVIDIA RTX A5000", host="host-b", community=False, price={"secure": 0.7, "community": 0.6})


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_driver(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def runpod(tmp_path: Path, driver: Path) -> Iterator[Make]:
    def make(*kinds: dict[str, Any], **changes: Any) -> AbstractContextManager[RunpodWorld]:
        changes.setdefault("hosts", {"host-b": A5000})
        return runpod_world(tmp_path, driver, kinds, **changes)

    yield make


def test_a_run_with_a_tcp_port(runpod: Make) -> None:
    """Outputs come home, the machine is gone, and ls, hosts, account and cost agree."""
    with runpod() as world:
        command = 'mkdir out; env | grep "^GIPPER_P" | sort | tee out/x; nvidia-smi -L'
        done = world.user.gipper("pod", "run", world.job(command, pod={"ports": ["8000/tcp"]}), timeout=120)
        assert done.code == 0, done.all
        (pod,) = world.market.pods.values()
        told = world.user.out("x").read_text()
        assert f"GIPPER_PORT_8000_TCP={pod.outside[8000, 'tcp']}" in told
        assert "GIPPER_PUBLIC_IP=127.0.0.1" in told
        world.gone()
        world.user.sound()
        assert json.loads(world.user.gipper("pod", "ls", "--json").out) == []
        assert "runpod" in world.user.gipper("pod", "hosts").out
        assert "$2" in world.user.gipper("pod", "account").out
        assert json.loads(world.user.gipper("pod", "cost", "--json").out)[0]["outcome"] == "succeeded"


def test_udp_is_not_to_be_had(runpod: Make) -> None:
    """A job that publishes a UDP port is told why Runpod is left out; nothing is created."""
    with runpod() as world:
        job = world.job(SAYS, pod={"ports": ["5004/udp"]})
        done = world.user.gipper("pod", "run", job, timeout=60)
        assert done.code not in (0, 4), done.all
        assert "runpod" in done.all and "UDP" in done.all, done.all
        assert world.market.creates == 0


def test_neither_key_is_where_it_shouldn_t_be(runpod: Make) -> None:
    """The account's key is in no request but its header, in no file here and on no machine; the pod's own
    key is in no file here and not in the job's environment (field cases D-048, D-080)."""
    with runpod() as world:
        done = world.user.gipper("pod", "run", world.job("mkdir out; env >out/x"), timeout=120)
        assert done.code == 0, done.all
        (pod,) = world.market.pods.values()
        keys = (world.market.key, pod.key)
        assert not any(k in world.user.out("x").read_text() for k in keys)
        here = [f for f in world.user.home.rglob("*") if f.is_file()]
        assert not [f for f in here if any(k.encode() in f.read_bytes() for k in keys)]
        there = [f for f in (world.user.home.parent / "machines").rglob("*") if f.is_file()]
        assert not [f for f in there if world.market.key.encode() in f.read_bytes()]
        assert not any(k in s.body for s in world.app.requests for k in keys)
        assert not any(k in done.all for k in keys)


def test_d_027_a_host_that_cannot_run_the_image(runpod: Make) -> None:
    """An OCI error in the system's log: told as the cause, ended and replaced long before the boot limit."""
    with runpod(FIRST, SECOND, never_ready=True) as world:
        knobs = world.market.knobs
        line = "error creating container: nvidia-smi: OCI runtime create failed: unsatisfied condition: cuda>=13.0"
        knobs.log = ["image pull: 100%", line]
        began = time.monotonic()
        running = world.user.start("pod", "run", world.job(SAYS))
        until(lambda: len(world.market.asked_to_end) > 0, "the broken pod ended", 90)
        assert time.monotonic() - began < 80
        knobs.never_ready, knobs.log = False, ["start container"]
        done = running.wait(150)
        assert done.code == 0 and "OCI runtime create failed" in done.all, done.all
        assert [p.body["gpu"]["id"] for p in world.market.pods.values()] == [FIRST["id"], SECOND["id"]]
        world.gone()
        world.user.sound()


def test_a_busy_host_is_replaced_and_remembered(runpod: Make) -> None:
    """Somebody else computes on the first host's GPU: the next one does the work, the table remembers."""
    with runpod(FIRST, SECOND) as world:
        world.market.knobs.hosts["host-a"] = Gpu.busy()
        done = world.user.gipper("pod", "run", world.job(SAYS), timeout=180)
        assert done.code == 0 and world.user.out("x").read_text().startswith("NVIDIA"), done.all
        assert [p.host for p in world.market.pods.values()] == ["host-a", "host-b"]
        hosts = json.loads(world.user.gipper("pod", "hosts", "--json").out)
        assert {h["host"]: h["bad"] for h in hosts["machines"]}.get("host-a") == 1, hosts["machines"]
        world.gone()


def test_d_017_the_create_s_answer_is_lost(runpod: Make) -> None:
    """A gateway error after the pod was made: no second create, and the pod that is there is used (D-016)."""
    with runpod() as world:
        world.app.faults.script("create", faults.status(504, "<html>gateway</html>", after=True))
        done = world.user.gipper("pod", "run", world.job(SAYS), timeout=180)
        assert done.code == 0, done.all
        assert len(world.app.seen("create")) == world.market.creates == 1
        assert [r["adopted"] for r in world.user.receipts("pod.create")] == [True]
        world.gone()
        world.user.sound()


def test_d_010_no_capacity_leads_to_the_next_offer(runpod: Make) -> None:
    """The service's sentence for "sold out", under the status of a bad request: another offer, nobody blamed."""
    with runpod(FIRST, SECOND) as world:
        told = {"title": "Bad Request", "status": 400, "detail": NO_CAPACITY}
        world.app.faults.script("create", faults.status(400, told))
        done = world.user.gipper("pod", "run", world.job(SAYS), timeout=150)
        assert done.code == 0, done.all
        assert world.market.creates == 1 and len(world.app.seen("create")) == 2
        assert not [r for r in world.user.receipts("pod.terminate") if r["blame"]]
        world.gone()


def test_d_022_no_money(runpod: Make) -> None:
    """Without credit nothing is created, and the user is told why."""
    with runpod(credit=Decimal("0.0001")) as world:
        done = world.user.gipper("pod", "run", world.job(SAYS), timeout=60)
        assert done.code == 3 and "credit" in done.all, done.all
        assert world.market.creates == 0


@pytest.mark.parametrize("moment", ["pod.create", "job.start"])
def test_kill_9_and_a_stop_after_it(runpod: Make, moment: str) -> None:
    """The client dies for good; stop leaves no machine and one spend."""
    with runpod() as world:
        running = world.user.start("pod", "run", world.job("mkdir out; sleep 600"))
        world.user.wait_for(moment, seconds=90)
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
        assert len(world.market.alive()) == 1
        run = world.user.receipts("run.start")[0].run
        stopped = world.user.gipper("pod", "stop", run, timeout=150)
        assert stopped.code in (1, 4), stopped.all
        world.gone()
        assert len(world.user.receipts("spend")) == 1


@pytest.mark.parametrize("moment", ["custody.upload", "job.start"])
def test_its_own_watchdog_ends_a_pod_that_everybody_left(runpod: Make, moment: str) -> None:
    """Client killed for good and no reaper, at upload, at run: within two minutes of its time, by the pod's own
    clock, it terminates itself with the key that the market gave it. Before a client has been there, nothing on
    the pod can."""
    with runpod(own_clock=True) as world:
        (world.user.work / "big").write_bytes(os.urandom(1 << 20))
        job = world.job("mkdir out; /bin/sleep 600", inputs=[{"src": "big", "dst": "./"}])
        running = world.user.start("pod", "run", job)
        world.user.wait_for(moment, seconds=90)
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
        (pod,) = world.market.pods.values()
        end = datetime.fromisoformat(world.user.receipts("pod.intent")[0]["end"])
        until(lambda: (_home(pod) / ".gipper-watchdog" / "pid").exists(), "a watchdog runs", 30)
        left = (end - datetime.now(UTC)).total_seconds() + 600
        pod.lodging.advance(left - 100)  # type: ignore[union-attr]
        time.sleep(1.5)
        assert pod.alive and world.market.asked_to_end == []
        pod.lodging.advance(220)  # type: ignore[union-attr]
        until(lambda: not pod.alive, "the pod terminated itself", 60)
        own = {s.headers["Authorization"] for s in world.app.seen("destroy")}
        assert own == {f"Bearer {pod.key}"} and world.app.leaks == []


def _home(pod: Pod) -> Path:
    """What the pod has as /root; a path that isn't there before it runs."""
    return getattr(pod.lodging, "home", Path("/nonexistent"))


def test_d_024_a_login_that_comes_late(runpod: Make) -> None:
    """RUNNING long before a port is mapped: waited for, not given up, and nobody is blamed."""
    with runpod(ports_s=8.0) as world:
        done = world.user.gipper("pod", "run", world.job(SAYS), timeout=120)
        assert done.code == 0, done.all
        assert world.market.creates == 1
        (ready,) = world.user.receipts("pod.ready")
        assert ready["seconds"] >= 7
        assert not [r for r in world.user.receipts("pod.terminate") if r["blame"]]
        world.gone()
