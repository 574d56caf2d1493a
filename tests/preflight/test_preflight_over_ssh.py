"""The built-in checks as core calls them: in order, through the hook, over a real sshd."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from stubs.gpu_stubs import GpuStubs, card
from stubs.gpu_world import machine_of
from support_fake import NoKeys
from support_sshd import Relay, Sshd

from gipper import builtin
from gipper.core import Gipper
from gipper.errors import BadHost
from gipper.plugins.context import Context
from gipper.plugins.handle import Provider
from gipper.plugins.registry import Registry
from gipper.runtime import RealRuntime
from gipper.ssh.remote import SshDialer
from gipper.testing import FakeMarket
from gipper.values.jobs import GpuWants, Job, Placement, Pod, Probe, RunTable
from gipper.values.plugins import CheckResult

ORDER = ("gpu", "cuda", "kernel", "capacity", "probe")


@attrs.define
class Rented:
    """A machine behind a relay, with every check that its provider's handle gives."""

    provider: Provider
    stubs: GpuStubs
    relay: Relay
    remote: Any
    job: Job

    def run(self, **offered: Any) -> dict[str, CheckResult | None]:
        """All checks in order, as core makes them."""
        machine = machine_of(**offered)
        return {c.name: c.call(self.remote, self.job, machine) for c in self.provider.preflight_checks()}


@pytest.fixture
def rented(tmp_path: Path, built: Path, gipper: Gipper) -> Iterator[Rented]:
    runtime = RealRuntime()
    stubs = GpuStubs(tmp_path / "stubs", built)
    # The job's own path: the first process of the computer that runs this test may have one, too.
    pod = Pod(env={"LD_LIBRARY_PATH": str(stubs.driver_folder)})
    job = Job(name="job", folder=tmp_path, run=RunTable(command="true"), pod=pod)
    loaded = Registry().add_provider(FakeMarket(runtime).provider_class(), distribution="acme", version="1")
    context = Context(loaded.info, None, runtime, tmp_path, NoKeys(), lambda: None)  # type: ignore[arg-type]
    provider = Provider(loaded, context, NoKeys(), plugins=gipper.plugin_set)
    with Sshd(tmp_path / "sshd", env={"PATH": stubs.env()["PATH"]}) as sshd, Relay(sshd.port) as relay:
        remote = SshDialer(runtime).dial(sshd.target(addresses=[relay.address]), timeout_s=20)
        yield Rented(provider, stubs, relay, remote, job)
        remote.close()


def test_a_good_machine_costs_few_round_trips(rented: Rented) -> None:
    """Every check passes in its fixed place; all of them together take at most six round trips."""
    rented.relay.reset_counts()
    results = rented.run(disk_gb=0.001)
    assert tuple(results) == ORDER
    assert rented.relay.round_trips <= 6
    assert results["cuda"] is not None
    assert results["cuda"].facts["devices"] == 1
    assert results["kernel"] is not None
    assert results["kernel"].facts["gpus"] == 1


def test_d_037_over_a_real_session(rented: Rented, tmp_path: Path) -> None:
    """The linker of a real session takes the compat library first; the job gets the path without it."""
    usual = str(rented.stubs.driver_folder)
    compat = rented.stubs.driver(tmp_path / "cuda-12.8" / "compat", init=804)
    rented.job = attrs.evolve(rented.job, pod=Pod(env={"LD_LIBRARY_PATH": f"{compat}:{usual}"}))
    result = rented.run()["cuda"]
    assert result is not None
    assert dict(result.env) == {"LD_LIBRARY_PATH": usual}
    assert result.facts["removed"] == [str(compat)]


def test_a_busy_card_over_a_real_session(rented: Rented) -> None:
    """The first check stops the others."""
    rented.stubs.smi(cards=[card(memory_used=18472, utilization_gpu=73)])
    with pytest.raises(BadHost, match="busy"):
        rented.run()
    assert rented.stubs.calls() == ""


def test_the_probe_measures_a_real_link(rented: Rented) -> None:
    """4 MB each way through sshd, faster than 1 Mb/s."""
    probe = Placement(probe=Probe(min_up_mbps=1, min_down_mbps=1))
    rented.job = attrs.evolve(rented.job, placement=probe, gpu=GpuWants(count=0))
    before = rented.relay.up, rented.relay.down
    result = rented.run()["probe"]
    assert result is not None
    assert result.facts["up_mbps"] > 1
    assert result.facts["down_mbps"] > 1
    assert rented.relay.up - before[0] > 4_000_000
    assert rented.relay.down - before[1] > 4_000_000


def test_built_in_checks_are_loaded_late() -> None:
    """Importing the package that lists them imports none of them."""
    code = "import sys, gipper.builtin; print([m for m in sys.modules if m.startswith('gipper.builtin.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert [m.__name__.rpartition(".")[2] for m in builtin.modules()] == list(ORDER)
