"""One search over all three markets at once: one table, dollars for the whole machine, places, missing keys; and
no slower than the slowest."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs
import pytest
from emulators import faults
from emulators.housing import NoHousing
from emulators.runpod.app import make_runpod
from emulators.runpod.market import gpu
from emulators.shadeform.app import make_shadeform
from emulators.shadeform.catalog import at, kind
from emulators.vast.app import make_vast
from emulators.vast.offers import row
from emulators.web import MarketApp, served
from support_cli import World, world

from gipper.runtime import RealRuntime

pytestmark = pytest.mark.slow
SLOW_S = 6.0


@attrs.frozen
class Three:
    """A user with the keys of three markets."""

    user: World
    apps: dict[str, MarketApp]

    def gpus(self, *words: str) -> list[dict[str, Any]]:
        """The rows of the table."""
        done = self.user.gipper("pod", "gpus", *words, "--json", timeout=60)
        assert done.code == 0, done.all
        told: list[dict[str, Any]] = json.loads(done.out)
        return told


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Three]:
    runtime = RealRuntime()
    made = {
        "vast": make_vast(runtime, NoHousing(), [row(5000101)]),
        "runpod": make_runpod(runtime, NoHousing(), [gpu("NVIDIA GeForce RTX 4090")]),
        "shadeform": make_shadeform(
            runtime,
            NoHousing(),
            [kind("hyperstack", "RTX4090", cents=57, vram=24, places=[at("oslo-norway-1", "NO, Oslo")])],
        ),
    }
    with ExitStack() as stack:
        user = stack.enter_context(world(tmp_path / "user", markets=list(made)))
        variables = {"vast": "VAST_URL", "runpod": "RUNPOD_API_BASE_URL", "shadeform": "SHADEFORM_BASE_URL"}
        for name, (market, app) in made.items():
            user.env[variables[name]] = stack.enter_context(served(app))
            user.env[f"{name.upper()}_API_KEY"] = market.key
        yield Three(user, {name: app for name, (_, app) in made.items()})


def test_one_table(three: Three) -> None:
    """The same card under one name; cents, dollars a GPU and dollars a machine in one unit; places as far as told."""
    rows = three.gpus()
    assert {r["provider"] for r in rows} == {"vast", "runpod", "shadeform"}
    ours = next(r for r in rows if r["provider"] == "shadeform")
    assert float(ours["usd_h"]) == 0.57
    assert len({r["gpu"] for r in rows}) == 1
    assert "NO" in json.dumps(ours)


def test_no_key_is_marked(three: Three) -> None:
    """A market whose key is missing still shows its offers, marked; the others aren't."""
    del three.user.env["SHADEFORM_API_KEY"]
    done = three.user.gipper("pod", "gpus", timeout=60)
    assert done.code == 0, done.all
    marked = [line for line in done.lines if "no key" in line]
    assert marked and all("shadeform" in line for line in marked), done.all


def test_side_by_side(three: Three) -> None:
    """Three slow markets take as long as one of them: 1.2 times the slowest at most."""
    three.gpus()  # whatever is done once is done
    for name, endpoint in (("vast", "search"), ("runpod", "catalog"), ("shadeform", "types")):
        three.apps[name].faults.always(endpoint, faults.slow(SLOW_S))
    alone = _seconds(lambda: three.gpus("--provider", "runpod"))
    together = _seconds(three.gpus)
    assert together <= 1.2 * alone, f"{together:.2f} s for all, {alone:.2f} s for the slowest"


def _seconds(what: Any) -> float:
    began = time.monotonic()
    what()
    return time.monotonic() - began
