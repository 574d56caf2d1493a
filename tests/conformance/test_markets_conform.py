"""The suite on every market here, each on its emulator."""

from __future__ import annotations

from pathlib import Path

from conformance.market_benches import RunpodBench, ShadeformBench, VastBench

from gipper.testing import contract


class TestVast(contract.Suite):
    """Vast.ai."""

    def make_bench(self, folder: Path) -> contract.Bench:
        return VastBench(folder)


class TestRunpod(contract.Suite):
    """Runpod."""

    def make_bench(self, folder: Path) -> contract.Bench:
        return RunpodBench(folder)


class TestShadeform(contract.Suite):
    """Shadeform."""

    def make_bench(self, folder: Path) -> contract.Bench:
        return ShadeformBench(folder)
