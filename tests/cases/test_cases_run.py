"""Field cases of whole runs: what parts prove by themselves must also hold when they work together."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stubs.gpu_stubs import GpuStubs, build_driver
from support_sshd import Relay, Sshd, free_port, wait_until
from support_stage import QUICK, Market, Stage, staged

from gipper.lifecycle.checks import run_checks
from gipper.markers import hookimpl
from gipper.outcomes import Outcome
from gipper.values.jobs import Input
from gipper.values.machines import Address, MachineState


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a machine whose GPU passes every check."""
    folder = tmp_path_factory.mktemp("gpu")
    return GpuStubs(folder / "stubs", build_driver(folder)).env()


@pytest.fixture
def host(tmp_path: Path, gpu: dict[str, str]) -> Iterator[Sshd]:
    """A machine of this test alone, not started yet and without anybody's key."""
    made = Sshd(tmp_path / "host", env=gpu, authorize=False)
    try:
        yield made
    finally:
        made.stop()


def test_d_015_the_offers_went_away(tmp_path: Path, sshd: Sshd) -> None:
    """The three best: gone, no capacity, good. The third is used, and no host is blamed."""
    stage = staged(tmp_path, sshd)
    stage.market.script("rent", "offer_gone", "no_capacity")
    assert stage.run().outcome is Outcome.SUCCEEDED
    assert [r["offer"] for r in stage.receipts("pod.intent")] == ["o1", "o2", "o3"]
    assert stage.blames() == [None]


def test_d_015_lost_races_are_bounded(tmp_path: Path, sshd: Sshd) -> None:
    """Every offer is gone: ten are tried and no more, then exit 3."""
    stage = staged(tmp_path, sshd)
    stage.market.offers = [stage.market.offer(f"o{i:02}") for i in range(30)]
    stage.market.script("rent", "offer_gone", forever=True)
    result = stage.run()
    assert (result.outcome, result.exit_code) == (Outcome.NO_OFFER, 3)
    assert len(stage.calls("rent")) == 10


def test_d_024_sshd_comes_late(tmp_path: Path, host: Sshd) -> None:
    """Running with an address that refuses at first: waited for, and how long that took is recorded."""
    stage = staged(tmp_path, host, limits={"ready_min": 60})
    task = stage.launch.gipper.runtime.spawn("run", stage.run)
    wait_until(lambda: len(stage.calls("describe")) >= 6, seconds=30, what="asked again and again")
    host.start()
    assert task.result().outcome is Outcome.SUCCEEDED
    (ready,) = stage.receipts("pod.ready")
    created = stage.receipts("pod.create")[0]
    assert ready["seconds"] == pytest.approx((ready.ts - created.ts).total_seconds(), abs=0.5)
    assert len(stage.market.machines) == 1


def test_d_030_the_key_comes_late(tmp_path: Path, host: Sshd) -> None:
    """sshd answers long before it knows the key: the same machine is waited for."""
    host.start()
    stage = staged(tmp_path, host, limits={"ready_min": 60})
    keys = host.authorized_keys.read_text()
    host.authorized_keys.write_text("")
    task = stage.launch.gipper.runtime.spawn("run", stage.run)
    wait_until(lambda: host.log.count("publickey") >= 3, seconds=30, what="refused again and again")
    host.authorized_keys.write_text(keys)
    assert task.result().outcome is Outcome.SUCCEEDED
    assert len(stage.market.machines) == 1


def test_d_030_the_key_never_comes(tmp_path: Path, host: Sshd) -> None:
    """Bad host at the limit, told as a refused key and not as unreachable."""
    host.start()
    stage = staged(tmp_path, host)
    host.authorized_keys.write_text("")
    stage.market.offers = [stage.market.offer("o1")]
    result = stage.run()
    assert result.exit_code == 3
    assert "key refused" in result.reason
    assert stage.blames() == ["host"]


def test_d_035_chatty_shells(tmp_path: Path, host: Sshd) -> None:
    """Start files that print, and a banner: checks, upload, exit status and outputs are all right."""
    banner = tmp_path / "banner"
    banner.write_text("".join(f"line {i} of {{a banner\n" for i in range(40)))
    host._extra = (f"Banner {banner}",)
    (host.home / ".bashrc").write_text("echo 'Welcome {not json}'; echo warning >&2; printf 'no line end'\n")
    host.start()
    (tmp_path / "in").write_text("sent")
    stage = staged(
        tmp_path,
        host,
        "mkdir out; cat in > out/x; exit 7",
        inputs=(Input(src=str(tmp_path / "in"), dst="in"),),
    )
    result = stage.run()
    assert result.job is not None and result.job.code == 7
    assert (tmp_path / "out" / "x").read_text() == "sent"
    assert [r["verdict"] for r in stage.receipts("preflight")] == ["passed"] * 5


def test_d_036_a_wish_to_stop_during_the_checks(tmp_path: Path, sshd: Sshd) -> None:
    """Asked to stop while preflight runs: teardown, exit 130, and the host keeps its good name."""
    stage = staged(tmp_path, sshd)
    interrupts = stage.interrupts()

    def preflight(*given: Any) -> Any:
        interrupts.raise_to(1, "Ctrl-C")
        return run_checks(*given)

    stage.launch.preflight = preflight
    result = stage.run(interrupts)
    assert (result.outcome, result.exit_code) == (Outcome.INTERRUPTED, 130)
    assert stage.blames() == [None]
    assert "job.start" not in stage.kinds()
    assert stage.market.alive() == []


def _uploading(tmp_path: Path, sshd: Sshd, relay: Relay, **limits: float) -> Stage:
    (tmp_path / "big").write_bytes(os.urandom(20_000_000))
    return staged(
        tmp_path, sshd, "mkdir out; cat big > out/x; echo once >> out/starts", patience=QUICK,
        market={"boot": lambda _m: (relay.address,)}, limits={"ready_min": 20, **limits},
        inputs=(Input(src=str(tmp_path / "big"), dst="big"),),
    )  # fmt: skip


def test_d_047_an_upload_cut_once(tmp_path: Path, sshd: Sshd) -> None:
    """Reset after 5 of 20 MB: sent again on a new connection, whole, and the job starts once."""
    with Relay(sshd.port) as relay:
        stage = _uploading(tmp_path, sshd, relay)
        relay.cut_after(5_000_000)
        assert stage.run().outcome is Outcome.SUCCEEDED
        assert relay._cuts_left == 0
    assert (tmp_path / "out" / "x").read_bytes() == (tmp_path / "big").read_bytes()
    assert (tmp_path / "out" / "starts").read_text() == "once\n"
    assert stage.kinds().count("job.start") == 1


def test_d_047_an_upload_that_is_always_cut(tmp_path: Path, sshd: Sshd) -> None:
    """Within the upload's limit it never gets through: the machine is ended, the reason says so."""
    with Relay(sshd.port) as relay:
        stage = _uploading(tmp_path, sshd, relay, upload_min=2)
        stage.market.offers = [stage.market.offer("o1")]
        relay.cut_after(5_000_000, times=-1)
        result = stage.run()
    assert result.exit_code in (3, 4)
    assert "link is dead" in result.reason or "could not be sent" in result.reason, result.reason
    assert stage.market.alive() == []
    assert "job.start" not in stage.kinds()


def test_d_064_neither_ended_nor_listed_is_not_gone(tmp_path: Path, sshd: Sshd) -> None:
    """Delete and list are both refused: never called gone, exit 5 with the id, and no other machine."""
    stage = staged(tmp_path, sshd)
    stage.market.script("terminate", "fail", forever=True)
    stage.market.script("list_ours", "fail", forever=True)
    result = stage.run()
    assert result.exit_code == 5
    assert [m.pod for m in result.machines if m.proof is None] == ["acme-1"]
    assert stage.kinds()[-2:] == ["pod.termination_pending", "run.end"]
    assert "pod.terminated" not in stage.kinds()
    assert len(stage.market.machines) == 1


class Raising(Market):
    """Its third describe raises what no plugin should raise."""

    def provider_class(self) -> type:
        market, base = self, super().provider_class()

        class Provider(base):  # type: ignore[misc, valid-type]
            @hookimpl
            def gipper_describe(self, machine_id: str) -> Any:
                if len([v for v, _ in market.calls if v == "describe"]) == 2:
                    market.calls.append(("describe", machine_id))
                    raise RuntimeError("'NoneType' object is not subscriptable")
                return super().gipper_describe(machine_id)

        return Provider


def test_d_067_a_plain_error_in_a_poll_loses_nothing(tmp_path: Path, sshd: Sshd) -> None:
    """A plugin's describe breaks at the third poll: the machine is waited for or ended, never lost."""
    stage = staged(tmp_path, sshd, market_class=Raising)
    stage.market.boot = lambda _m: (Address(host="127.0.0.1", port=free_port()),)
    stage.market.offers = [stage.market.offer("o1")]
    result = stage.run()
    assert result.exit_code == 3
    assert "acme-1" in stage.calls("terminate")
    assert stage.kinds().count("pod.terminated") == 1
    assert stage.market.alive() == []


def test_d_070_a_machine_that_stopped_is_deleted(tmp_path: Path, sshd: Sshd) -> None:
    """The container exits under the job and the market calls it stopped: deleted, proved gone."""
    with Relay(sshd.port) as relay:
        stage = staged(
            tmp_path, sshd, "echo begun; sleep 600", patience=QUICK, limits={"ready_min": 20, "collect_min": 5},
            market={"boot": lambda _m: (relay.address,)},
        )  # fmt: skip
        task = stage.launch.gipper.runtime.spawn("run", stage.run)
        wait_until(lambda: b"begun" in stage.listener.logged, seconds=30, what="the job runs")
        (machine,) = stage.market.alive()
        machine.state = MachineState.STOPPED
        relay.refuse()
        result = task.result()
    assert (result.outcome, result.exit_code) == (Outcome.HOST_LOST, 4)
    assert "stopped" in result.reason
    assert machine.id in stage.calls("terminate")
    assert stage.market.alive() == []
    assert stage.blames() == [None]
