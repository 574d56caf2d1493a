"""The suite on `local`: real processes of this computer, real time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from gipper.builtin.local.provider import LocalProvider
from gipper.builtin.local.record import load
from gipper.testing import contract


class LocalBench(contract.Bench):
    """Machines are folders below the provider's own."""

    provider_class = LocalProvider
    key = None

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._creates = 0

    def query(self) -> Mapping[str, Any]:
        return {"gpu_count": 0}

    def public_key(self) -> str:
        from gipper.ssh.keys import ensure_key

        return ensure_key(self.folder / "key").public

    @property
    def _machines(self) -> list[Path]:
        return [p for p in (self.folder / "provider" / "machines").glob("*") if p.is_dir()]

    def arrange(self, scenario: str) -> None:
        if scenario == "machine_vanishes":
            for machine in self._machines:
                LocalProvider(_Context(self.folder / "provider")).gipper_terminate(machine.name)
        else:
            super().arrange(scenario)

    def alive(self) -> Collection[str]:
        return {record.name for m in self._machines if (record := load(m)) is not None}

    def creates(self) -> int:
        return len(self._machines)

    def close(self) -> None:
        provider = LocalProvider(_Context(self.folder / "provider"))
        for machine in self._machines:
            provider.gipper_terminate(machine.name)


class _Context:
    """Just enough for the provider to put its machines away."""

    settings = None

    def __init__(self, folder: Path) -> None:
        from gipper.runtime import RealRuntime

        self.data_folder = folder
        self.runtime = RealRuntime()


class TestLocal(contract.Suite):
    """The sandbox on this computer."""

    def make_bench(self, folder: Path) -> contract.Bench:
        return LocalBench(folder)
