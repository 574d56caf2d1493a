"""The inventory file: which boxes there are. Strict: every mistake is told, all at once, none is mended."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import attrs

from gipper.api import ConfigError
from gipper_ssh.rules import RULES, Wrong

HINT: Final = 'write [provider.ssh] with inventory = "~/.config/gipper/boxes.toml" into config.toml'


@attrs.frozen(kw_only=True)
class Box:
    """One box. Dollars an hour; `country` is an ISO 3166 alpha-2 code; rates are Mb/s; None = not told.

    `gpus` and `gpu` are what the owner expects nvidia-smi to say; `key` is a private key's file.
    """

    name: str
    address: str
    port: int = 22
    user: str | None = None
    key: Path | None = None
    host_key: str | None = None
    gpus: int | None = None
    gpu: str | None = None
    usd_h: Decimal = Decimal(0)
    country: str | None = None
    where: str = ""
    down_mbps: float | None = None
    up_mbps: float | None = None


def load(inventory: str) -> tuple[Box, ...]:
    """The boxes in the file at `inventory`. Raises ConfigError with all mistakes of the file."""
    path = _path(inventory)
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise ConfigError(f"the inventory {path} can't be read: {error.strerror}", hint=HINT) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"the inventory {path} is no UTF-8 text (byte {error.start})") from error
    return parse(text, str(path))


def parse(text: str, where: str) -> tuple[Box, ...]:
    """The boxes in the TOML `text`. Raises ConfigError; `where` is what its message calls the text."""
    try:
        data = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where} is no TOML: {error}", hint=f"mend {where}") from error
    boxes: list[Box] = []
    mistakes = list(_boxes(data, boxes))
    if mistakes:
        count = "1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        lines = "\n".join(f"  {line}" for line in mistakes)
        raise ConfigError(f"{where}: {count}\n{lines}", hint=f"mend {where}")
    return tuple(boxes)


def _path(inventory: str) -> Path:
    try:
        path = Path(inventory).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"provider.ssh.inventory: {inventory!r} names no home folder", hint=HINT) from error
    if not path.is_absolute():
        raise ConfigError(
            f"provider.ssh.inventory: {inventory!r} is no absolute path (~ is allowed)", hint=HINT
        )
    return path


def _boxes(data: Mapping[str, Any], boxes: list[Box]) -> Iterator[str]:
    """Yields the mistakes, and puts the boxes without any into `boxes`."""
    for key in data.keys() - {"box"}:
        yield f"{key}: unknown key; each box is a table [[box]]"
    tables = data.get("box")
    if not isinstance(tables, list) or not tables or not all(isinstance(t, dict) for t in tables):
        yield "box: there must be at least one table [[box]]"
        return
    for number, table in enumerate(tables, 1):
        name = table.get("name")
        label = f"box {name}" if isinstance(name, str) and name else f"box no. {number}"
        faults = [f"{label}: {fault}" for fault in _faults(table)]
        yield from faults
        if not faults:
            boxes.append(Box(**{key: RULES[key](value) for key, value in table.items()}))
    yield from _doubles(boxes)


def _faults(table: Mapping[str, Any]) -> Iterator[str]:
    for key in ("name", "address"):
        if key not in table:
            yield f"{key} is missing"
    for key, value in table.items():
        if key not in RULES:
            near = get_close_matches(key, RULES, n=1)
            yield f"{key}: unknown key" + (f"; did you mean {near[0]}?" if near else "")
            continue
        try:
            RULES[key](value)
        except Wrong as wrong:
            yield f"{key}: {value!r} is not {wrong}"


def _doubles(boxes: list[Box]) -> Iterator[str]:
    """Two entries for one box would show each of its leases twice."""
    names: set[str] = set()
    places: dict[tuple[str, int], str] = {}
    for box in boxes:
        if box.name in names:
            yield f"box {box.name}: the name is given twice"
        names.add(box.name)
        first = places.setdefault((box.address.casefold(), box.port), box.name)
        if first != box.name:
            yield f"box {box.name}: it has the address and port of {first}"
