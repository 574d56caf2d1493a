"""Rented machines: their state, addresses and ports, and the request that rents one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal

import attrs

from gipper.values.offers import GpuModel, Offer

Protocol_ = Literal["tcp", "udp"]


class MachineState(Enum):
    """A machine's state in gipper's words; only `GONE` is the provider's final word."""

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    ERROR = "error"
    GONE = "gone"
    UNKNOWN = "unknown"


@attrs.frozen(kw_only=True)
class Address:
    """Where sshd answers. `host` is a name or a bare IP (an IPv6 one without brackets)."""

    host: str
    port: int = 22

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@attrs.frozen(kw_only=True)
class Port:
    """A port of the machine that can be reached from outside."""

    inside: int
    protocol: Protocol_ = "tcp"
    host: str | None = None
    outside: int | None = None


# attrs takes the type of an argument from its converter; `tuple` itself would say nothing.
def _addresses(value: Iterable[Address]) -> tuple[Address, ...]:
    return tuple(value)


def _ports(value: Iterable[Port]) -> tuple[Port, ...]:
    return tuple(value)


@attrs.frozen(kw_only=True)
class Machine:
    """A machine as its provider tells of it; unknown things are None. `machine["id"]` works too.

    `user` is who logs in, where that isn't the provider's `ssh_user`.
    Before the preflight, core fills in what only the offer said: GPU, count, disk and memory.
    """

    provider: str
    id: str
    name: str
    state: MachineState = MachineState.UNKNOWN
    addresses: tuple[Address, ...] = attrs.field(default=(), converter=_addresses)
    ports: tuple[Port, ...] = attrs.field(default=(), converter=_ports)
    usd_h: Decimal | None = None
    created: datetime | None = None
    user: str | None = None
    host_id: str | None = None
    host_key: str | None = None
    fault: str | None = None
    gpu: GpuModel | None = None
    gpu_count: int | None = None
    disk_gb: float | None = None
    memory_gb: float | None = None

    def __getitem__(self, key: str) -> Any:
        if key not in _MACHINE_FIELDS:
            raise KeyError(key)
        return getattr(self, key)


def as_offered(machine: Machine, offer: Offer, disk_gb: float) -> Machine:
    """`machine` with what the market didn't say of it taken from the offer and from the disk asked for."""
    return attrs.evolve(
        machine,
        gpu=machine.gpu or offer.gpu,
        gpu_count=offer.gpu_count if machine.gpu_count is None else machine.gpu_count,
        disk_gb=disk_gb if machine.disk_gb is None else machine.disk_gb,
        memory_gb=offer.memory_gb if machine.memory_gb is None else machine.memory_gb,
        host_id=machine.host_id or offer.host_id,
    )


_MACHINE_FIELDS = frozenset(f.name for f in attrs.fields(Machine))


@attrs.frozen(kw_only=True)
class RentRequest:
    """All that a rent needs beside the offer; core computes every field, a plugin adds nothing.

    `end` is when the machine should be over (aware UTC). `boot_watchdog_s` counts from the machine's
    own first start and ends 10 minutes after `end`. `timer_at` is `end` + 60 minutes, for a provider's
    own timer. `env` holds no secrets.
    """

    name: str
    public_key: str
    end: datetime
    boot_watchdog_s: float
    timer_at: datetime
    image: str | None = None
    disk_gb: float = 40.0
    ports: tuple[Port, ...] = ()
    env: Mapping[str, str] = attrs.field(factory=dict)
    options: Any = None
