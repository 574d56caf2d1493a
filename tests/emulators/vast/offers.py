"""The market's listings, and its search with all its holes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

MONTH_H = 720
PAGE = 64
_OPERATORS = {
    "eq": lambda a, b: a == b,
    "neq": lambda a, b: a != b,
    "gt": lambda a, b: a is not None and a > b,
    "gte": lambda a, b: a is not None and a >= b,
    "lt": lambda a, b: a is not None and a < b,
    "lte": lambda a, b: a is not None and a <= b,
    "in": lambda a, b: a in b,
    "notin": lambda a, b: a not in b,
}
# Not columns, or without effect on the service: an `id` filter matches nothing, `rented` is ignored.
_SWITCHES = frozenset({
    "order", "type", "limit", "allocated_storage", "rented", "external", "target_reliability", "extra_ids",
    "gpu_option", "show_incompatible", "sort_option", "template_id",
})  # fmt: skip
_ALIASES = {"reliability": "reliability2", "verified": "verification", "driver_version": "driver_vers"}


def row(ask: int, **changes: Any) -> dict[str, Any]:
    """An ordinary listing: one RTX 4090 of a machine of its own."""
    usual: dict[str, Any] = {
        "id": ask, "ask_contract_id": ask, "bundle_id": ask + 880000, "machine_id": ask % 100000, "host_id": 909,
        "hosting_type": 0, "gpu_name": "RTX 4090", "num_gpus": 1, "gpu_frac": 1.0, "gpu_ram": 24564,
        "gpu_total_ram": 24564, "gpu_arch": "nvidia", "compute_cap": 890, "cuda_max_good": 13.0,
        "driver_version": "580.65.06", "driver_vers": 580065006, "gpu_mem_bw": 880.4, "pcie_bw": 22.1,
        "gpu_display_active": False, "cpu_name": "AMD EPYC 7K62", "cpu_arch": "amd64", "cpu_cores": 64,
        "cpu_cores_effective": 16.0, "cpu_ram": 32000, "disk_space": 410.5, "disk_bw": 2900.0,
        "inet_up": 610.2, "inet_down": 744.9, "inet_up_cost": 0.004, "inet_down_cost": 0.004,
        "internet_up_cost_per_tb": 4.096, "internet_down_cost_per_tb": 4.096, "storage_cost": 0.15,
        "dph_base": 0.30, "min_bid": 0.16, "is_bid": False, "discount_rate": None, "reliability": 0.9931,
        "reliability2": 0.9931, "verification": "verified", "rentable": True, "rented": False, "external": None,
        "geolocation": "Quebec, CA", "static_ip": True, "direct_port_count": 63, "public_ipaddr": "203.0.113.5",
        "duration": 864000.0, "start_date": 1795000000.0, "end_date": 1796900000.0, "score": 211.4,
        "dlperf": 96.2, "dlperf_per_dphtotal": 312.0, "total_flops": 82.1, "vms_enabled": False,
        "resource_type": "gpu", "time_remaining": "", "hostname": None, "webpage": None,
    }  # fmt: skip
    return {**usual, **changes}


@attrs.define
class Listings:
    """What is to be had. `taken` are ids that were rented or that somebody else took."""

    rows: list[dict[str, Any]]
    taken: set[int] = attrs.field(factory=set)
    shift: int = 0

    def free(self) -> list[dict[str, Any]]:
        """What nobody has taken; other slices of a machine stay."""
        return [r for r in self.rows if r["ask_contract_id"] not in self.taken]

    def find(self, ask: int) -> dict[str, Any] | None:
        """The free listing of that number."""
        return next((r for r in self.free() if r["ask_contract_id"] == ask), None)

    def search(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """At most 64 listings, filtered and priced as the service does it."""
        disk = _number(body.get("allocated_storage"), 8.0)
        bid = body.get("type") in ("bid", "interruptible")
        found = [priced(r, disk, bid=bid) for r in self.free() if _fits(r, body)]
        for field, way in reversed([_order(o) for o in body.get("order") or [["score", "desc"]]]):
            found.sort(key=lambda r, f=field: _sortable(r.get(f)), reverse=way == "desc")
        return found[: min(PAGE, int(_number(body.get("limit"), PAGE)))]


def priced(listing: Mapping[str, Any], disk_gb: float, *, bid: bool) -> dict[str, Any]:
    """A listing as the answer shows it: the disk asked for is in the price."""
    storage = round(_number(listing.get("storage_cost"), 0.0) * disk_gb / MONTH_H, 5)
    gpu = _number(listing["min_bid"] if bid else listing["dph_base"], 0.0)
    total = listing.get("dph_total", gpu + storage)
    return {**listing, "storage_total_cost": storage, "dph_total": total, "is_bid": bid,
            "discounted_dph_total": total}  # fmt: skip


def _fits(listing: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    return all(
        _one(listing, field, test)
        for field, test in body.items()
        if field not in _SWITCHES and isinstance(test, dict)
    )


def _one(listing: Mapping[str, Any], field: str, test: Mapping[str, Any]) -> bool:
    if field == "id":
        return False
    value = _column(listing, _ALIASES.get(field, field))
    return all(_holds(value, op, wanted) for op, wanted in test.items())


def _column(listing: Mapping[str, Any], field: str) -> Any:
    if field == "dph_total":
        return listing["dph_base"]
    if field == "verification":
        return listing.get("verification") == "verified"
    if field == "datacenter":
        return listing.get("hosting_type") == 1
    if field == "geolocation":
        return (listing.get("geolocation") or "")[-2:]
    return listing.get(field)


def _holds(value: Any, operator: str, wanted: Any) -> bool:
    test = _OPERATORS.get(operator)
    if test is None:
        return True
    if isinstance(wanted, list):
        return bool(test(value, [_like(value, w) for w in wanted]))
    try:
        return bool(test(value, _like(value, wanted)))
    except TypeError:
        return False


def _like(value: Any, wanted: Any) -> Any:
    """Numbers may come as text, also within lists."""
    if isinstance(wanted, str) and isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(wanted)
        except ValueError:
            return wanted
    return wanted


def _order(given: Any) -> tuple[str, str]:
    return (given["col"], given.get("dir", "asc")) if isinstance(given, dict) else (given[0], given[1])


def _sortable(value: Any) -> tuple[bool, float]:
    number = _number(value, float("nan"))
    return (number != number, 0.0 if number != number else number)


def _number(value: Any, default: float) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return default


def many(count: int, rows: Iterable[dict[str, Any]] = ()) -> list[dict[str, Any]]:
    """`count` ordinary listings at rising prices, before `rows`."""
    made = [row(5000101 + n, dph_base=round(0.30 + n / 1000, 3), machine_id=4000 + n) for n in range(count)]
    return [*made, *rows]
