"""Money: bills, credit, corrections of the estimate; and what the key may do."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from gipper_vast import costs

from gipper.api import Phases, ProviderError

CHARGES = "/api/v0/charges/"
SINCE = datetime(2026, 11, 28, 15, 30, tzinfo=UTC)
UNTIL = datetime(2026, 11, 29, 1, 0, tzinfo=UTC)


def _row(machine: int, **changes: Any) -> dict[str, Any]:
    items = [
        {"type": "gpu", "description": "1.4 hours", "amount": 0.42, "start": 1795996800, "end": 1796083200},
        {"type": "disk", "amount": "0.014"}, {"type": "bwd", "amount": 0.07}, {"type": "bwu", "amount": 0.008},
    ]  # fmt: skip
    return {"type": "instance", "source": f"instance-{machine}", "amount": 0.512, "start": 1795996800,
            "end": 1796083200, "items": items} | changes  # fmt: skip


def test_charges_become_bills_by_kind_over_whole_days(vast: Any) -> None:
    """Items keep their kind and dollars, all pages are read, and the window is whole UTC days."""
    vast.on("GET", CHARGES, {"results": [_row(7)], "total": 2, "next_token": "t"},
            {"results": [_row(8, items=[]), {"source": "serverless-3"}], "total": 2, "next_token": None})  # fmt: skip
    bills = vast.driver.gipper_billed(SINCE, UNTIL)
    assert [(b.machine_id, b.kind, b.usd) for b in bills] == [
        ("7", "gpu", Decimal("0.42")), ("7", "disk", Decimal("0.014")), ("7", "bandwidth", Decimal("0.07")),
        ("7", "bandwidth", Decimal("0.008")), ("8", "other", Decimal("0.512")),
    ]  # fmt: skip
    window = json.loads(vast.asked("GET")[0].query["select_filters"])["day"]
    assert window == {"gte": 1795824000, "lte": 1795996800}
    assert all(b.since.tzinfo and b.since < b.until for b in bills)


@pytest.mark.parametrize(
    "answer",
    [
        (400, {"success": False, "msg": "missing range"}), {"results": None}, {"results": [], "total": 4},
        {"results": [{"source": "instance-7"}]}, {"results": [{"source": "instance-7", "items": [{"type": "gpu"}]}]},
        {"results": [], "next_token": 3}, {"results": [], "next_token": "t"}, (200, {"success": False}),
    ],
)  # fmt: skip
def test_charges_that_are_not_whole_are_an_error(vast: Any, answer: Any) -> None:
    """No bill is better than one that lacks a line."""
    vast.on("GET", CHARGES, answer)
    with pytest.raises(ProviderError):
        vast.driver.gipper_billed(SINCE, UNTIL)


def test_credit_is_known_or_unknown_never_made_up(vast: Any) -> None:
    """The prepaid dollars count, not `balance`; what is no number is unknown."""
    vast.on(
        "GET", "/api/v0/users/current", {"credit": 12.34, "balance": 0}, {"credit": "n/a"}, {"credit": -0.5}
    )
    assert [vast.driver.gipper_account().credit_usd for _ in range(3)] == [
        Decimal("12.34"),
        None,
        Decimal("-0.5"),
    ]


def test_a_key_that_lacks_a_category_is_told_its_name(vast: Any) -> None:
    """Each category is tried by itself, and the missing ones are named; a wrong key is told once."""
    denied = (401, {"error": "auth_error", "msg": "not permitted"})
    vast.on("GET", "/api/v0/users/current", {"credit": 1})
    vast.on("GET", "/api/v1/instances/", {"instances": [], "next_token": None})
    vast.searches([])
    vast.on("GET", CHARGES, {"results": []})
    assert vast.driver.gipper_check_key().ok
    vast.on("GET", CHARGES, denied)
    vast.on("GET", "/api/v1/instances/", denied)
    told = vast.driver.gipper_check_key()
    assert not told.ok and "billing_read" in told.problem and "instance_read" in told.problem
    vast.on("GET", "/api/v0/users/current", (404, {"error": "auth_error", "msg": "Invalid user key"}))
    told = vast.driver.gipper_check_key()
    assert "not accepted" in told.problem and "category" not in told.problem
    vast.on("GET", "/api/v0/users/current", (401, {"msg": "Two Factor Authentication required"}))
    assert "two-factor" in vast.driver.gipper_check_key().problem


def _phases(**changes: float) -> Phases:
    usual = {"ready": 120.0, "setup": 0.0, "upload": 0.0, "fetch": 0.0, "compute": 3600.0, "download": 0.0}
    return Phases(**{**usual, **changes})


def test_loading_and_short_rentals_are_corrected_with_labels(vast: Any) -> None:
    """The GPUs aren't charged while the image loads, and a short rental is charged as 252 s."""
    offer = vast.offer(dph_base=0.36, dph_total=0.37)
    (one,) = costs.adjustments([offer], {offer.id: _phases()})[offer.id]
    assert (one.label, round(one.usd, 6)) == (costs.LOADING, -0.006)
    both = costs.adjustments([offer], {offer.id: _phases(compute=12.0)})[offer.id]
    assert {a.label: round(a.usd, 6) for a in both} == {costs.LOADING: -0.006, costs.SHORT: 0.018}


def test_nothing_is_corrected_where_nothing_is_wrong(vast: Any) -> None:
    """An offer that is ready at once and runs for long, or isn't ours, has no correction."""
    offer = vast.offer()
    assert costs.adjustments([offer], {offer.id: _phases(ready=30.0)}) == {}
    assert costs.adjustments([offer], {}) == {}
