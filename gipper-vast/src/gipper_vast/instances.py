"""One machine: how the market's row becomes gipper's `Machine`, reading it, letting a key in, ending it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

from gipper.api import (
    Address,
    GpuModel,
    Machine,
    MachineState,
    Port,
    ProviderError,
    Runtime,
    gpu_model,
    memory_as_sold,
    wire,
)
from gipper_vast import pacing
from gipper_vast.client import Ask, Client
from gipper_vast.errors import failure, meaning
from gipper_vast.info import NAME
from gipper_vast.memory import Memory
from gipper_vast.status import status_of

# A host that is silent for so long while its machine first starts never came back on any report.
SILENT_MOST_S: Final = 60.0
_ENDS_TRIES: Final = 3
_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_PORT_KEY: Final = re.compile(r"(\d{1,5})/(tcp|udp)")
_SSH: Final = 22


def is_id(machine_id: str) -> bool:
    """Whether the market could have given this id."""
    return machine_id.isascii() and machine_id.isdecimal() and len(machine_id) <= 20


def describe(client: Client, memory: Memory, runtime: Runtime, machine_id: str) -> Machine | None:
    """The machine; None where the market says that there is none. Raises ProviderError."""
    row = read_row(client, machine_id)
    if row is None:
        return None
    found = machine_of(row, machine_id)
    silent = status_of(row).silent
    if not silent:
        memory.heard(machine_id, running=found.state is MachineState.RUNNING)
    elif memory.silent_s(machine_id, runtime.monotonic()) >= SILENT_MOST_S:
        fault = f"its host has not answered for {SILENT_MOST_S:.0f} s"
        found = attrs.evolve(found, state=MachineState.ERROR, fault=fault)
    wrong = wrongly_made(row, memory, machine_id)
    return attrs.evolve(found, state=MachineState.ERROR, fault=wrong) if wrong else found


def read_row(client: Client, machine_id: str) -> Mapping[str, Any] | None:
    """The market's own row; None where it says that there is none. Raises ProviderError."""
    if not is_id(machine_id):
        return None
    what = f"reading machine {machine_id}"
    reply = client.reply(Ask(
        what=what, endpoint=pacing.READ, method="GET", path=f"/api/v0/instances/{machine_id}/",
        scope="instance_read", params={"owner": "me"}, read=True,
    ))  # fmt: skip
    if not reply.good:
        if meaning(reply) == "missing":
            return None
        raise failure(reply, what, "instance_read")
    if "instances" not in reply.body:
        raise ProviderError(f"vast: {what}: the answer names no machine, and doesn't say that there is none")
    row = reply.body["instances"]
    if row is None:
        return None
    if not isinstance(row, dict) or wire.ident(row.get("id")) != machine_id:
        raise ProviderError(f"vast: {what}: the answer is about something else")
    return row


def wrongly_made(row: Mapping[str, Any], memory: Memory, machine_id: str) -> str | None:
    """Why a machine that this process rented must be ended whatever its state is; None where all is well."""
    rented = memory.of(machine_id)
    if rented is None:
        return None
    if rented.fault is not None:
        return rented.fault
    bid = wire.flag(row.get("is_bid"))
    if bid is None or bid == rented.spot:
        return None
    kinds = ("interruptible", "on demand") if bid else ("on demand", "interruptible")
    return f"the market made it {kinds[0]}, rented was {kinds[1]}"


def machine_of(row: Mapping[str, Any], machine_id: str) -> Machine:
    """A row as a `Machine`. What the market doesn't tell stays unknown."""
    status = status_of(row)
    public = _host(row.get("public_ipaddr"))
    ports = _ports(row.get("ports"), public)
    return Machine(
        provider=NAME,
        id=machine_id,
        name=wire.text(row.get("label")) or "",
        state=status.state,
        addresses=_addresses(row, ports),
        ports=tuple(p for p in ports if (p.inside, p.protocol) != (_SSH, "tcp")),
        usd_h=wire.money(row.get("dph_total")),
        created=wire.moment(row.get("start_date")),
        host_id=wire.ident(row.get("machine_id")),
        fault=status.fault,
        gpu=_gpu(row),
        gpu_count=wire.whole(row.get("num_gpus")),
        disk_gb=wire.positive(row.get("disk_space")),
    )


def _gpu(row: Mapping[str, Any]) -> GpuModel | None:
    name, memory = wire.text(row.get("gpu_name")), wire.positive(row.get("gpu_ram"))
    return None if name is None else gpu_model(name, memory_as_sold(memory) if memory else None)


def _addresses(row: Mapping[str, Any], ports: tuple[Port, ...]) -> tuple[Address, ...]:
    """The direct address first, then the market's proxy: either may be the one that works."""
    found = [
        Address(host=p.host, port=p.outside)
        for p in ports
        if (p.inside, p.protocol) == (_SSH, "tcp") and p.host and p.outside
    ]
    proxy, port = _host(row.get("ssh_host")), wire.port(row.get("ssh_port"))
    if proxy and port:
        found.append(Address(host=proxy, port=port))
    return tuple(dict.fromkeys(found))


def _ports(value: object, public: str | None) -> tuple[Port, ...]:
    found = []
    for key, bound in wire.mapping(value).items():
        match = _PORT_KEY.fullmatch(key) if isinstance(key, str) else None
        outside = _outside(bound)
        if match is None or outside is None or wire.port(match[1]) is None:
            continue
        protocol = "udp" if match[2] == "udp" else "tcp"
        found.append(_port(int(match[1]), protocol, public, outside))
    return tuple(found)


def _port(inside: int, protocol: str, host: str | None, outside: int) -> Port:
    return Port(inside=inside, protocol="udp" if protocol == "udp" else "tcp", host=host, outside=outside)


def _outside(bound: object) -> int | None:
    rows = bound if isinstance(bound, list) else []
    numbers = (wire.port(wire.mapping(row).get("HostPort")) for row in rows)
    return next((n for n in numbers if n is not None), None)


def _host(value: object) -> str | None:
    """A name or an address; the market sends one with a line end."""
    told = wire.text(value)
    if told is None:
        return None
    try:
        found = ipaddress.ip_address(told)
    except ValueError:
        return told if _HOST.fullmatch(told) and not told.replace(".", "").isdecimal() else None
    return None if found.is_unspecified or found.is_multicast else str(found)


def terminate(client: Client, machine_id: str) -> None:
    """Destroy. Idempotent; one that the market doesn't know is fine. Raises ProviderError otherwise."""
    if not is_id(machine_id):
        return
    what = f"destroying machine {machine_id}"
    reply = client.reply(Ask(
        what=what, endpoint=pacing.DESTROY, method="DELETE", path=f"/api/v0/instances/{machine_id}/",
        scope="instance_write", body={}, tries=_ENDS_TRIES,
    ))  # fmt: skip
    if not reply.good and meaning(reply) != "missing":
        raise failure(reply, what, "instance_write")


def authorize(client: Client, machine_id: str, public_key: str) -> None:
    """Put the key into the market's own list for this machine: what only stands in the machine's file is
    overwritten hours later (users' reports, September 2026). Idempotent."""
    what = f"letting the key into machine {machine_id}"
    reply = client.reply(Ask(
        what=what, endpoint=pacing.KEY, method="POST", path=f"/api/v0/instances/{machine_id}/ssh/",
        scope="instance_write", body={"ssh_key": public_key}, tries=3,
    ))  # fmt: skip
    if not reply.good and not reply.says("already", "duplicate"):
        raise failure(reply, what, "instance_write")
