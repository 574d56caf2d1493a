"""The contract of a provider as checks that an author runs on a market of their own.

    # conftest.py
    pytest_plugins = ["gipper.testing.pytest_plugin"]

    # test_contract.py
    from gipper.testing import contract

    class TestAcme(contract.Suite):
        def make_bench(self, folder):
            return AcmeBench(folder)

A `Bench` gives the provider's class, a market that the author runs (a toy, an emulator), and arranges on it
what a check needs. What a bench can't arrange it says is unsupported, with the reason; the report at the end
of the run prints both what was proved and what was not.
"""

from __future__ import annotations

from gipper.testing.contract.bench import SCENARIOS, Bench, Unsupported
from gipper.testing.contract.live import LiveSuite
from gipper.testing.contract.running import CHECKS, ContractBroken, Result, run_check, run_checks
from gipper.testing.contract.sentence import Check
from gipper.testing.contract.stage import Stage, staged
from gipper.testing.contract.suite import Suite

__all__ = [
    "CHECKS",
    "SCENARIOS",
    "Bench",
    "Check",
    "ContractBroken",
    "LiveSuite",
    "Result",
    "Stage",
    "Suite",
    "Unsupported",
    "run_check",
    "run_checks",
    "staged",
]
