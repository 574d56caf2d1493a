"""Machines: how the market's row becomes gipper's `Machine`; reading one, listing all, ending one."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import attrs

from gipper.api import Address, Listing, Machine, MachineState, Port, ProviderError, wire
from gipper_shadeform.catalog import cents
from gipper_shadeform.client import Ask, Client
from gipper_shadeform.errors import failure, meaning
from gipper_shadeform.info import NAME
from gipper_shadeform.memory import Memory
from gipper_shadeform.rent import PORT_TAG
from gipper_shadeform.status import overdue, status_of

_SSH: Final = 22
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")
_USER: Final = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_HOST: Final = re.compile(r"(?=.{1,253}\Z)([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z]{2,63}")
_TAG: Final = re.compile(rf"{PORT_TAG}(\d{{1,5}})/(tcp|udp)")
_ENDS_TRIES: Final = 3
_LIST: Final = "the list of machines"
_OVER: Final = frozenset({MachineState.STOPPING, MachineState.STOPPED})


def describe(client: Client, memory: Memory, now: float, machine_id: str, *, here: bool) -> Machine | None:
    """The machine; None where the market says there is none. `now` is monotonic. Raises ProviderError."""
    row = read_row(client, machine_id)
    if row is None:
        return None
    found = machine_of(row, machine_id, here=here)
    if found.state in _OVER:
        return _ending(found, memory)
    word = status_of(row).word
    lasted = memory.lasted_s(machine_id, word, now)
    wrong = overdue(row, word, lasted, reachable=bool(found.addresses))
    return attrs.evolve(found, state=MachineState.ERROR, fault=wrong) if wrong else found


def _ending(found: Machine, memory: Memory) -> Machine:
    """One that is being deleted: by us, or taken away, which a run that works on it must hear."""
    if memory.ended(found.id):
        return attrs.evolve(found, state=MachineState.STOPPING)
    fault = found.fault or "it is being deleted, and not by this gipper"
    return attrs.evolve(found, state=MachineState.STOPPED, fault=fault)


def read_row(client: Client, machine_id: str) -> Mapping[str, Any] | None:
    """The market's own row; None where it says that there is none. Raises ProviderError."""
    if not _ID.fullmatch(machine_id):
        return None
    what = f"reading machine {machine_id}"
    reply = client.reply(Ask(what=what, method="GET", path=f"/instances/{machine_id}/info"))
    if meaning(reply) == "missing" and not reply.good:
        return None
    if not reply.good:
        # Also 403: a machine of another account isn't gone.
        raise failure(reply, what)
    if wire.text(reply.body.get("id")) != machine_id:
        raise ProviderError(f"shadeform: {what}: the answer is about something else")
    return reply.body


def machine_of(row: Mapping[str, Any], machine_id: str, *, here: bool) -> Machine:
    """A row as a `Machine`. `here`: the API is on this computer, and so may machines be. Pure."""
    status = status_of(row)
    told = wire.mapping(row.get("configuration"))
    host = _host(row.get("ip"), here=here)
    up = status.state in (MachineState.RUNNING, MachineState.STARTING)
    user = wire.text(row.get("ssh_user"))
    # What the disk holds already isn't told: it must not be taken for free.
    return Machine(
        provider=NAME,
        id=machine_id,
        name=wire.text(row.get("name")) or "",
        state=status.state,
        addresses=tuple(_addresses(row, host)) if host and up else (),
        ports=tuple(_ports(row, host)) if host and up else (),
        usd_h=price_of(row),
        created=_moment(row.get("created_at")),
        user=user if user and _USER.fullmatch(user) else None,
        host_id=_place(row),
        fault=status.fault,
        gpu_count=wire.whole(told.get("num_gpus")),
        memory_gb=wire.positive(told.get("memory_in_gb")),
    )


def price_of(row: Mapping[str, Any]) -> Decimal | None:
    """Dollars an hour: the terms' own figure (dollars), else the type's (cents), which is on demand only."""
    terms = wire.mapping(row.get("rental_terms"))
    if agreed := wire.money(terms.get("hourly_price")):
        return agreed
    if (wire.text(terms.get("rental_type")) or "on_demand") != "on_demand":
        return None
    return cents(row.get("hourly_price")) or None


def _place(row: Mapping[str, Any]) -> str | None:
    cloud, region = wire.text(row.get("cloud")), wire.text(row.get("region"))
    return f"{cloud}/{region}" if cloud and region else None


def _mapped(row: Mapping[str, Any]) -> dict[int, int]:
    """Outside ports by inside ports; only clouds behind a gateway have any."""
    listed = row.get("port_mappings")
    pairs = [wire.mapping(p) for p in listed] if isinstance(listed, list) else []
    told = ((wire.port(p.get("internal_port")), wire.port(p.get("external_port"))) for p in pairs)
    return {inside: outside for inside, outside in told if inside and outside}


def _addresses(row: Mapping[str, Any], host: str) -> Iterator[Address]:
    """The port that is told, then the gateway's; 22 where neither is: null doesn't mean "none" here."""
    told = dict.fromkeys((wire.port(row.get("ssh_port")), _mapped(row).get(_SSH)))
    yield from (Address(host=host, port=port) for port in ([p for p in told if p] or [_SSH]))


def _ports(row: Mapping[str, Any], host: str) -> Iterator[Port]:
    """The job's ports, which our own tags name. Behind a gateway only what it maps is reached."""
    mapped = _mapped(row)
    for inside, protocol in _wanted(row):
        outside = mapped.get(inside) if mapped else inside
        yield Port(inside=inside, protocol=protocol, host=host if outside else None, outside=outside)


def _wanted(row: Mapping[str, Any]) -> Iterator[tuple[int, Any]]:
    tags = row.get("tags")
    for tag in tags if isinstance(tags, list) else []:
        found = _TAG.fullmatch(tag) if isinstance(tag, str) else None
        inside = wire.port(found[1]) if found else None
        if found and inside:
            yield inside, found[2]


def _host(value: object, *, here: bool) -> str | None:
    """An address that can be reached from outside: an IP, or a name."""
    told = wire.text(value) or ""
    try:
        found = ipaddress.ip_address(told.removeprefix("[").removesuffix("]"))
    except ValueError:
        return told.lower() if _HOST.fullmatch(told) else None
    return str(found) if found.is_global or (here and found.is_loopback) else None


def _moment(value: object) -> datetime | None:
    told = wire.text(value)
    try:
        found = datetime.fromisoformat(told) if told else None
        return None if found is None or found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def list_ours(client: Client, *, here: bool) -> Listing[Machine]:
    """Every machine of the account that isn't deleted, whoever made it. Raises ProviderError."""
    answer = client.good(Ask(what=_LIST, method="GET", path="/instances"))
    listed = answer.get("instances")
    if not isinstance(listed, list) or not all(isinstance(row, dict) for row in listed):
        raise ProviderError(f"shadeform: {_LIST} was answered without a list")
    return Listing(items=tuple(machine_of(row, _id(row), here=here) for row in listed))


def _id(row: Mapping[str, Any]) -> str:
    found = wire.text(row.get("id"))
    if found is None:
        raise ProviderError(f"shadeform: {_LIST} holds one without an id")
    return found


def terminate(client: Client, memory: Memory, machine_id: str) -> None:
    """Delete it. Idempotent; one that may not be deleted yet is an error, so that it is asked again.

    Raises ProviderError.
    """
    if not _ID.fullmatch(machine_id):
        return
    memory.end(machine_id)
    what = f"deleting machine {machine_id}"
    reply = client.reply(
        Ask(what=what, method="POST", path=f"/instances/{machine_id}/delete", tries=_ENDS_TRIES)
    )
    if not reply.good and meaning(reply) != "missing":
        raise failure(reply, what)
