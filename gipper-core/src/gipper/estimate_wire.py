"""Figures of the cost model as the public `Estimate`, with the flat names that tools already read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gipper.cost_history import DEFAULT_SIGMA, ENOUGH
from gipper.cost_interval import percentiles
from gipper.costs import CostModel, Figures, Where, bandwidth_known, link_source, phases_of
from gipper.countries import centroid
from gipper.values.estimates import PHASES, CostAdjustment, Estimate, Interval, Phases
from gipper.values.offers import Offer
from gipper.wording import counted

_EARTH_KM: Final = 6371.0


def estimate(
    model: CostModel,
    offer: Offer,
    adjustments: Sequence[CostAdjustment] = (),
    figures: Figures | None = None,
) -> Estimate:
    """The whole estimate of `offer`; `figures` saves working them out again."""
    f = figures or model.figures(offer, adjustments)
    phases = phases_of(model, f)
    return Estimate(
        phases=phases,
        rental_usd=f.rental_usd,
        bandwidth_usd=f.bandwidth_usd,
        bandwidth_known=bandwidth_known(offer),
        adjustments=tuple(adjustments),
        billing_factor=model.billing.value,
        p_fail=f.p_fail,
        risk_usd=f.risk_usd,
        objective=model.objective,
        hour_value_usd=model.hour_value,
        usd=f.expected_usd,
        score=f.score,
        interval=interval(model, phases, f, adjustments),
        basis=basis(model, offer, f),
        flat=flat(model, offer, f),
    )


def interval(
    model: CostModel, phases: Phases, figures: Figures, adjustments: Sequence[CostAdjustment] = ()
) -> Interval:
    """10th to 90th percentile. Dollars follow the wall time: fees and adjustments in dollars stand.

    A phase that was graded often enough has the spread of its past forecasts, and their bias too.
    """
    terms, thin = [], False
    for name in PHASES:
        seconds, seen = getattr(phases, name), model.history.spread(name)
        if seconds > 0:
            known = seen.n >= ENOUGH
            thin = thin or not known
            terms.append((seconds * math.exp(seen.bias), seen.sigma) if known else (seconds, DEFAULT_SIGMA))
    low, high = percentiles(terms)
    factor = math.prod(a.factor for a in adjustments) * model.billing.value
    per_s = figures.rental_usd / figures.wall_s * factor if figures.wall_s > 0 else 0.0
    fixed = figures.bandwidth_usd + sum(a.usd for a in adjustments)
    dollars = (max(0.0, low * per_s + fixed), max(0.0, high * per_s + fixed))
    return Interval(wall_s=(low, high), usd=dollars, thin=thin)


def flat(model: CostModel, offer: Offer, figures: Figures) -> Mapping[str, Any]:
    """The flat names of the public format. No key is ever left out; unknown is None."""
    return {
        **_totals(model, offer, figures),
        **_times(model, figures),
        **_rates(offer, figures),
        **_place(model, offer),
    }


def _totals(model: CostModel, offer: Offer, f: Figures) -> dict[str, Any]:
    known = bandwidth_known(offer)
    return {
        "profile": "interactive" if model.objective == "latency" else "batch",
        "estimated_total_usd": f.expected_usd,
        "estimated_bandwidth_usd": f.bandwidth_usd if known else None,
        "known_bandwidth_usd": f.bandwidth_usd,
        "bandwidth_fees_known": known,
        "cost_is_lower_bound": not known,
    }


def _times(model: CostModel, f: Figures) -> dict[str, Any]:
    return {
        "setup_s": model.setup.value,
        "setup_download_s": f.fetch_s,
        "upload_s": f.upload_s,
        "download_s": f.download_s,
        "compute_s": f.compute_s,
        "upload_gb": model.upload_gb.value,
        "download_gb": model.download_gb,
        "setup_download_gb": model.fetch_gb,
    }


def _rates(offer: Offer, f: Figures) -> dict[str, Any]:
    down_fee, up_fee = offer.download_usd_per_gb, offer.upload_usd_per_gb
    return {
        "host_download_mbps": offer.down_mbps,
        "host_upload_mbps": offer.up_mbps,
        "host_download_usd_per_gb": None if down_fee is None else float(down_fee),
        "host_upload_usd_per_gb": None if up_fee is None else float(up_fee),
        "effective_upload_mbps": f.down_mbps,
        "effective_download_mbps": f.up_mbps,
        "dlperf": offer.dlperf,
    }


def _place(model: CostModel, offer: Offer) -> dict[str, Any]:
    place = model.job.placement
    return {
        "measured_rtt_ms": None,
        "latency_target": place.latency_target,
        "distance_km": distance_km(place.client_location, position(offer)),
        "assumptions": list(assumptions(model, offer)),
    }


def basis(model: CostModel, offer: Offer, f: Figures) -> dict[str, str]:
    """Where each figure came from, by the name that it has on the wire."""
    where = model.where(offer)
    down, up = _link_sources(where, offer)
    upload = "client_upload_mbps x efficiency" if f.down_mbps < f.down_host_mbps else down
    rentals = model.history.failures(model.info.name, None).n
    return {
        "ready": where.ready_source,
        "setup": model.setup.source,
        "upload": f"{model.upload_gb.source}; {upload}",
        "fetch": down,
        "compute": model.compute(offer.gpu).source,
        "download": "client_download_mbps x efficiency" if f.up_mbps < f.up_host_mbps else up,
        "billing_factor": model.billing.source,
        "p_fail": f"{counted(rentals, 'rental')} of this provider" if rentals else "no rentals yet",
    }


def assumptions(model: CostModel, offer: Offer) -> Sequence[str]:
    """What had to be guessed, one line each."""
    place = model.job.placement
    down, up = _link_sources(model.where(offer), offer)
    guessed = (
        (model.upload_gb.source == "inputs not counted", "no upload: the inputs were not counted"),
        (place.download_gb is None, "no download: placement.download_gb is not set"),
        (
            place.setup_download_gb is None,
            "the job downloads nothing: placement.setup_download_gb is not set",
        ),
        (model.compute(offer.gpu).source.startswith("a guess"), "compute time is a guess"),
        (down.startswith("fallback"), "the host's download rate is not told"),
        (up.startswith("fallback"), "the host's upload rate is not told"),
        (not bandwidth_known(offer), _unknown_fees(model)),
    )
    return [text for holds, text in guessed if holds]


def _link_sources(where: Where, offer: Offer) -> tuple[str, str]:
    down = link_source(where.down_source, offer.down_mbps)
    return down, link_source(where.up_source, offer.up_mbps)


def _unknown_fees(model: CostModel) -> str:
    if model.info.fees_advertised:
        return "traffic fees are not told for this offer: the total is a lower bound"
    return "the market does not advertise its traffic fees: the total is a lower bound"


def position(offer: Offer) -> tuple[float, float] | None:
    """Where the offer's host stands, else the middle of its country, else None."""
    return offer.location or centroid(offer.region)


def distance_km(here: tuple[float, float] | None, there: tuple[float, float] | None) -> float | None:
    """Great-circle kilometres between two (latitude, longitude) in degrees; None where one is unknown."""
    if here is None or there is None:
        return None
    lat1, lon1, lat2, lon2 = map(math.radians, (*here, *there))
    a = math.sin((lat2 - lat1) / 2) ** 2
    a += math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    return 2 * _EARTH_KM * math.asin(math.sqrt(min(1.0, a)))
