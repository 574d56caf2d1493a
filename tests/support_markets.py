"""Emulated markets for a user of `gipper`: served on loopback, machines in real sandboxes.

with vast_world(folder, driver, rows=[...]) as (user, market, app):
    user.gipper("pod", "run", user.job("true", gpu={"providers": ["vast"]}))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
from emulators.housing import sandboxes
from emulators.runpod.app import RunpodApp, make_runpod
from emulators.runpod.market import Market as RunpodMarket
from emulators.shadeform.app import ShadeformApp, make_shadeform
from emulators.shadeform.guests import Guests, guests
from emulators.shadeform.knobs import Knobs
from emulators.shadeform.market import Market as ShadeformMarket
from emulators.vast.app import VastApp, make_vast
from emulators.vast.market import Market
from emulators.web import served
from support_cli import World, world

from gipper.runtime import RealRuntime


@attrs.frozen
class VastWorld:
    """A user, the market behind their key, and its API."""

    user: World
    market: Market
    app: VastApp

    def job(self, command: str, **tables: Any) -> Path:
        """A job for one GPU of this market, with outputs."""
        gpu = {"count": 1, "providers": ["vast"], **tables.pop("gpu", {})}
        return self.user.job(command, gpu=gpu, **tables)

    def gone(self) -> None:
        """Nothing is left, no key went astray, and no create was sent twice for one name."""
        assert self.market.alive() == []
        assert self.app.leaks == []
        labels = [s.json["label"] for s in self.app.seen("create")]
        assert len(set(labels)) == len(labels)


@contextmanager
def vast_world(
    home: Path, driver: Path, rows: Sequence[dict[str, Any]] = (), **changes: Any
) -> Iterator[VastWorld]:
    """A user with the key of an emulated Vast account whose machines are sandboxes."""
    with sandboxes(home / "machines", driver) as housing:
        market, app = make_vast(RealRuntime(), housing, rows, **changes)
        with served(app) as url, world(home / "user", markets=["vast"]) as user:
            user.env.update(VAST_URL=url, VAST_API_KEY=market.key)
            user.settings(limits={"kill_grace": 2}, daily_cap_usd=20.0)
            yield VastWorld(user, market, app)


@attrs.frozen
class RunpodWorld:
    """A user, the market behind their key, and its API."""

    user: World
    market: RunpodMarket
    app: RunpodApp

    def job(self, command: str, **tables: Any) -> Path:
        """A job for one GPU of this market, with outputs."""
        gpu = {"count": 1, "providers": ["runpod"], **tables.pop("gpu", {})}
        return self.user.job(command, gpu=gpu, **tables)

    def gone(self) -> None:
        """Nothing is left, no key went astray, and no create was sent twice for one name."""
        assert self.market.alive() == []
        assert self.app.leaks == []
        assert self.app.schema.off == [] and self.app.schema.judged
        names = [s.json["name"] for s in self.app.seen("create")]
        assert len(set(names)) == len(names)


@contextmanager
def runpod_world(
    home: Path, driver: Path, gpus: Sequence[dict[str, Any]] = (), **changes: Any
) -> Iterator[RunpodWorld]:
    """A user with the key of an emulated Runpod account whose machines are sandboxes."""
    with sandboxes(home / "machines", driver) as housing:
        market, app = make_runpod(RealRuntime(), housing, gpus, **changes)
        with served(app) as url, world(home / "user", markets=["runpod"]) as user:
            user.env.update(RUNPOD_API_BASE_URL=url, RUNPOD_API_KEY=market.key)
            user.settings(limits={"kill_grace": 2}, daily_cap_usd=20.0)
            yield RunpodWorld(user, market, app)


@attrs.frozen
class ShadeformWorld:
    """A user, the market behind their key, its API, and the machines themselves."""

    user: World
    market: ShadeformMarket
    app: ShadeformApp
    housing: Guests

    def job(self, command: str, **tables: Any) -> Path:
        """A job for one GPU of this market, with outputs."""
        gpu = {"count": 1, "providers": ["shadeform"], **tables.pop("gpu", {})}
        return self.user.job(command, gpu=gpu, **tables)

    def gone(self) -> None:
        """Nothing is left, no key went astray, and no create was sent twice for one name."""
        assert self.market.alive() == []
        assert self.app.leaks == []
        assert self.app.schema.off == [] and self.app.schema.judged
        names = [s.json["name"] for s in self.app.seen("create")]
        assert len(set(names)) == len(names)


@contextmanager
def shadeform_world(
    home: Path, driver: Path, kinds: Sequence[dict[str, Any]] = (), **changes: Any
) -> Iterator[ShadeformWorld]:
    """A user with the key of an emulated Shadeform account whose machines are logged in to without root."""
    with guests(home / "machines", driver) as housing:
        market, app = make_shadeform(RealRuntime(), housing, kinds, **{**Knobs.quick(), **changes})
        with served(app) as url, world(home / "user", markets=["shadeform"]) as user:
            user.env.update(SHADEFORM_BASE_URL=url, SHADEFORM_API_KEY=market.key)
            user.settings(limits={"kill_grace": 2}, daily_cap_usd=20.0)
            yield ShadeformWorld(user, market, app, housing)
