"""Client, reaper, watchdog: each alone ends an overdue machine, with the other two gone."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import attrs
import pytest
from support_fake import handle, services, unasked
from support_sshd import Sshd, wait_until

from gipper.builtin.local import LocalProvider
from gipper.core import Gipper
from gipper.installation import this_host
from gipper.jobfile import LoadedJob, resolved
from gipper.launch import Launch
from gipper.lifecycle.arming import Guard
from gipper.lifecycle.link import Link
from gipper.lifecycle.proof import Rental
from gipper.lifecycle.reaper import Reaper
from gipper.lifecycle.services import Services
from gipper.lifecycle.waiting import Door, wait_ready
from gipper.naming import MachineName, new_run_id, round_up_to_minute
from gipper.outcomes import Outcome
from gipper.plugins.context import Context
from gipper.plugins.handle import Provider
from gipper.plugins.registry import Registry
from gipper.runtime import RealRuntime
from gipper.ssh.remote import SshDialer
from gipper.testing import FakeMarket, SimRuntime
from gipper.values.jobs import Budget, GpuWants, Job, RunTable
from gipper.values.machines import RentRequest
from gipper.values.offers import OfferQuery
from gipper.values.plugins import ProviderInfo
from gipper.values.receipts import JobStart, Owner, PodCreate, PodIntent, RunStart
from gipper.values.settings import Settings

RUN = "0000000000"
FAST = {"appear_s": 0.3, "settle_s": 0.05, "gone_patience_s": 1.0}


class Market(FakeMarket):
    """A market whose machines log in as the user of this test."""

    def info(self) -> ProviderInfo:
        return attrs.evolve(super().info(), ssh_user=getpass.getuser(), ready_s=0.3)


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    with Sshd(tmp_path / "sshd") as running:
        yield running


def test_the_client_alone(tmp_path: Path, sshd: Sshd) -> None:
    """No reaper, no watchdog: a command past its limit is ended, and its machine given back."""
    runtime, registry = RealRuntime(), Registry()
    market = Market(runtime, boot=lambda _m: (sshd.address,), **FAST)
    registry.add_provider(market.provider_class(), distribution="gipper-fake", version="1")
    config = tmp_path / "config.toml"
    config.write_text("[limits]\ngone_patience = 1\nready_min = 1\nkill_grace = 1\n")
    env = {
        "HOME": str(tmp_path),
        "GIPPER_DATA": str(tmp_path / "data"),
        "GIPPER_KEYS": str(tmp_path / "keys"),
    }
    gipper = Gipper(env={**env, "GIPPER_CONFIG": str(config)}, runtime=runtime, registry=registry)
    sshd.authorize(gipper.key_pair.public)
    job = Job(
        name="job", folder=tmp_path, gpu=GpuWants(count=1), run=RunTable(command="sleep 600"),
        budget=Budget(max_hours=1 / 3600),
    )  # fmt: skip
    launch = Launch(gipper=gipper, loaded=LoadedJob(job=resolved(job, Settings())), preflight=lambda *_: {})
    assert launch.run(unasked(runtime)).outcome is Outcome.TIMEOUT
    assert market.alive() == []
    assert not [r for r in gipper.ledger.read() if r.kind.startswith("watchdog")]


def test_the_reaper_alone(tmp_path: Path) -> None:
    """The client is dead, nothing was armed, the job would go on for ever: the first pass past the end."""
    runtime = SimRuntime()
    svc, market = services(tmp_path / "data", runtime), FakeMarket(runtime)
    end = round_up_to_minute(runtime.now() + timedelta(hours=1))
    name = _dead_clients_machine(svc, market, end)
    provider = handle(market, tmp_path / "p")

    def reap() -> list[str]:
        return [line.verb for line in Reaper(svc, [provider], "00000", tmp_path / "data").run().lines]

    assert reap() == ["left"]
    assert [m.name for m in market.alive()] == [name]
    runtime.sleep((end - runtime.now()).total_seconds())
    assert reap() == ["ended"]
    assert market.alive() == []


def test_the_watchdog_alone(tmp_path: Path, sshd: Sshd) -> None:
    """Armed by a client that is gone since, no reaper anywhere: the machine ends itself, and not early."""
    runtime = RealRuntime()
    svc, ended = services(tmp_path / "data", runtime), tmp_path / "ended"
    market = Market(runtime, boot=lambda _m: (sshd.address,), watchdog=f"touch {ended}", **FAST)
    link = _client(svc, market, sshd, tmp_path)
    until = runtime.now() + timedelta(seconds=4)
    guard = Guard(services=svc, rental=link.rental, link=link, until=until)
    guard.arm(link.machine, unasked(runtime).once)
    link.close()
    assert market.alive()
    wait_until(ended.exists, seconds=30, what="the machine ends itself")
    assert runtime.now() >= until - timedelta(seconds=1)
    market.kill(market.alive()[0].id)
    assert market.alive() == []
    assert [verb for verb, _ in market.calls].count("terminate") == 0


def test_a_local_machines_own_deadline_alone(tmp_path: Path) -> None:
    """On `local` the machine's own deadline is that layer: nobody asks, and it is gone."""
    runtime = RealRuntime()
    loaded = Registry().add_provider(LocalProvider, distribution="gipper-core", version="1")
    context = Context(loaded.info, None, runtime, tmp_path, None, lambda: None)  # type: ignore[arg-type]
    provider = Provider(loaded, context, None)  # type: ignore[arg-type]
    key = _key(tmp_path)
    query = OfferQuery(deadline=runtime.monotonic() + 20, gpu_count=0, disk_gb=0.001)
    now = runtime.now()
    name = MachineName(inst="00000", run=new_run_id(now), attempt=1, end=round_up_to_minute(now))
    request = RentRequest(
        name=str(name), public_key=key, end=now, boot_watchdog_s=2.0, timer_at=now, disk_gb=0.001
    )
    provider.rent(next(iter(provider.list_offers(query))), request)
    assert [m.name for m in provider.list_ours()] == [str(name)]
    wait_until(lambda: not list(provider.list_ours()), seconds=30, what="the machine ends itself")


def _client(svc: Services, market: Market, sshd: Sshd, folder: Path) -> Link:
    """A client's link to a machine that it has just rented."""
    machine = market.create("gipper-00000-0000000000-1-abcdef", Decimal("0.40"))
    rental = Rental(
        provider=handle(market, folder / "p"), run=RUN, name=machine.name, pod=machine.id,
        usd_h=Decimal("0.40"), since=svc.runtime.now(),
    )  # fmt: skip
    door = Door(
        dialer=SshDialer(svc.runtime), key_file=sshd.key.private, public_key=sshd.key.public,
        pins=folder / "known_hosts",
    )  # fmt: skip
    ready = wait_ready(svc, rental, Decimal("0.40"), door, 30.0, unasked(svc.runtime))
    return Link(svc, rental, door, ready)


def _dead_clients_machine(svc: Services, market: FakeMarket, end: datetime) -> str:
    host = this_host()
    owner = Owner(host_id=host.host_id, boot_id="another", pid_ns=host.pid_ns, pid=1, start_ticks=1)
    name = str(MachineName(inst="00000", run=RUN, attempt=1, end=end))
    svc.ledger.append(
        RunStart(job={"name": "job"}, owner=owner, client="test", plugins={}), run=RUN, refs={"name": "job"}
    )
    intent = PodIntent(
        provider="acme", offer="o1", name=name, attempt=1, end=end, usd_h=Decimal("0.40"),
        reserved_usd=Decimal("0.50"), appear_s=5.0,
    )  # fmt: skip
    svc.ledger.append(intent, run=RUN, refs={"name": "job"})
    machine = market.create(name, Decimal("0.40"))
    svc.ledger.append(PodCreate(provider="acme", pod=machine.id, name=name, usd_h=Decimal("0.40")), run=RUN)
    svc.ledger.append(JobStart(provider="acme", pod=machine.id, folder="f", limit_s=60.0), run=RUN)
    return name


def _key(folder: Path) -> str:
    from gipper.ssh.keys import ensure_key

    return ensure_key(folder / "client").public
