"""Hostile JSON: no value of any type in any field raises, or becomes something that it isn't."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import attrs
from gipper_vast.errors import Reply, asked_wait, failure, meaning
from gipper_vast.instances import machine_of
from gipper_vast.offers import Wanted, offer_of
from gipper_vast.tables import Hosts, VastJob
from hypothesis import given
from hypothesis import strategies as st

from gipper.api import MachineState, Offer, OfferQuery, wire
from gipper.plugins import answers

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(
        ["NaN", "1e999", "-0", "0x10", "1_000", "٣", " 12 ", "1e5", "9" * 400, 10**400, -(10**30), "null", "true"]
    )
)  # fmt: skip
VALUES = st.recursive(
    SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(), v, max_size=3), max_leaves=6
)
FIELDS = [
    "id",
    "ask_contract_id",
    "machine_id",
    "hosting_type",
    "gpu_name",
    "num_gpus",
    "gpu_frac",
    "gpu_ram",
    "gpu_total_ram",
    "gpu_arch",
    "compute_cap",
    "cuda_max_good",
    "driver_version",
    "cpu_cores",
    "cpu_cores_effective",
    "cpu_ram",
    "disk_space",
    "inet_up",
    "inet_down",
    "inet_up_cost",
    "inet_down_cost",
    "storage_cost",
    "dph_base",
    "dph_total",
    "min_bid",
    "reliability",
    "reliability2",
    "verification",
    "rentable",
    "rented",
    "external",
    "geolocation",
    "direct_port_count",
    "public_ipaddr",
    "duration",
    "dlperf",
    "resource_type",
    "gpu_display_active",
    "label",
    "actual_status",
    "intended_status",
    "cur_state",
    "next_state",
    "status_msg",
    "ssh_host",
    "ssh_port",
    "ports",
    "start_date",
    "is_bid",
]
ROWS = st.dictionaries(st.sampled_from(FIELDS), VALUES)


@given(VALUES)
def test_every_reader_gives_its_type_or_none(value: Any) -> None:
    """A finite number, dollars of 0 or more, whole numbers, clean text, or None: never an exception."""
    number, money, whole = wire.number(value), wire.money(value), wire.whole(value)
    assert number is None or (isinstance(number, float) and math.isfinite(number))
    assert money is None or (isinstance(money, Decimal) and money.is_finite() and 0 <= money <= wire.MOST_USD)
    assert whole is None or (type(whole) is int and whole >= 0)
    text = wire.text(value)
    assert text is None or (text == text.strip() and text and text.encode() is not None)
    assert wire.flag(value) in (None, True, False)
    assert wire.port(value) is None or 1 <= wire.port(value) <= 65535  # type: ignore[operator]
    moment = wire.moment(value)
    assert moment is None or moment.utcoffset() is not None
    ident = wire.ident(value)
    assert ident is None or ident.isdecimal()


def test_numbers_keep_their_digits() -> None:
    """Dollars go by their text, not through a float's sum."""
    assert wire.money("0.421") == wire.money(0.421) == Decimal("0.421")
    assert wire.money(1e-7) == Decimal(0)
    assert wire.number(True) is None
    assert wire.ident("7001001") == wire.ident(7001001) == "7001001"
    assert wire.ident(7.0) is None


@given(ROWS, st.booleans())
def test_any_row_is_an_offer_that_core_takes_or_a_reason(row: dict[str, Any], spot: bool) -> None:
    """Whatever the market sends, an offer passes core's own check of offers."""
    base: dict[str, Any] = {
        "id": 1,
        "ask_contract_id": 1,
        "dph_total": 0.3,
        "min_bid": 0.1,
        "gpu_name": "RTX 4090",
    }
    wanted = Wanted(query=OfferQuery(deadline=0), hosts=Hosts(verified=False), job=VastJob(), spot=spot)
    found = offer_of(base | row, wanted)
    if isinstance(found, Offer):
        from gipper.api import Listing

        checked = answers.offers(Listing(items=(found,)), "vast")
        assert checked.items == (found,) and not checked.notes
        for field in attrs.fields(Offer):
            value = getattr(found, field.name)
            assert not isinstance(value, float) or math.isfinite(value)
    else:
        assert found


@given(ROWS)
def test_any_row_is_a_machine_that_core_takes(row: dict[str, Any]) -> None:
    """Whatever the market sends, a machine passes core's own check and is never said to be gone."""
    found = machine_of(row, "7")
    assert answers.machine(found, "vast", "7") == found
    assert found.state is not MachineState.GONE
    assert all(1 <= a.port <= 65535 and a.host.strip() == a.host for a in found.addresses)


@given(
    st.integers(100, 599),
    st.dictionaries(st.sampled_from(["error", "msg", "message", "detail", "retry_after", "success"]), VALUES),
    st.text(),
)
def test_any_failure_has_a_short_text(status: int, body: dict[str, Any], header: str) -> None:
    """Whatever stands in an error body, it becomes one short line, and a wait that is a number."""
    from datetime import UTC, datetime

    reply = Reply(status=status, body=body, headers={"Retry-After": header, "X-RateLimit-Reset": header})
    error = failure(reply, "x", "misc")
    assert "\n" not in error.message and len(error.message) < 600
    assert meaning(reply)
    assert asked_wait(reply, datetime.now(UTC)) >= 0
