"""The toy market itself: what is on offer, who rented what, and since when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final

import attrs

from gipper.runtime import Runtime

KEY: Final = "made-up-key-0123456789"
CREDIT: Final = "12.50"
DISK_USD_GB_H: Final = Decimal("0.0001")
BOOT_S: Final = 20.0
PAGE: Final = 2
_HOUR: Final = Decimal(3600)
OFFERS: Final = (
    MappingProxyType({
        "id": "t1", "gpu": "RTX 4090", "gpus": 1, "memory_gb": 24, "usd_h": "0.340", "country": "CA",
        "city": "Montreal", "ram_gb": 64, "cpus": 16,
    }),
    MappingProxyType({
        "id": "t2", "gpu": "A100 SXM4 80GB", "gpus": 1, "memory_gb": 80, "usd_h": "1.190", "country": "NO",
        "city": "Oslo", "ram_gb": 128, "cpus": 24,
    }),
    MappingProxyType({
        "id": "t3", "gpu": "H100 PCIe", "gpus": 2, "memory_gb": 80, "usd_h": "3.900", "country": None,
        "city": "somewhere", "ram_gb": 256, "cpus": 48,
    }),
)  # fmt: skip


@attrs.define
class ToyMachine:
    """A machine that was rented. `ended` is when it was ended; it bills from `created` until then."""

    id: str
    name: str
    offer: Mapping[str, Any]
    usd_h: Decimal
    created: datetime
    ports: tuple[str, ...] = ()
    ended: datetime | None = None
    stopped: bool = False


class ToyMarket:
    """`offers` may be changed; `linger_s`: for how long the list shows a machine that was ended."""

    def __init__(self, runtime: Runtime, *, key: str = KEY) -> None:
        self.runtime = runtime
        self.key = key
        self.offers: list[Mapping[str, Any]] = list(OFFERS)
        self.taken: set[str] = set()
        self.machines: dict[str, ToyMachine] = {}
        self.linger_s = 0.0

    def priced(self, disk_gb: Decimal) -> list[dict[str, Any]]:
        """What is on offer, with the disk in the price."""
        return [{**offer, "usd_h": str(self._price(offer, disk_gb))} for offer in self.offers]

    def rent(self, offer_id: str, name: str, disk_gb: Decimal, ports: tuple[str, ...]) -> ToyMachine | None:
        """A new machine; None where there is no such offer."""
        offer = next((o for o in self.offers if o["id"] == offer_id), None)
        if offer is None:
            return None
        machine = ToyMachine(
            f"m{len(self.machines) + 1}", name, offer, self._price(offer, disk_gb), self.runtime.now(), ports
        )
        self.machines[machine.id] = machine
        return machine

    def end(self, machine_id: str) -> bool:
        """End it; False where it isn't known."""
        machine = self.machines.get(machine_id)
        if machine is None or not self.shown(machine):
            return False
        machine.ended = machine.ended or self.runtime.now()
        return True

    def alive(self) -> list[ToyMachine]:
        """The machines that bill now."""
        return [m for m in self.machines.values() if m.ended is None]

    def shown(self, machine: ToyMachine) -> bool:
        """Whether reads and lists tell of it."""
        if machine.ended is None:
            return True
        return self.runtime.now() < machine.ended + timedelta(seconds=self.linger_s)

    def told(self, machine: ToyMachine) -> dict[str, Any]:
        """A machine in the market's words."""
        up = (self.runtime.now() - machine.created).total_seconds() >= BOOT_S
        state = "ending" if machine.ended else "stopped" if machine.stopped else "up" if up else "booting"
        return {
            "id": machine.id, "name": machine.name, "state": state, "usd_h": str(machine.usd_h),
            "host": "203.0.113.7" if up else None, "port": 22022 if up else None,
            "created": machine.created.timestamp(),
            "ports": {p: 40000 + i for i, p in enumerate(machine.ports)} if up else {},
        }  # fmt: skip

    def charges(self, since: float, until: float) -> Iterator[dict[str, Any]]:
        """What every machine cost within the window."""
        now = self.runtime.now()
        low, high = datetime.fromtimestamp(since, UTC), min(datetime.fromtimestamp(until, UTC), now)
        for machine in self.machines.values():
            begin, end = max(low, machine.created), min(high, machine.ended or now)
            if end > begin:
                usd = machine.usd_h * Decimal(str((end - begin).total_seconds())) / _HOUR
                yield {
                    "machine": machine.id, "usd": f"{usd:.6f}",
                    "since": begin.timestamp(), "until": end.timestamp(),
                }  # fmt: skip

    def _price(self, offer: Mapping[str, Any], disk_gb: Decimal) -> Decimal:
        return Decimal(str(offer["usd_h"])) + disk_gb * DISK_USD_GB_H
