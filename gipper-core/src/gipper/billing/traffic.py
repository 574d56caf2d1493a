"""What the receipts say of a machine's traffic: fees that its offer named, bytes that gipper moved. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

import attrs

from gipper.billing.rentals import Evidence, Key
from gipper.values.receipts import CustodyUpload, EstimateReceipt, PodCreate, Receipt, Sync

GB: Final = Decimal(10**9)


@attrs.define(kw_only=True)
class Moved:
    """One machine: dollars a GB in and out (None = not told), GB that were planned and that were moved."""

    in_usd: Decimal | None = None
    out_usd: Decimal | None = None
    planned_in_gb: Decimal = Decimal(0)
    planned_out_gb: Decimal = Decimal(0)
    in_bytes: int = 0
    out_bytes: int = 0
    receipts: list[Evidence] = attrs.field(factory=list)

    @property
    def in_gb(self) -> Decimal:
        """GB that went in, by what was sent and what was planned, whichever is more."""
        return max(self.planned_in_gb, self.in_bytes / GB)

    @property
    def out_gb(self) -> Decimal:
        """GB that came out, as `in_gb`."""
        return max(self.planned_out_gb, self.out_bytes / GB)


def traffic_of(receipts: Iterable[Receipt]) -> dict[Key, Moved]:
    """Each machine's traffic; `receipts` in order."""
    found: dict[Key, Moved] = {}
    planned: dict[str | None, Receipt] = {}
    for r in receipts:
        if r.kind == EstimateReceipt.kind:
            # The estimate that stands before a machine's creation is the one of its offer.
            planned[r.run] = r
        elif r.kind == PodCreate.kind:
            found.setdefault(_key(r), _planned(planned.get(r.run)))
        elif r.kind in (CustodyUpload.kind, Sync.kind) and _key(r) in found:
            _add(found[_key(r)], r)
    return found


KINDS: Final = frozenset({EstimateReceipt.kind, PodCreate.kind, CustodyUpload.kind, Sync.kind})


def _key(r: Receipt) -> Key:
    return str(r["provider"]), str(r["pod"])


def _add(moved: Moved, r: Receipt) -> None:
    moved.receipts.append(Evidence.of(r))
    if r.kind == Sync.kind:
        moved.out_bytes += int(r["bytes"])
    else:
        moved.in_bytes += int(r["bytes"])


def _planned(r: Receipt | None) -> Moved:
    told: Mapping[str, Any] = {} if r is None else r["estimate"]
    figures = {k: _decimal(told.get(k)) for k in _FIGURES}
    return Moved(
        in_usd=figures["host_download_usd_per_gb"], out_usd=figures["host_upload_usd_per_gb"],
        planned_in_gb=(figures["upload_gb"] or Decimal(0)) + (figures["setup_download_gb"] or Decimal(0)),
        planned_out_gb=figures["download_gb"] or Decimal(0),
        receipts=[] if r is None else [Evidence.of(r)],
    )  # fmt: skip


_FIGURES: Final = (
    "host_download_usd_per_gb", "host_upload_usd_per_gb", "upload_gb", "setup_download_gb", "download_gb",
)  # fmt: skip


def _decimal(value: Any) -> Decimal | None:
    """A JSON number by its digits, as the receipt has them."""
    return None if value is None or isinstance(value, bool) else Decimal(str(value))
