"""A machine's folder and the record in it: all that processes know of each other's machines.

The folder bears the machine's name, so even one whose record was never written can be listed.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import attrs

RECORD: Final = "machine.json"
LOG: Final = "server.log"
HOST_KEY: Final = "host_key"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")
_ID: Final = re.compile(rf"(?P<name>{_NAME.pattern})\.[0-9a-f]{{8}}")


@attrs.frozen(kw_only=True)
class Record:
    """What stands in `machine.json`. The renting process writes it once, then only the server does.

    `life_s` are the seconds from the server's start to its own end. `pid`, `ticks` and `port` are None
    until the server answers. `ports` are TCP ports that the job asked for.
    """

    id: str
    name: str
    created: datetime
    end: datetime
    life_s: float
    public_key: str
    host_key: str
    boot_id: str
    usd_h: str
    env: Mapping[str, str] = attrs.field(factory=dict)
    ports: tuple[int, ...] = ()
    pid: int | None = None
    ticks: int | None = None
    port: int | None = None


def new_id(name: str) -> str | None:
    """A fresh machine id for `name`, or None where a folder can't be called so."""
    return f"{name}.{secrets.token_hex(4)}" if _NAME.fullmatch(name) else None


def name_of(machine_id: str) -> str | None:
    """The machine's name, or None where `machine_id` isn't an id of this provider (a path, say)."""
    match = _ID.fullmatch(machine_id)
    return match["name"] if match else None


def save(folder: Path, record: Record) -> None:
    """Replace the record in one step. Raises OSError."""
    fresh = folder / f"{RECORD}.{os.getpid()}"
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(_wire(record), file)
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(folder / RECORD)


def load(folder: Path) -> Record | None:
    """The record in `folder`; None where there is none or it can't be understood."""
    try:
        raw = json.loads((folder / RECORD).read_bytes())
        moments = {k: datetime.fromisoformat(raw[k]) for k in ("created", "end")}
        return Record(**{**raw, **moments, "ports": tuple(raw["ports"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _wire(record: Record) -> dict[str, Any]:
    return attrs.asdict(record, value_serializer=_plain)


def _plain(_record: object, _field: object, value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
