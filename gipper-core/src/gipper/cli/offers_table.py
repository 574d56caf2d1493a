"""Ranked offers as a table, and the notes of a plan: shared by `gpus`, `estimate` and a dry run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from gipper.cli.render import print_table, warn
from gipper.errors import NoOffer, ProviderError

if TYPE_CHECKING:
    from gipper.planning_values import Plan, RankedOffer
    from gipper.values.estimates import Estimate

COLUMNS: Final = ("provider", "gpu", "GB", "$/h", "min", "$run", "risk", "score", "where")
# What has a source, in the order in which it is told.
_FIGURES: Final = ("ready", "setup", "upload", "fetch", "compute", "download", "billing_factor", "p_fail")


def show_offers(offers: Sequence[RankedOffer], *, title: str, as_json: bool) -> None:
    """Print `offers`, best first. In JSON each is its place in the market and the whole estimate."""
    print_table(
        COLUMNS, [_row(one) for one in offers], title=title, as_json=as_json,
        json_rows=[wire(one) for one in offers],
    )  # fmt: skip


def show_notes(plan: Plan, redact: Callable[[str], str]) -> None:
    """One line to stderr for each market that failed or was skipped, and for each reason left out."""
    for text in (*plan.notes, *plan.left_out_lines()):
        warn(f"note: {redact(text)}")


def require_offers(plan: Plan, hint: str = "ask for less") -> None:
    """Raises ConfigError where no market takes part, ProviderError where every one that was asked failed,
    NoOffer with `hint` where nothing is left."""
    from gipper.launch import no_market, none_fits

    if not plan.asked:
        raise no_market()
    if plan.all_failed:
        raise ProviderError(
            f"no market could be asked ({', '.join(plan.failed)})", hint="see the notes above; try again"
        )
    if not plan.ranked:
        raise NoOffer(none_fits(plan), hint=hint)


def wire(one: RankedOffer) -> dict[str, Any]:
    """An offer as `--json` has it."""
    offer = one.offer
    return {
        "provider": offer.provider,
        "offer": offer.id,
        "usd_h": offer.usd_h,
        "gpu": offer.gpu.name if offer.gpu else None,
        "gpu_count": offer.gpu_count,
        "gpu_memory_gb": offer.gpu.memory_gb if offer.gpu else None,
        "region": offer.region,
        "where": offer.where,
        "has_key": one.has_key,
        **one.estimate.wire(),
    }


def minutes(estimate: Estimate) -> str:
    """The wall time: one number, or its interval where a figure rests on few observations."""
    if not estimate.interval.thin:
        return f"{estimate.wall_s / 60:.0f}"
    low, high = (f"{seconds / 60:.0f}" for seconds in estimate.interval.wall_s)
    return low if low == high else f"{low}–{high}"


def sources(estimate: Estimate) -> list[str]:
    """Where each figure came from, a line each."""
    basis = estimate.basis
    lines = [f"{name}: {basis[name]}" for name in _FIGURES if name in basis]
    return lines + ([] if estimate.rtt_basis is None else [f"rtt: {estimate.rtt_basis}"])


def gpu_text(one: RankedOffer) -> str:
    """`RTX 4090`, `4 x H100 SXM`, or `-` for a machine without a GPU."""
    offer = one.offer
    if offer.gpu is None:
        return "-"
    return offer.gpu.name if offer.gpu_count == 1 else f"{offer.gpu_count} x {offer.gpu.name}"


def where_text(one: RankedOffer) -> str:
    """The place, and that there is no key to rent it with."""
    place = one.offer.where or one.offer.region or "-"
    return place if one.has_key else f"{place} (no key)"


def _row(one: RankedOffer) -> tuple[str, ...]:
    offer, estimate = one.offer, one.estimate
    return (
        offer.provider, gpu_text(one), f"{offer.gpu.memory_gb:g}" if offer.gpu else "-",
        f"{offer.usd_h:.3f}", minutes(estimate), f"{estimate.usd:.3f}", f"{estimate.risk_usd:.3f}",
        f"{one.score:.3f}", where_text(one),
    )  # fmt: skip
