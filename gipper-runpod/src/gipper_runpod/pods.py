"""Pods: how the market's row becomes gipper's `Machine`; reading one, listing all, ending one."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import attrs

from gipper.api import Address, Listing, Machine, MachineState, Port, ProviderError, Runtime, wire
from gipper_runpod.client import Ask, Client
from gipper_runpod.errors import failure, meaning
from gipper_runpod.info import NAME
from gipper_runpod.memory import COMMUNITY_MOST_S, Memory

PAGE: Final = 1000
MOST_PAGES: Final = 1000
_SSH: Final = 22
_STATES: Final[Mapping[str, MachineState]] = {
    "PROVISIONING": MachineState.PENDING,
    "STARTING": MachineState.STARTING,
    "RUNNING": MachineState.RUNNING,
    "EXITED": MachineState.STOPPED,
    "ERROR": MachineState.ERROR,
    "TERMINATED": MachineState.GONE,
}
_ENDS_TRIES: Final = 3


def is_id(pod: str) -> bool:
    """Whether the market could have given this id."""
    return pod.isascii() and pod.isalnum() and len(pod) <= 64


def describe(client: Client, memory: Memory, runtime: Runtime, pod: str, *, here: bool) -> Machine | None:
    """The pod; None where the market says that there is none. Raises ProviderError."""
    row = read_row(client, pod)
    if row is None:
        return None
    found = machine_of(row, pod, here=here)
    wrong = _hopeless(row, found, memory, runtime.monotonic())
    return attrs.evolve(found, state=MachineState.ERROR, fault=wrong) if wrong else found


def read_row(client: Client, pod: str) -> Mapping[str, Any] | None:
    """The market's own row; None where it says that there is none. Raises ProviderError."""
    if not is_id(pod):
        return None
    what = f"reading pod {pod}"
    reply = client.reply(Ask(what=what, method="GET", path=f"/v2/pods/{pod}", read=True))
    if reply.good and wire.text(reply.body.get("id")) == pod:
        return reply.body
    if meaning(reply) == "missing":
        return None
    if reply.good:
        raise ProviderError(f"runpod: {what}: the answer is about something else")
    raise failure(reply, what)


def _hopeless(row: Mapping[str, Any], found: Machine, memory: Memory, now: float) -> str | None:
    """Why a pod that starts will never be reached; None where it may be."""
    running = found.state is MachineState.RUNNING
    uptime = wire.number(wire.mapping(row.get("runtime")).get("uptime"))
    waited = memory.waiting_s(found.id, now, running=running, reachable=bool(found.addresses))
    if memory.restarts(found.id, uptime):
        return "its container starts again and again"
    if row.get("cloud") == "COMMUNITY" and waited >= COMMUNITY_MOST_S:
        return f"no public address {COMMUNITY_MOST_S:.0f} s after it ran: its host has none"
    return None


def machine_of(row: Mapping[str, Any], pod: str, *, here: bool) -> Machine:
    """A row as a `Machine`. `here`: the API is on this computer, and so may pods be. Pure."""
    state = _STATES.get((wire.text(row.get("status")) or "").upper(), MachineState.UNKNOWN)
    ports = _ports(row, here=here)
    gpu = wire.mapping(row.get("gpu"))
    return Machine(
        provider=NAME,
        id=pod,
        name=wire.text(row.get("name")) or "",
        state=state,
        # A pod that isn't running may still show the ports of its last life.
        addresses=_addresses(row, ports, here=here) if state is MachineState.RUNNING else (),
        ports=tuple(p for p in ports if p.inside != _SSH) if state is MachineState.RUNNING else (),
        usd_h=wire.money(row.get("cost")) or None,
        created=_moment(row.get("createdAt")),
        fault="the market reports a container error" if state is MachineState.ERROR else None,
        gpu_count=wire.whole(gpu.get("count")),
        disk_gb=wire.positive(row.get("disk")),
        memory_gb=wire.positive(gpu.get("memory")),
    )


def _addresses(row: Mapping[str, Any], ports: tuple[Port, ...], *, here: bool) -> tuple[Address, ...]:
    direct = wire.mapping(wire.mapping(row.get("ssh")).get("direct"))
    found = [(_public(direct.get("host"), here=here), wire.port(direct.get("port")))]
    found += [(p.host, p.outside) for p in ports if p.inside == _SSH]
    told = (Address(host=host, port=port) for host, port in found if host and port)
    return tuple(dict.fromkeys(told))


def _ports(row: Mapping[str, Any], *, here: bool) -> tuple[Port, ...]:
    listed = wire.mapping(row.get("runtime")).get("ports")
    rows = [wire.mapping(p) for p in listed] if isinstance(listed, list) else []
    return tuple(
        Port(inside=inside, host=host, outside=outside)
        for p in rows
        # Another kind's address is inside the market's own network.
        if wire.text(p.get("type")) == "tcp"
        and (inside := wire.port(p.get("private")))
        and (outside := wire.port(p.get("public")))
        and (host := _public(p.get("ip"), here=here))
    )


def _public(value: object, *, here: bool) -> str | None:
    """An address that can be reached from outside."""
    told = wire.text(value)
    try:
        found = ipaddress.ip_address(told or "")
    except ValueError:
        return None
    return str(found) if found.is_global or (here and found.is_loopback) else None


def _moment(value: object) -> datetime | None:
    told = wire.text(value)
    try:
        found = datetime.fromisoformat(told) if told else None
    except ValueError:
        return None
    return None if found is None or found.tzinfo is None else found.astimezone(UTC)


def list_ours(client: Client, *, here: bool) -> Listing[Machine]:
    """Every pod of the account, stopped and broken ones too, all pages. Raises ProviderError."""
    what = "the list of pods"
    rows: dict[str, Mapping[str, Any]] = {}
    cursors: list[str] = []
    while True:
        # Members of clusters are hidden unless asked for; what filters by status or name is ignored.
        params = {"includeClusterPods": "true", "limit": str(PAGE)}
        if cursors:
            params["cursor"] = cursors[-1]
        answer = client.good(Ask(what=what, method="GET", path="/v2/pods", params=params, read=True))
        listed = answer.get("pods")
        if not isinstance(listed, list) or not all(isinstance(row, dict) for row in listed):
            raise ProviderError(f"runpod: {what} was answered without a list")
        for row in listed:
            rows[_id(row)] = row
        following = _next(answer)
        if following is None:
            return Listing(items=tuple(machine_of(row, pod, here=here) for pod, row in rows.items()))
        if following in cursors or len(cursors) >= MOST_PAGES:
            raise ProviderError(f"runpod: {what} can't be read to its end: its pages lead nowhere")
        cursors.append(following)


def _id(row: Mapping[str, Any]) -> str:
    found = wire.text(row.get("id"))
    if found is None:
        raise ProviderError("runpod: the list of pods holds one without an id")
    return found


def _next(answer: Mapping[str, Any]) -> str | None:
    """The cursor of the next page; an answer without pages is the last one."""
    pages = wire.mapping(answer.get("pagination"))
    if wire.flag(pages.get("hasNextPage")) is not True:
        return None
    cursor = wire.text(pages.get("nextCursor"))
    if cursor is None:
        raise ProviderError("runpod: the list of pods has another page, but doesn't say which")
    return cursor


def terminate(client: Client, pod: str) -> None:
    """Terminate, never stop: a stopped pod bills its disk. Idempotent. Raises ProviderError."""
    if not is_id(pod):
        return
    what = f"terminating pod {pod}"
    ask = Ask(what=what, method="DELETE", path=f"/v2/pods/{pod}", tries=_ENDS_TRIES)
    reply = client.reply(ask)
    if meaning(reply) == "conflict":
        # A locked pod: whether the lock holds against this, nobody says.
        unlock = {"locked": False}
        client.reply(Ask(what=f"unlocking pod {pod}", method="PATCH", path=f"/v2/pods/{pod}", body=unlock))
        reply = client.reply(ask)
    if not reply.good and meaning(reply) != "missing":
        raise failure(reply, what)
