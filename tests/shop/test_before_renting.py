"""What a run writes and asks before it rents: round trips, and what the account still holds."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path

import attrs
import pytest

from gipper.core import Gipper
from gipper.core_credit import Credits
from gipper.errors import ProviderError
from gipper.jobfile import LoadedJob
from gipper.launch import Launch
from gipper.lifecycle.services import Interrupts
from gipper.markers import hookimpl
from gipper.outcomes import Outcome
from gipper.plugins.registry import Registry
from gipper.runtime import RealRuntime
from gipper.testing import FakeMarket
from gipper.values.bills import Account
from gipper.values.jobs import Budget, Job, Placement, RunTable


class World:
    """One user with one market, which says `account` of its account (or raises it, or hangs)."""

    def __init__(self, account: object = None) -> None:
        self.runtime = RealRuntime()
        self.market = market = FakeMarket(self.runtime, name="acme")

        class Acme(market.provider_class()):
            @hookimpl
            def gipper_account(self):
                if isinstance(account, BaseException):
                    raise account
                if account == "hangs":
                    market.runtime.wait_any([market.released])
                    return None
                return account

        registry = Registry()
        registry.add_provider(Acme, distribution="gipper-acme", version="1")
        self.gipper = Gipper(env=dict(os.environ), runtime=self.runtime, registry=registry)

    def launch(self, **placement: object) -> Launch:
        """A job that may be launched."""
        job = Job(
            name="j", run=RunTable(command="true"), folder=Path(os.environ["HOME"]),
            budget=Budget(max_hours=1.0), placement=Placement(**placement),
        )  # fmt: skip
        return Launch(gipper=self.gipper, loaded=LoadedJob(job=job, options={}))


def test_a_run_writes_the_round_trips_that_ordered_its_offers():
    """An interactive run leaves one rtt receipt for each probed offer that answered; looking leaves none."""
    world = World()
    near = attrs.evolve(world.market.offer("near"), address="127.0.0.1")
    world.market.offers = [near, world.market.offer("silent")]
    world.market.script("rent", "offer_gone", forever=True)
    launch = world.launch(profile="interactive")
    assert launch.look(0).ranked[0].offer.id == "near"
    assert list(world.gipper.ledger.read(kinds=["rtt"])) == []
    result = launch.run(Interrupts(world.runtime))
    assert result.outcome is Outcome.NO_OFFER
    (receipt,) = world.gipper.ledger.read(kinds=["rtt"])
    assert (receipt["provider"], receipt["offer"], receipt.run) == ("acme", "near", result.run)
    assert 0 < receipt["ms"] < 2000 and receipt["basis"] in ("icmp", "tcp")


def test_a_balance_that_cannot_hold_the_run_leaves_the_market_out():
    """Credit under 1.2 times the expected cost is a counted reason; more is none."""
    poor, rich = World(Account(credit_usd=Decimal("0.01"))), World(Account(credit_usd=Decimal(50)))
    assert poor.launch().look(0).left_out == {"credit": 3}
    assert len(rich.launch().look(0).ranked) == 3


@pytest.mark.parametrize("account", [None, Account(), ProviderError("down"), ValueError("bug")])
def test_an_unknown_balance_rules_nothing_out(account):
    """A market that doesn't tell, or can't, is used all the same."""
    assert len(World(account).launch().look(0).ranked) == 3


def test_a_slow_account_is_not_waited_for_long(request):
    """A balance that doesn't come within its limit is unknown."""
    world = World("hangs")
    request.addfinalizer(world.market.mend)
    credits = Credits(world.gipper.providers(), world.runtime, limit_s=0.2)
    assert credits["acme"] is None and list(credits) == ["acme"] and len(credits) == 1
    assert credits.get("other") is None
    assert not world.market.released.is_set()
