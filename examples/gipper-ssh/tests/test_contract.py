"""The contract of gipper's providers on two real boxes. What only a market with a web API can do isn't shown."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from gipper_ssh import SshProvider
from gipper_ssh.info import SshSettings
from support_box import Box
from support_client import PUBLIC, client, offer, request

from gipper.testing import contract


class BoxesBench(contract.Bench):
    """Two boxes; a machine is a lease on one of them."""

    provider_class = SshProvider
    key = None
    unknown_id = "tower.gipper-abcde-0000000000-1-0t1xyz"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.boxes = []
        for name in ("tower", "rack"):
            (folder / name).mkdir(parents=True)
            box = Box(folder / name, name)
            box.start()
            self.boxes.append(box)
        self.inventory = folder / "boxes.toml"
        self.inventory.write_text("\n".join(box.entry() for box in self.boxes))
        self.settings = SshSettings(inventory=str(self.inventory))

    def query(self) -> Mapping[str, Any]:
        return {"gpu_count": 0}

    def public_key(self) -> str:
        return PUBLIC

    def arrange(self, scenario: str) -> None:
        if scenario in ("offers_empty", "rent_offer_gone"):
            for box in self.boxes:
                other = client(self.folder / "other", *(b.entry() for b in self.boxes))
                other.gipper_rent(
                    offer(box.name), request(name=f"gipper-zzzzz-987654321{self.boxes.index(box)}-1-0t1xyz")
                )
        elif scenario in ("describe_fails", "list_fails", "end_fails"):
            for box in self.boxes:
                box.stop()
        elif scenario == "machine_vanishes":
            for lease in self._leases():
                lease.unlink()
        else:
            super().arrange(scenario)

    def alive(self) -> Collection[str]:
        mine = (self._name(lease) for lease in self._leases())
        return {name for name in mine if not name.startswith("gipper-zzzzz")}

    def creates(self) -> int:
        return len(self._leases())

    def close(self) -> None:
        for box in self.boxes:
            box.stop()

    def _leases(self) -> list[Path]:
        found = (box.home / ".gipper-ssh" / "lease" for box in self.boxes)
        return [lease for lease in found if lease.is_file()]

    @staticmethod
    def _name(lease: Path) -> str:
        lines = dict(line.partition("=")[::2] for line in lease.read_text().splitlines())
        return lines["name"]


class TestOwnBoxes(contract.Suite):
    """Own boxes over SSH."""

    def make_bench(self, folder: Path) -> contract.Bench:
        return BoxesBench(folder)
