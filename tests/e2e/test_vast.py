"""Whole runs on an emulated Vast.ai: its API over loopback, machines in sandboxes with a real sshd."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from emulators import faults
from emulators.housing import Gpu
from emulators.vast.offers import row
from stubs.gpu_stubs import build_driver
from support_cli import until
from support_markets import VastWorld, vast_world

Make = Callable[..., AbstractContextManager[VastWorld]]
needs_root = pytest.mark.skipif(
    os.getuid() != 0 and not os.environ.get("CI"),
    reason="only root may make a machine with processes of its own",
)
pytestmark = [needs_root, pytest.mark.timeout(240)]
SAYS = "mkdir out; nvidia-smi --query-gpu=name --format=csv,noheader >out/x"
SECOND = row(5000202, dph_base=0.4, machine_id=202)
# A listener on the inside of a published UDP port answers one datagram, and the job is over.
ECHO = """
cat >echo.py <<'END'
import os, socket, sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(("127.0.0.1", int(sys.argv[1])))
print("listening at", os.environ["GIPPER_PUBLIC_IP"], os.environ[f"GIPPER_PORT_{sys.argv[1]}_UDP"], flush=True)
data, peer = sock.recvfrom(100)
sock.sendto(data.upper(), peer)
END
mkdir out && python3 echo.py {port} | tee out/x
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_driver(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def vast(tmp_path: Path, driver: Path) -> Iterator[Make]:
    def make(*rows: dict[str, Any], **changes: Any) -> AbstractContextManager[VastWorld]:
        return vast_world(tmp_path, driver, rows, **changes)

    yield make


def free_udp_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        number: int = sock.getsockname()[1]
        return number


def test_a_run_with_a_udp_port(vast: Make) -> None:
    """The job is reached from outside by the port that it was told; outputs come home, the machine is gone,
    and ls, hosts and cost agree."""
    with vast() as world:
        port = free_udp_port()
        job = world.job(ECHO.replace("{port}", str(port)), pod={"ports": [f"{port}/udp"]})
        running = world.user.start("pod", "run", job)
        running.wait_for_text("listening at", 60)
        host, outside = running.so_far.split("listening at ")[1].split()[:2]
        assert (host, int(outside) == port) == ("127.0.0.1", False)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(10)
            sock.sendto(b"hello", (host, int(outside)))
            assert sock.recv(100) == b"HELLO"
        done = running.wait(60)
        assert done.code == 0, done.all
        assert "listening" in world.user.out("x").read_text()
        world.gone()
        world.user.sound()
        assert json.loads(world.user.gipper("pod", "ls", "--json").out) == []
        assert "vast" in world.user.gipper("pod", "hosts").out
        assert "credit $2" in world.user.gipper("pod", "account").out
        spent = json.loads(world.user.gipper("pod", "cost", "--json").out)
        assert spent[0]["outcome"] == "succeeded"


def test_neither_key_is_where_it_shouldn_t_be(vast: Make) -> None:
    """The account's key is in no request but its header, in no file here and on no machine; the machine's
    own key is in no file here and not in the job's environment (field cases D-048, D-080)."""
    with vast() as world:
        done = world.user.gipper("pod", "run", world.job("mkdir out; env >out/x"), timeout=100)
        assert done.code == 0, done.all
        (contract,) = world.market.contracts.values()
        keys = (world.market.key, contract.key)
        assert not any(k in world.user.out("x").read_text() for k in keys)
        here = [f for f in world.user.home.rglob("*") if f.is_file()]
        assert not [f for f in here if any(k.encode() in f.read_bytes() for k in keys)]
        there = [f for f in (world.user.home.parent / "machines").rglob("*") if f.is_file()]
        assert not [f for f in there if world.market.key.encode() in f.read_bytes()]
        assert not any(k in json.dumps(s.json) for s in world.app.requests for k in keys)
        assert not any(k in done.all for k in keys)


def test_a_busy_host_is_replaced_and_remembered(vast: Make) -> None:
    """Somebody else computes on the first host's GPU: nothing goes up there, the next one does the work, and
    the hosts' table remembers."""
    with vast(row(5000101, machine_id=101), SECOND) as world:
        world.market.knobs.hosts[101] = Gpu.busy()
        done = world.user.gipper("pod", "run", world.job(SAYS), timeout=150)
        assert done.code == 0 and world.user.out("x").read_text().startswith("NVIDIA"), done.all
        assert [c.listing["machine_id"] for c in world.market.contracts.values()] == [101, 202]
        (blame,) = [r["blame"] for r in world.user.receipts("pod.terminate") if r["blame"]]
        assert blame == "host"
        hosts = json.loads(world.user.gipper("pod", "hosts", "--json").out)
        assert {h["host"]: h["bad"] for h in hosts["machines"]}["101"] == 1
        world.gone()
        world.user.sound()


def test_d_037_an_804_host_is_repaired(vast: Make) -> None:
    """Forward compatibility refused: a second, fresh process without that folder succeeds, the job gets the
    cleaned path, and the receipt tells what was removed."""
    with vast() as world:
        world.market.knobs.hosts[world.market.listings.rows[0]["machine_id"]] = Gpu(compat=True)
        done = world.user.gipper(
            "pod", "run", world.job('mkdir out; echo "$LD_LIBRARY_PATH" >out/x'), timeout=100
        )
        assert done.code == 0, done.all
        assert "compat" not in world.user.out("x").read_text() and "driver" in world.user.out("x").read_text()
        told = next(r for r in world.user.receipts("preflight") if "cuda" in r["check"])
        assert "compat" in json.dumps(told["facts"])
        world.gone()


def test_d_017_the_create_s_answer_is_lost(vast: Make) -> None:
    """A gateway error after the contract was made: no second create before a listing, and the machine that is
    there is used (also D-016)."""
    with vast() as world:
        world.app.faults.script("create", faults.status(504, "<html>gateway</html>", after=True))
        done = world.user.gipper("pod", "run", world.job(SAYS), timeout=150)
        assert done.code == 0, done.all
        assert len(world.app.seen("create")) == world.market.creates == 1
        assert [r["adopted"] for r in world.user.receipts("pod.create")] == [True]
        world.gone()
        world.user.sound()


def test_d_015_offers_that_went_away(vast: Make) -> None:
    """Refused creates lead to the next offer, and no host is blamed."""
    with vast(row(5000101, machine_id=101), SECOND) as world:
        gone = {
            "success": False,
            "error": "invalid_args",
            "msg": "error 404/3603: no_such_ask  is not available.",
        }
        world.app.faults.script("create", faults.status(400, gone))
        done = world.user.gipper("pod", "run", world.job(SAYS), timeout=150)
        assert done.code == 0, done.all
        assert world.market.creates == 1 and len(world.app.seen("create")) == 2
        assert not [r for r in world.user.receipts("pod.terminate") if r["blame"]]
        world.gone()


def test_d_027_a_broken_host_is_given_up_at_once(vast: Make) -> None:
    """An OCI error while the container starts: diagnosed, ended and replaced long before the boot limit."""
    with vast(row(5000101, machine_id=101), SECOND) as world:
        knobs = world.market.knobs
        knobs.status = {"actual_status": "created", "cur_state": "stopped"}
        knobs.message = "Error response from daemon: OCI runtime create failed: failed to inject CDI devices"
        running = world.user.start("pod", "run", world.job(SAYS))
        until(lambda: len(world.market.asked_to_end) > 0, "the broken machine ended", 60)
        knobs.status = knobs.message = None
        done = running.wait(120)
        assert done.code == 0 and "OCI runtime" in done.all, done.all
        assert [c.listing["machine_id"] for c in world.market.contracts.values()] == [101, 202]
        world.gone()


def test_d_022_no_money(vast: Make) -> None:
    """Without credit nothing is created, and the user is told why."""
    from decimal import Decimal

    with vast(credit=Decimal("0.0001")) as world:
        done = world.user.gipper("pod", "run", world.job(SAYS), timeout=60)
        assert done.code == 3 and "credit" in done.all, done.all
        assert world.market.creates == 0


@pytest.mark.parametrize("moment", ["pod.create", "job.start"])
def test_kill_9_and_a_reap_after_the_end(vast: Make, moment: str) -> None:
    """The client dies for good; one reap when its time is over leaves no machine and one spend."""
    with vast() as world:
        running = world.user.start("pod", "run", world.job("mkdir out; sleep 600"))
        world.user.wait_for(moment, seconds=60)
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
        assert len(world.market.alive()) == 1
        run = world.user.receipts("run.start")[0].run
        stopped = world.user.gipper("pod", "stop", run, timeout=150)
        assert stopped.code in (1, 4), stopped.all
        world.gone()
        assert len(world.user.receipts("spend")) == 1


@pytest.mark.parametrize("moment", ["pod.create", "custody.upload", "job.start"])
def test_its_own_watchdog_ends_a_machine_that_everybody_left(vast: Make, moment: str) -> None:
    """Client killed for good and no reaper, at boot, at upload, at run: within two minutes of its time, by the
    machine's own clock, the instance destroys itself with the key that the market gave it."""
    with vast(own_clock=True, running_s=2.0 if moment == "pod.create" else 0.3) as world:
        (world.user.work / "big").write_bytes(os.urandom(1 << 20))
        inputs = [{"src": "big", "dst": "./"}]
        job = world.job("mkdir out; /bin/sleep 600", inputs=inputs)
        running = world.user.start("pod", "run", job)
        world.user.wait_for(moment, seconds=60)
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
        (contract,) = world.market.contracts.values()
        end = datetime.fromisoformat(world.user.receipts("pod.intent")[0]["end"])
        until(lambda: (sandbox_home(contract) / ".gipper-watchdog" / "pid").exists(), "a watchdog runs", 30)
        left = (end - datetime.now(UTC)).total_seconds() + 600
        contract.lodging.advance(left - 100)
        time.sleep(1.5)
        assert contract.alive and world.market.asked_to_end == []
        contract.lodging.advance(220)
        until(lambda: not contract.alive, "the machine destroyed itself", 60)
        own = [s.headers["Authorization"] for s in world.app.seen("destroy")]
        assert set(own) == {f"Bearer {contract.key}"} and world.app.leaks == []


def sandbox_home(contract: Any) -> Path:
    """What the machine has as /root; a path that isn't there before it runs."""
    return contract.lodging.home if contract.lodging is not None else Path("/nonexistent")
