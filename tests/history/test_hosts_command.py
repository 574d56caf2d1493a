"""`gipper pod hosts`, and a client that learns."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from history_world import Trail, told

from gipper.cli.hosts import hosts
from gipper.core import Gipper
from gipper.jobfile import LoadedJob, resolved
from gipper.launch import Launch
from gipper.plugins.registry import Registry
from gipper.runtime import RealRuntime
from gipper.testing import FakeMarket
from gipper.values.jobs import GpuWants, Job, RunTable


@pytest.fixture
def recent(trail: Trail) -> Trail:
    """A trail whose rentals were a minute ago."""
    trail.clock.at = RealRuntime().now() - timedelta(minutes=1)
    return trail


def _hosts(*args: str) -> str:
    result = CliRunner().invoke(hosts, list(args))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_hosts_shows_providers_reasons_and_machines(recent: Trail) -> None:
    """One line per provider, also one that isn't installed; reasons cut at 110; then the telling machines."""
    long = "GPU busy: " + "x" * 200
    recent.rent(provider="gone-plugin", host="m1", blame="host", started=False, why=long)
    recent.rent(provider="gone-plugin", host="m1")
    lines = _hosts().splitlines()
    assert lines[0].split()[:5] == ["provider", "rentals", "good", "bad", "p_fail"]
    assert lines[1].split()[:5] == ["gone-plugin", "2", "1", "1", "0.2143"]
    assert lines[2] == "gone-plugin bad: 1 x " + long[:107] + "..."
    assert lines[-1].split() == ["gone-plugin", "m1", "2", "1", "0.3571", "RTX", "4090"]


def test_hosts_and_estimate_tell_the_same_chance(recent: Trail, own_folders: Path) -> None:
    """From one ledger: a provider's p_fail is that of a new machine's estimate, a machine's is its own."""
    recent.rent(host="host-o1")
    plan = _launch(own_folders).plan(0)
    estimates = {ranked.offer.id: ranked.estimate.p_fail for ranked in plan.ranked}
    found = json.loads(_hosts("--json"))
    (provider,), (machine,) = found["providers"], found["machines"]
    assert provider["p_fail"] == estimates["o2"] == pytest.approx(0.5 / 6)
    assert machine["p_fail"] == estimates["o1"] == pytest.approx(2 * 0.5 / 6 / 3)
    lines = [line.split() for line in _hosts().splitlines() if line]
    assert (lines[0][4], lines[1][4]) == ("p_fail", f"{estimates['o2']:.4f}")
    assert (lines[2][4], lines[3][4]) == ("p_fail", f"{estimates['o1']:.4f}")


def test_hosts_of_one_provider(recent: Trail) -> None:
    """--provider leaves the others out; one without rentals is said to have none."""
    recent.rent(provider="acme")
    recent.rent(provider="emca")
    assert "emca" not in _hosts("--provider", "acme")
    assert _hosts("--provider", "other") == "no rentals of other in the last 90 days\n"


def test_hosts_before_the_first_rental(own_folders: Path) -> None:
    """Nothing to show, nothing made."""
    assert _hosts() == "no rentals in the last 90 days\n"
    assert json.loads(_hosts("--json")) == {"providers": [], "machines": []}
    assert not (own_folders / "data").exists()


def test_hosts_as_json(recent: Trail) -> None:
    """Figures as numbers, unknown ones as null, reasons whole."""
    recent.rent(host="m1", blame="host", started=False, why="GPU busy", proved=False)
    found = json.loads(_hosts("--json", "--calibration"))
    (line,) = found["providers"]
    assert line["reasons"] == [{"reason": "GPU busy", "rentals": 1}]
    assert (line["unconfirmed"], line["ready_s"], line["billed_factor"]) == (1, None, None)
    assert found["machines"][0]["host"] == "m1"
    assert [x["figure"] for x in found["calibration"]][-2:] == ["wall", "usd"]


def test_calibration_is_a_table(recent: Trail) -> None:
    """Runs, median ratio and the share inside, by figure."""
    for factor in (1, 2, 4):
        recent.rent(told=told(compute=100.0), actual={"compute": 100.0 * factor, "wall_s": 100.0 * factor})
    lines = [line.split() for line in _hosts("--calibration").splitlines()]
    assert ["compute", "3", "2.00", "-"] in lines
    assert ["wall", "3", "2.00", "67%"] in lines


def test_history_days_is_the_window(recent: Trail, own_folders: Path) -> None:
    """The setting decides how far back is looked."""
    recent.rent()
    (own_folders / "config").mkdir()
    (own_folders / "config" / "config.toml").write_text("history_days = 0.0001\n")
    assert _hosts().startswith("no rentals in the last 0.0001 days")


def _launch(folder: Path, **job: Any) -> Launch:
    runtime = RealRuntime()
    registry = Registry()
    registry.add_provider(FakeMarket(runtime).provider_class(), distribution="gipper-fake", version="1")
    gipper = Gipper(
        env={"HOME": str(folder), "GIPPER_DATA": str(folder / "data")}, runtime=runtime, registry=registry
    )
    given = Job(name="train", run=RunTable(command="true"), folder=folder, gpu=GpuWants(min_mem_gb=1), **job)
    return Launch(gipper=gipper, loaded=LoadedJob(job=resolved(given, gipper.settings)))


def test_a_launch_learns_from_the_ledger(recent: Trail, own_folders: Path) -> None:
    """After three rentals the plan's estimates rest on them; a machine bad twice running is left out."""
    before = _launch(own_folders).plan(0).ranked[0].estimate
    assert not before.basis["ready"].startswith("history")
    for _ in range(3):
        recent.rent(host="elsewhere", ready=77.0, actual={"compute": 55.0}, brought=[(10**8, 4.0)])
    for _ in range(2):
        recent.rent(host="host-o2", ready=77.0, blame="host", started=False)
    found = _launch(own_folders).plan(0)
    told_now = found.ranked[0].estimate
    assert (told_now.phases.ready, told_now.phases.compute) == (77.0, 55.0)
    assert told_now.basis["ready"] == "history: this provider, 5 rentals"
    assert told_now.basis["compute"] == "history: 3 runs on RTX 4090"
    assert told_now["host_upload_mbps"] is None and told_now["effective_download_mbps"] == 200.0
    assert told_now.p_fail == pytest.approx((2 + 0.5) / (5 + 5))
    assert "o2" not in {ranked.offer.id for ranked in found.ranked}
