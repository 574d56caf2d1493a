"""For plugin authors and for gipper's own tests: a scripted market and a simulated runtime."""

from __future__ import annotations

from gipper.testing.market import FakeMachine, FakeMarket
from gipper.testing.sim import Deadlock, SimRuntime

__all__ = ["Deadlock", "FakeMachine", "FakeMarket", "SimRuntime"]
