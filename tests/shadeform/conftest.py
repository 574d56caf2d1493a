"""The driver through core's own handle on the emulated market, in this process and in simulated time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from emulators.housing import NoHousing
from emulators.shadeform.app import make_shadeform
from gipper_shadeform import ShadeformProvider
from support_bench import START, Bench, make_bench

from gipper.testing import SimRuntime

Make = Callable[..., Bench]
URL = "https://api.shadeform.ai"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Make]:
    """`bench(*kinds, key=…, settings=…, **knobs)`: a market with these types of machines."""

    made: list[Bench] = []

    def make(
        *kinds: dict[str, Any], key: str | None = None, settings: object = None, **changes: Any
    ) -> Bench:
        sim = SimRuntime(START)
        changes.setdefault("host", "8.8.4.4")
        market, app = make_shadeform(sim, NoHousing(), kinds, **changes)
        made.append(
            make_bench(tmp_path, ShadeformProvider, URL, sim, market, app, key=key, settings=settings)
        )
        return made[-1]

    yield make
    off = [text for b in made for text in b.app.schema.off]  # type: ignore[attr-defined]
    assert off == [], "requests or answers that the schema doesn't allow"
