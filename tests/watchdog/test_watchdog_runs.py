"""The watchdog in a run: armed over a real sshd, told in receipts, refused where a policy says so."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import attrs
import pytest
from support_fake import Listener
from support_sshd import Sshd, wait_until

from gipper.core import Gipper
from gipper.errors import CapRefused
from gipper.jobfile import LoadedJob, resolved
from gipper.launch import Launch
from gipper.lifecycle.arming import HOW, OWN_DEADLINE
from gipper.lifecycle.services import Interrupts
from gipper.outcomes import Outcome
from gipper.plugins.registry import Registry
from gipper.runtime import RealRuntime
from gipper.testing import FakeMarket
from gipper.values.jobs import GpuWants, Job, Output, RunTable
from gipper.values.plugins import ProviderInfo
from gipper.values.receipts import Receipt
from gipper.values.settings import Settings

FAST = {"appear_s": 0.3, "settle_s": 0.05, "gone_patience_s": 1.0}
LIMITS = "gone_patience = 1\nready_min = 1\nkill_grace = 1\n"


class Market(FakeMarket):
    """A market whose machines log in as the user of this test."""

    own_deadline = False

    def info(self) -> ProviderInfo:
        told = attrs.evolve(super().info(), ssh_user=getpass.getuser(), ready_s=0.3)
        return attrs.evolve(told, own_deadline=self.own_deadline)


@attrs.define
class Stage:
    """Markets whose machines are one sshd, and a run on them."""

    launch: Launch
    listener: Listener
    markets: list[Market]
    sshd: Sshd

    def run(self) -> Outcome:
        return self.launch.run(Interrupts(self.launch.gipper.runtime)).outcome

    def receipts(self, *kinds: str) -> list[Receipt]:
        return [r for r in self.launch.gipper.ledger.read() if not kinds or r.kind in kinds]

    def watchdogs(self) -> list[int]:
        """Watchdogs on the machine that run."""
        mark = str(self.sshd.home / ".gipper-watchdog" / "run").encode()
        return [
            p for p in self.sshd.processes() if mark in Path(f"/proc/{p}/cmdline").read_bytes().split(b"\0")
        ]


NewStage = Callable[..., Stage]


@pytest.fixture
def new_stage(tmp_path: Path) -> Iterator[NewStage]:
    with Sshd(tmp_path / "sshd", env={"MACHINE_KEY": "not-for-the-job"}) as sshd:

        def new(
            *markets: dict[str, object], safety: str = "", command: str = "mkdir out; env >out/env"
        ) -> Stage:
            return _stage(tmp_path, sshd, list(markets), safety, command)

        yield new


def _stage(folder: Path, sshd: Sshd, markets: list[dict[str, object]], safety: str, command: str) -> Stage:
    runtime, registry = RealRuntime(), Registry()
    made = []
    for options in markets:
        own = bool(options.pop("own_deadline", False))
        market = Market(runtime, boot=lambda _m: (sshd.address,), **{**FAST, **options})  # type: ignore[arg-type]
        market.own_deadline = own
        made.append(market)
        registry.add_provider(market.provider_class(), distribution=f"gipper-{market.name}", version="1")
    config = folder / "config.toml"
    config.write_text(f"daily_cap_usd = 50.0\n[limits]\n{LIMITS}[safety]\n{safety}\n")
    env = {"HOME": str(folder), "GIPPER_DATA": str(folder / "data"), "GIPPER_KEYS": str(folder / "keys")}
    gipper = Gipper(env={**env, "GIPPER_CONFIG": str(config)}, runtime=runtime, registry=registry)
    sshd.authorize(gipper.key_pair.public)
    job = Job(
        name="job", folder=folder, gpu=GpuWants(count=1), outputs=(Output(src="out"),),
        run=RunTable(command=command),
    )  # fmt: skip
    listener = Listener()
    loaded = LoadedJob(job=resolved(job, Settings()))
    launch = Launch(gipper=gipper, loaded=loaded, reporter=listener, preflight=lambda *_given: {})
    return Stage(launch, listener, made, sshd)


def test_armed_before_any_check_and_it_outlives_the_run(new_stage: NewStage, tmp_path: Path) -> None:
    """Armed right after the machine is ready, until its end + grace; job, sweep and client leave it alone;
    the job gets nothing of what the watchdog reads."""
    stage = new_stage({"watchdog": "true", "watchdog_reads": ("MACHINE_KEY",)})
    seen: list[int] = []

    def preflight(*_given: object) -> dict[str, str]:
        seen.extend(stage.watchdogs())
        return {}

    stage.launch.preflight = preflight
    assert stage.run() is Outcome.SUCCEEDED
    assert [r.kind for r in stage.receipts()][4:7] == ["pod.ready", "watchdog.armed", "job.start"]
    (armed,) = stage.receipts("watchdog.armed")
    (intent,) = stage.receipts("pod.intent")
    assert (
        _moment(intent["end"]) <= _moment(armed["until"]) <= _moment(intent["end"]) + timedelta(seconds=600)
    )
    assert _moment(armed["until"]) > _moment(intent["end"]) + timedelta(seconds=590)
    assert armed["how"] == HOW["none"]
    assert len(seen) == 1
    assert stage.watchdogs() == seen
    assert "not-for-the-job" not in (tmp_path / "out" / "env").read_text()
    assert "GIPPER_RUN_ID" in (tmp_path / "out" / "env").read_text()


@pytest.mark.parametrize("required", [False, True])
def test_a_machine_that_cannot_be_armed(new_stage: NewStage, required: bool) -> None:
    """Told with its cause; the run goes on, unless a watchdog is required: then the machine is given back."""
    stage = new_stage({"watchdog": "true"}, safety="require_watchdog = true" if required else "")
    (stage.sshd.home / ".gipper-watchdog").write_text("in the way")
    assert stage.run() is (Outcome.NO_OFFER if required else Outcome.SUCCEEDED)
    failed = stage.receipts("watchdog.failed")
    assert failed
    assert "File exists" in failed[0]["why"] or "Not a directory" in failed[0]["why"]
    assert any(
        "only this client and the reaper" in w or "require_watchdog" in w for w in stage.listener.warnings
    )
    assert bool(stage.receipts("job.start")) is not required
    assert stage.markets[0].alive() == []


@pytest.mark.parametrize("fault", ["fail", "none"])
@pytest.mark.parametrize("required", [False, True])
def test_a_plugin_without_a_command_for_this_machine(new_stage: NewStage, fault: str, required: bool) -> None:
    """The plugin can't say, or says that there is none: warned of, or given back where one is required."""
    stage = new_stage({"watchdog": "true"}, safety="require_watchdog = true" if required else "")
    stage.markets[0].script("watchdog", fault)
    assert stage.run() is Outcome.SUCCEEDED
    assert len(stage.markets[0].machines) == (2 if required else 1)
    assert len(stage.receipts("watchdog.failed")) == (fault == "fail")
    assert len(stage.receipts("watchdog.armed")) == (1 if required else 0)
    assert stage.listener.warnings


def test_a_market_with_nothing_is_told_of(new_stage: NewStage) -> None:
    """No hook and no deadline of its own: no receipt, but the run says who guards the machine."""
    stage = new_stage({})
    assert stage.run() is Outcome.SUCCEEDED
    assert stage.receipts("watchdog.armed", "watchdog.failed") == []
    assert [w for w in stage.listener.warnings if "only this client and the reaper" in w and "acme" in w]


def test_where_a_watchdog_is_required_nothing_is_rented_without(new_stage: NewStage) -> None:
    """Refused as a policy, before any machine: exit 3, with the setting's name."""
    stage = new_stage({}, safety="require_watchdog = true")
    result = stage.launch.run(Interrupts(stage.launch.gipper.runtime))
    assert (result.outcome, result.exit_code) == (Outcome.REFUSED, 3)
    assert "require_watchdog" in result.reason
    assert stage.markets[0].machines == {}
    assert stage.receipts("pod.intent") == []
    with pytest.raises(CapRefused):
        stage.launch.plan(0)


def test_where_a_watchdog_is_required_only_guarded_markets_are_used(new_stage: NewStage) -> None:
    """Offers of a market without one are left out and counted; the guarded, dearer market is taken."""
    guarded = {"name": "bravo", "watchdog": "true", "usd_h": Decimal("0.80")}
    stage = new_stage({"name": "acme"}, guarded, safety="require_watchdog = true")
    assert sum(n for why, n in stage.launch.plan(0).left_out.items() if "require_watchdog" in why) == 3
    assert stage.run() is Outcome.SUCCEEDED
    assert (len(stage.markets[0].machines), len(stage.markets[1].machines)) == (0, 1)


def test_a_machines_own_deadline_counts(new_stage: NewStage) -> None:
    """A provider whose machines end themselves needs no script: a receipt says so, also where required."""
    stage = new_stage({"own_deadline": True}, safety="require_watchdog = true")
    assert stage.run() is Outcome.SUCCEEDED
    (armed,) = stage.receipts("watchdog.armed")
    assert armed["how"] == OWN_DEADLINE
    assert _moment(armed["until"]) == _moment(stage.receipts("pod.intent")[0]["end"]) + timedelta(seconds=600)
    assert stage.watchdogs() == []


@pytest.mark.parametrize("fails", [False, True])
def test_the_markets_timer_is_set_once(new_stage: NewStage, fails: bool) -> None:
    """Right after the create, at the end + 60 minutes; a market that won't is warned of, and used."""
    stage = new_stage({"timer": True})
    if fails:
        stage.markets[0].script("set_end", "fail")
    assert stage.run() is Outcome.SUCCEEDED
    (intent,) = stage.receipts("pod.intent")
    assert [verb for verb, _ in stage.markets[0].calls].count("set_end") == 1
    told = {} if fails else {"acme-1": _moment(intent["end"]) + timedelta(minutes=60)}
    assert stage.markets[0].timers == told
    assert any("take the timer" in w for w in stage.listener.warnings) is fails


def test_the_client_finds_what_the_start_up_script_began(new_stage: NewStage) -> None:
    """Armed at boot and again by the client: one instance, the client's exact time, the boot's restart."""
    from gipper.api import boot_watchdog
    from gipper.values.bills import Watchdog

    stage = new_stage({"watchdog": "true"})
    _login(stage.sshd, boot_watchdog(Watchdog(command="true"), 1e6))
    wait_until(lambda: len(stage.watchdogs()) == 1, what="the start-up script's runs")
    first = stage.watchdogs()
    assert stage.run() is Outcome.SUCCEEDED
    assert len(stage.watchdogs()) == 1
    assert stage.watchdogs() != first
    assert int((stage.sshd.home / ".gipper-watchdog" / "left").read_text().split()[0]) < 1e5
    assert stage.receipts("watchdog.armed")[0]["how"] == HOW["boot"]


def _login(sshd: Sshd, text: str) -> None:
    import subprocess

    subprocess.run(["ssh", *sshd.ssh_options(), sshd.host, "sh"], input=text.encode(), check=True, timeout=30)


def _moment(value: object) -> object:
    from gipper.values.receipts import parse_stamp

    return parse_stamp(value)  # type: ignore[arg-type]
