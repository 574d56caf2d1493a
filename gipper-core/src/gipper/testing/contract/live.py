"""The contract on the real market: one machine, rented under a cap, ended and proved gone. It costs money."""

from __future__ import annotations

import os
from decimal import Decimal
from typing import Any

import pytest

from gipper.errors import GipperError
from gipper.money import usd
from gipper.runtime import RealRuntime
from gipper.testing.contract.bench import Bench
from gipper.testing.contract.stage import Stage, staged
from gipper.values.machines import Machine


class LiveSuite:
    """Subclass it as `TestSomethingLive`; skipped unless pytest is run with `--gipper-live USD_PER_HOUR`.

    It rents the cheapest offer that costs at most that much per hour, waits for its address, ends it, and
    looks until describe and two listings lack it. If the test dies, `gipper pod ls` shows the machine.
    """

    provider_class: type
    settings: object = None
    key_name: str = ""

    def test_one_machine_comes_and_goes(self, tmp_path: Any, request: Any) -> None:
        """A real machine is rented, listed, reached and gone."""
        most = request.config.getoption("--gipper-live", default=None)
        key = os.environ.get(self.key_name)
        if most is None or not key:
            pytest.skip(f"needs --gipper-live USD_PER_HOUR and {self.key_name}")
        bench = Bench(tmp_path)
        bench.provider_class, bench.settings, bench.key = self.provider_class, self.settings, key
        bench.runtime = RealRuntime()
        with staged(bench) as stage:
            self._story(stage, usd(most))

    def _story(self, stage: Stage, most: Decimal) -> None:
        offers = sorted((o for o in stage.listing() if o.usd_h <= most), key=lambda o: o.usd_h)
        assert offers, f"nothing costs at most {most} $/h now"
        request = stage.request()
        try:
            machine = stage.provider.rent(offers[0], request)
        except GipperError:
            self._end_by_name(stage, request.name)
            raise
        try:
            assert stage.appeared(machine).name == request.name
            stage.ready(machine)
        finally:
            self._end(stage, machine)

    def _end_by_name(self, stage: Stage, name: str) -> None:
        for machine in stage.listed():
            if machine.name == name:
                self._end(stage, machine)

    def _end(self, stage: Stage, machine: Machine) -> None:
        stage.provider.terminate(machine.id)
        patience = stage.info.gone_patience_s

        def gone() -> bool:
            return all(m.id != machine.id for m in stage.listed())

        stage.until(gone, patience, f"{machine.name} leaves the list; end it in the market's console")
        stage.bench.runtime.sleep(stage.info.settle_s)
        assert gone(), f"{machine.name} is in the list again; end it in the market's console"
