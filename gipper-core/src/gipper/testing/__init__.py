"""For plugin authors and for gipper's own tests: a scripted market, a crowd of hosts with hidden truths, and
a simulated runtime."""

from __future__ import annotations

from gipper.testing.crowd import CrowdMarket, Load, Rental, Truth
from gipper.testing.market import FakeMachine, FakeMarket
from gipper.testing.remote import FakeRemote, made_job
from gipper.testing.sim import Deadlock, SimRuntime

__all__ = [
    "CrowdMarket",
    "Deadlock",
    "FakeMachine",
    "FakeMarket",
    "FakeRemote",
    "Load",
    "Rental",
    "SimRuntime",
    "Truth",
    "made_job",
]
