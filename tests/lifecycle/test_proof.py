"""A machine is gone when it is proved gone, and not before."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import attrs
import pytest
from support_fake import handle, kinds, services

from gipper.lifecycle.proof import Proof, Rental, end_machine
from gipper.lifecycle.services import Services
from gipper.lifecycle.spending import record_spend
from gipper.testing import FakeMarket, SimRuntime
from gipper.values.machines import MachineState

NAME = "gipper-00000-0000000000-1-0abcde"


@attrs.define
class Stage:
    """One rented machine on a fake market."""

    market: FakeMarket
    services: Services
    rental: Rental

    @property
    def receipts(self) -> list[str]:
        return kinds(self.services)


def staged(tmp_path: Path, **market: object) -> Stage:
    runtime = SimRuntime()
    fake = FakeMarket(runtime, **market)  # type: ignore[arg-type]
    machine = fake.create(NAME, Decimal("0.40"))
    rental = Rental(
        provider=handle(fake, tmp_path / "p"), run="0000000000", name=NAME, pod=machine.id,
        usd_h=Decimal("0.40"), since=runtime.now(),
    )  # fmt: skip
    from gipper.values.receipts import PodCreate

    svc = services(tmp_path / "data", runtime)
    svc.ledger.append(
        PodCreate(provider="acme", pod=machine.id, name=NAME, usd_h=Decimal("0.40")), run="0000000000"
    )
    return Stage(fake, svc, rental)


def test_a_machine_is_ended_and_two_listings_prove_it(tmp_path: Path) -> None:
    """The ordinary way: terminate, then two complete listings at least settle_s apart, after the answer."""
    stage = staged(tmp_path)
    stage.market.runtime.sleep(100)
    proof = end_machine(stage.services, stage.rental, "test")
    assert isinstance(proof, Proof)
    assert stage.market.alive() == []
    assert proof.listings[0] >= proof.asked
    assert proof.listings[1] - proof.listings[0] >= timedelta(seconds=stage.market.settle_s)
    assert stage.receipts == ["pod.create", "pod.terminate", "pod.terminated"]


@pytest.mark.parametrize("answer", ["ignored", "fail"])
def test_a_machine_that_stays_is_pending_and_never_called_gone(tmp_path: Path, answer: str) -> None:
    """D-064: whatever terminate answers, a machine that is still listed is not gone."""
    stage = staged(tmp_path)
    stage.market.script("terminate", answer, forever=True)
    assert end_machine(stage.services, stage.rental, "test") is None
    assert len(stage.market.alive()) == 1
    assert stage.receipts[-1] == "pod.termination_pending"
    assert stage.market.runtime.monotonic() >= stage.market.gone_patience_s


def test_a_terminate_that_fails_first_is_asked_again(tmp_path: Path) -> None:
    """One refused terminate is no reason to leave a machine running."""
    stage = staged(tmp_path)
    stage.market.script("terminate", "fail", "fail")
    assert end_machine(stage.services, stage.rental, "test") is not None
    assert stage.market.alive() == []


def test_a_lost_answer_to_terminate_still_ends_in_a_proof(tmp_path: Path) -> None:
    """Terminate acted, its answer was an error: the listings decide."""
    stage = staged(tmp_path)
    stage.market.script("terminate", "acts_and_fails", forever=True)
    stage.market.runtime.sleep(60)
    assert end_machine(stage.services, stage.rental, "test") is not None


@pytest.mark.parametrize("fault", ["fail", "none", "cut_short"])
def test_d_068_a_failed_listing_proves_nothing(tmp_path: Path, fault: str) -> None:
    """While the list can't be read, nothing is proved; once it can, the proof follows."""
    stage = staged(tmp_path)
    stage.market.runtime.sleep(60)
    stage.market.script("list_ours", fault, fault, fault)
    proof = end_machine(stage.services, stage.rental, "test")
    assert proof is not None
    assert sum(1 for verb, _ in stage.market.calls if verb == "list_ours") == 5
    stage.market.script("list_ours", fault, forever=True)
    assert end_machine(stage.services, stage.rental, "again") is None


def test_a_list_that_lags_proves_nothing_before_appear_s(tmp_path: Path) -> None:
    """A machine that no listing ever showed is not proved absent before created + appear_s."""
    stage = staged(tmp_path, appear_s=30.0)
    created = stage.market.runtime.now()
    stage.market.script("list_ours", "lag", forever=True)
    stage.market.script("terminate", "ignored", forever=True)
    stage.market.script("describe", "none", forever=True)
    proof = end_machine(stage.services, stage.rental, "test")
    assert proof is not None
    assert proof.listings[0] >= created + timedelta(seconds=30)


def test_without_a_promise_ten_minutes_pass_before_absence_is_believed(tmp_path: Path) -> None:
    """appear_s None: 600 s, whatever the listings say earlier."""
    stage = staged(tmp_path, appear_s=None)
    created = stage.market.runtime.now()
    proof = end_machine(stage.services, stage.rental, "test")
    assert proof is not None
    assert proof.listings[0] >= created + timedelta(seconds=600)


def test_describe_must_agree(tmp_path: Path) -> None:
    """Not listed but still described: not gone."""
    stage = staged(tmp_path)
    stage.market.runtime.sleep(60)
    stage.market.script("terminate", "ignored", forever=True)
    stage.market.script("list_ours", "lag", forever=True)
    assert end_machine(stage.services, stage.rental, "test") is None


def test_a_stopped_machine_is_not_gone(tmp_path: Path) -> None:
    """D-070: a state that doesn't bill for the GPU is no proof."""
    stage = staged(tmp_path)
    stage.market.machines[stage.rental.pod].state = MachineState.STOPPED
    stage.market.script("terminate", "ignored", forever=True)
    assert end_machine(stage.services, stage.rental, "test") is None


def test_a_machine_that_somebody_else_ended_is_proved_quietly(tmp_path: Path) -> None:
    """D-066: gone before terminate is gone."""
    stage = staged(tmp_path)
    stage.market.runtime.sleep(60)
    stage.market.kill(stage.rental.pod)
    assert end_machine(stage.services, stage.rental, "test") is not None


def test_a_twin_is_ended_and_counted(tmp_path: Path) -> None:
    """A second machine of the same name gets its own receipts and its own spend."""
    stage = staged(tmp_path)
    twin = stage.market.create(NAME, Decimal("0.40"))
    stage.market.runtime.sleep(3600)
    proof = end_machine(stage.services, stage.rental, "test")
    assert proof is not None
    assert stage.market.alive() == []
    record_spend(stage.services, stage.rental, proof.asked, "computed")
    spends = {r["pod"]: r["usd"] for r in stage.services.ledger.read(kinds={"spend"})}
    assert set(spends) == {stage.rental.pod, twin.id}
    terminated = {r["pod"] for r in stage.services.ledger.read(kinds={"pod.terminated"})}
    assert terminated == set(spends)


def test_spend_is_written_once(tmp_path: Path) -> None:
    """However often it is recorded, each machine has one spend: $0.40 for an hour is $0.40."""
    stage = staged(tmp_path)
    until = stage.rental.since + timedelta(hours=1)
    for _ in range(3):
        record_spend(stage.services, stage.rental, until, "computed")
    assert [r["usd"] for r in stage.services.ledger.read(kinds={"spend"})] == [Decimal("0.400000")]


def test_only_machines_of_this_name_are_ever_asked_to_end(tmp_path: Path) -> None:
    """D-071: strangers in the same account are never touched."""
    stage = staged(tmp_path)
    for name in ("", "training", "gipperish", "Gipper-x", "gipper-00000-0000000001-1-0abcde"):
        stage.market.create(name, Decimal("1"))
    end_machine(stage.services, stage.rental, "test")
    assert {d for verb, d in stage.market.calls if verb == "terminate"} == {stage.rental.pod}
    assert len(stage.market.alive()) == 5
