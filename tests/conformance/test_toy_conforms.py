"""The suite on a toy market that is correct: the ground on which wrong plugins are told apart."""

from __future__ import annotations

from pathlib import Path

from support_toy import ToyBench

from gipper.testing import contract


class TestToy(contract.Suite):
    """A correct provider."""

    def make_bench(self, folder: Path) -> contract.Bench:
        return ToyBench(folder)
