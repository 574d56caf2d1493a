"""Field cases around machines that come up badly and machines that go, with a fake market's verbs."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support_sshd import Relay, Sshd
from support_stage import QUICK, Market, Stage, staged

from gipper.errors import ProviderError
from gipper.markers import hookimpl
from gipper.outcomes import Outcome
from gipper.remote import Dialer, Remote, Target
from gipper.runtime import Event, RealRuntime, Runtime
from gipper.testing import FakeMachine
from gipper.values.bills import Leftover
from gipper.values.machines import Machine


class ShortLived:
    """A dialer whose first `times` sessions are reset by the machine soon after the login."""

    def __init__(self, inner: Dialer, relay: Relay, runtime: Runtime, times: int) -> None:
        self.inner, self.relay, self.runtime = inner, relay, runtime
        self.left = times
        self.dialled = 0

    def dial(self, target: Target, *, timeout_s: float, stop: Event | None = None) -> Remote:
        remote = self.inner.dial(target, timeout_s=timeout_s, stop=stop)
        self.dialled += 1
        if self.left > 0:
            self.left -= 1
            self.runtime.spawn("restart", self._restart)
        return remote

    def _restart(self) -> None:
        self.runtime.sleep(0.05)
        self.relay.reset()


def _restarting(tmp_path: Path, sshd: Sshd, relay: Relay, times: int, ready_min: float) -> Stage:
    return staged(
        tmp_path, sshd, market={"boot": lambda _m: (relay.address,)}, limits={"ready_min": ready_min},
        patience=QUICK, through=lambda d: ShortLived(d, relay, RealRuntime(), times),
    )  # fmt: skip


def test_d_028_a_machine_that_restarts_in_a_loop_is_not_ready(tmp_path: Path, sshd: Sshd) -> None:
    """Each login works and each session dies: never ready, nothing sent, bad at the limit."""
    with Relay(sshd.port) as relay:
        stage = _restarting(tmp_path, sshd, relay, 10_000, ready_min=2)
        stage.market.offers = [stage.market.offer("o1")]
        result = stage.run()
    assert (result.outcome, result.exit_code) == (Outcome.NO_OFFER, 3)
    assert "no session stays" in result.reason and "ready limit" in result.reason
    assert stage.blames() == ["host"]
    assert not {"pod.ready", "preflight", "job.start"} & set(stage.kinds())
    assert stage.market.alive() == []


def test_d_028_a_machine_that_restarts_once_is_waited_for(tmp_path: Path, sshd: Sshd) -> None:
    """The first session dies while it starts, the next one stays: ready, and the run works."""
    with Relay(sshd.port) as relay:
        stage = _restarting(tmp_path, sshd, relay, 1, ready_min=60)
        assert stage.run().outcome is Outcome.SUCCEEDED
    assert len(stage.market.machines) == 1
    assert stage.blames() == [None]


def test_d_065_nothing_after_destroy_is_the_normal_end(tmp_path: Path, sshd: Sshd) -> None:
    """Describe knows it no more, the list lacks it: proved, and not a word of warning."""
    stage = staged(tmp_path, sshd)
    assert stage.run().exit_code == 0
    assert stage.kinds().count("pod.terminated") == 1
    assert stage.listener.warnings == [w for w in stage.listener.warnings if "no watchdog" in w]


class Leaving(Market):
    """Its machines leave a volume, and may be ended only once."""

    def provider_class(self) -> type:
        market, base = self, super().provider_class()

        class Provider(base):  # type: ignore[misc, valid-type]
            @hookimpl
            def gipper_leftovers(self, machine_id: str) -> Any:
                return [Leftover(id="v9", text="volume of 40 GB", usd_h=Decimal("0.01"))]

            @hookimpl
            def gipper_terminate(self, machine_id: str) -> None:
                if market.machines[machine_id].ended is not None:
                    market.calls.append(("forbidden", machine_id))
                    raise ProviderError("HTTP 403: forbidden")
                super().gipper_terminate(machine_id)

        return Provider


def test_d_072_a_disk_stays_after_the_machine(tmp_path: Path, sshd: Sshd) -> None:
    """The second delete is forbidden: the machine is proved gone all the same, the volume told and kept."""
    stage = staged(tmp_path, sshd, market_class=Leaving)
    stage.market.script("list_ours", "fail")
    result = stage.run()
    assert (result.outcome, result.exit_code) == (Outcome.SUCCEEDED, 0)
    assert stage.calls("forbidden")
    (gone,) = stage.receipts("pod.terminated")
    assert gone["leftovers"] == ["v9: volume of 40 GB"]
    assert stage.warned("v9: volume of 40 GB")


class Free(Market):
    """Its machines are said to cost nothing."""

    def as_told(self, machine: FakeMachine) -> Machine:
        told = super().as_told(machine)
        return Machine(
            provider=told.provider, id=told.id, name=told.name, state=told.state, usd_h=Decimal(0),
            addresses=told.addresses,
        )  # fmt: skip


def test_d_073_a_price_of_zero_is_not_free(tmp_path: Path, sshd: Sshd) -> None:
    """The market says $0/h of a running machine: the offer's price counts, second by second."""
    stage = staged(tmp_path, sshd, market_class=Free)
    assert stage.run().outcome is Outcome.SUCCEEDED
    (spend,) = stage.receipts("spend")
    assert spend["usd_h"] == Decimal("0.40")
    assert spend["usd"] > 0
    assert spend["usd"] == pytest.approx(
        Decimal("0.40") * Decimal(spend["seconds"]) / 3600, abs=Decimal("1e-6")
    )
    assert stage.receipts("pod.create")[0]["usd_h"] == Decimal("0.40")


def test_the_good_way_to_ready_costs_one_more_answer(tmp_path: Path, sshd: Sshd) -> None:
    """A session that stays is asked twice, a moment apart, and no more."""
    asked: list[str] = []

    class Watched:
        def __init__(self, inner: Dialer) -> None:
            self.inner = inner

        def dial(self, target: Target, *, timeout_s: float, stop: Event | None = None) -> Remote:
            remote = self.inner.dial(target, timeout_s=timeout_s, stop=stop)
            ask = remote.ask

            def watched(script: str, *, timeout_s: float = 60.0) -> Any:
                asked.append(script)
                return ask(script, timeout_s=timeout_s)

            remote.ask = watched  # type: ignore[method-assign]
            return remote

    stage = staged(tmp_path, sshd, through=Watched)
    assert stage.run().outcome is Outcome.SUCCEEDED
    assert asked.count("true") == 2
