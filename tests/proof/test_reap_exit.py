"""`gipper pod reap` and `pod proof` as commands, over a market whose machines are lines in a file."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from support_cli import World, distribution, world

from gipper.ledger.store import SqliteLedger
from gipper.naming import MachineName, round_up_to_minute
from gipper.runtime import RealRuntime
from gipper.values.receipts import (
    Owner,
    PodCreate,
    PodIntent,
    PodTerminate,
    PodTerminated,
    RunEnd,
    RunStart,
    Spend,
)

RUN = "0000000000"
MARKET = """
from decimal import Decimal
from pathlib import Path
from gipper.api import Listing, Machine, MachineState, ProviderInfo, hookimpl

FILE = Path(__file__).with_name("machines")


class Acme:
    def __init__(self, context):
        pass

    @staticmethod
    @hookimpl
    def gipper_provider():
        return ProviderInfo(name="acme", title="Acme", settle_s=0.05, gone_patience_s=1.0, appear_s=0.0)

    @hookimpl
    def gipper_list_offers(self, query):
        return Listing(items=())

    @hookimpl
    def gipper_rent(self, offer, request):
        raise RuntimeError("not here")

    @hookimpl
    def gipper_describe(self, machine_id):
        return next((m for m in self.gipper_list_ours() if m.id == machine_id), None)

    @hookimpl
    def gipper_list_ours(self):
        lines = FILE.read_text().split()
        return Listing(items=tuple(
            Machine(provider="acme", id="m-1", name=name, state=MachineState.RUNNING, usd_h=Decimal(1))
            for name in lines
        ))

    @hookimpl
    def gipper_terminate(self, machine_id):
        FILE.write_text("")
"""


@pytest.fixture
def user(own_folders: Path) -> Iterator[World]:
    """A user with that market installed."""
    with world(own_folders) as made:
        site = made.home / "site"
        entries = {"gipper.providers": {"acme": "acme_market:Acme"}}
        distribution(site, "gipper-acme", {"acme_market": MARKET}, entries)
        (site / "machines").write_text("")
        made.env["PYTHONPATH"] = str(site)
        made.settings(limits={"recheck_after": 60, "gone_patience": 1})
        yield made


def _proved(user: World, ago: timedelta) -> str:
    """A run that succeeded, its machine proved gone that long ago; the machine's name."""
    now = RealRuntime().now()
    then = now - ago
    name = str(MachineName(inst="00000", run=RUN, attempt=1, end=round_up_to_minute(now)))
    owner = Owner(host_id="h", boot_id="b", pid_ns="n", pid=1, start_ticks=1)
    usd = Decimal("1")
    store = SqliteLedger.open(user.data, RealRuntime())
    for payload in (
        RunStart(job={"name": "job"}, owner=owner, client="test", plugins={}),
        PodIntent(provider="acme", offer="o", name=name, attempt=1, end=now, usd_h=usd, reserved_usd=usd),
        PodCreate(provider="acme", pod="m-1", name=name, usd_h=usd),
        PodTerminate(
            provider="acme", pod="m-1", name=name, why="over", answer="accepted", answered=then - ago / 2
        ),
        PodTerminated(provider="acme", pod="m-1", name=name, described=then, listings=(then - ago / 4, then)),
        Spend(provider="acme", pod="m-1", usd=usd, seconds=1.0, usd_h=usd, basis="computed"),
        RunEnd(outcome="succeeded", reason="exit code 0"),
    ):
        store.append(payload, run=RUN, refs={"name": "job"})
    store.close()
    return name


def test_a_comeback_is_5_once_and_proof_tells_the_whole_story(user: World) -> None:
    """The run succeeded and its machine is back: reap ends it and exits 5; the next reap exits 0."""
    name = _proved(user, timedelta(minutes=2))
    assert user.gipper("pod", "proof", RUN).code == 0
    (user.home / "site" / "machines").write_text(name)
    done = user.gipper("pod", "reap")
    assert done.code == 5, done.all
    assert f"ended acme m-1 {name}: it is there although it was proved gone" in done.out
    assert user.kinds().count("pod.reappeared") == 1
    again = user.gipper("pod", "reap")
    assert (again.code, again.lines) == (0, ["nothing to reap"]), again.all
    proof = user.gipper("pod", "proof", RUN)
    assert proof.code == 0 and "listed again" in proof.out, proof.all


def test_a_reap_that_is_late_enough_looks_once_more(user: World) -> None:
    """Not listed: a receipt and nothing else, also in what `proof` says."""
    _proved(user, timedelta(minutes=2))
    assert "not yet once more" in user.gipper("pod", "proof", RUN).out
    for _ in range(2):
        assert user.gipper("pod", "reap").lines == ["nothing to reap"]
    assert user.kinds().count("pod.recheck") == 1
    proof = user.gipper("pod", "proof", RUN)
    assert proof.code == 0 and "not yet once more" not in proof.out


def test_a_proof_that_is_young_is_left_alone(user: World) -> None:
    """Before `limits.recheck_after` there is no second look."""
    _proved(user, timedelta(seconds=1))
    assert user.gipper("pod", "reap").code == 0
    assert user.kinds().count("pod.recheck") == 0
