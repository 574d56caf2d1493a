"""Markets that hang, answer garbage or reject the key, beside one that works: through their real handles."""

from __future__ import annotations

from decimal import Decimal

import attrs
import pytest
from support_fake import handle

from gipper.runtime import RealRuntime
from gipper.testing import FakeMarket


@pytest.fixture
def markets(request):
    """A market of each kind on one real runtime."""
    runtime = RealRuntime()
    made = {name: FakeMarket(runtime, name=name) for name in ("fine", "hangs", "garbled", "locked")}
    made["hangs"].script("list_offers", "hang", forever=True)
    made["garbled"].script("list_offers", "garbage", forever=True)
    made["locked"].script("list_offers", "bad_key", forever=True)
    request.addfinalizer(made["hangs"].mend)
    return made


def test_the_others_offers_appear_within_the_limit(job, run_plan, markets, tmp_path):
    """The good market's offers are there while the slow one still hangs; a line for each that failed."""
    runtime = markets["fine"].runtime
    handles = [handle(market, tmp_path) for market in markets.values()]
    started = runtime.monotonic()
    found = run_plan(job(), *handles, runtime=runtime, limit_s=0.5)
    assert not markets["hangs"].released.is_set()
    assert runtime.monotonic() - started < 30
    assert {r.provider for r in found.ranked} == {"fine"}
    assert len(found.ranked) == 3
    for name, word in (("hangs", "within 0.5 s"), ("locked", "key was rejected")):
        (line,) = (note for note in found.notes if note.startswith(f"{name}:"))
        assert word in line
    assert found.failed == ("hangs", "locked")
    assert "5 offer(s) left out: the market told figures that make no sense" in found.left_out_lines()


def test_garbage_costs_only_itself(job, run_plan, tmp_path):
    """A good offer among nonsense is ranked, and every nonsense is counted once, wherever it was found."""
    market = FakeMarket(RealRuntime(), name="mixed")
    good = market.offer("good")
    odd = [
        {"down_mbps": "fast"}, {"disk_gb": "much"}, {"gpu": "RTX 4090"}, {"up_mbps": [1]},
        {"download_usd_per_gb": Decimal("NaN")}, {"upload_usd_per_gb": Decimal("-1")},
        {"download_usd_per_gb": Decimal("sNaN")}, {"region": ["US"]},
    ]  # fmt: skip
    market.offers = [attrs.evolve(market.offer(f"odd{n}"), **o) for n, o in enumerate(odd)]
    market.offers.insert(4, good)
    found = run_plan(job(), handle(market, tmp_path), runtime=market.runtime)
    assert [r.offer.id for r in found.ranked] == ["good"]
    assert found.left_out == {"nonsense": len(odd)}
    assert found.seen == len(odd) + 1
