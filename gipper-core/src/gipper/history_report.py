"""What history says of providers, machines and forecasts, as lines of figures. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import attrs

from gipper.cost_history import p_fail
from gipper.history import LedgerHistory
from gipper.history_figures import median
from gipper.history_rentals import GRADED, Verdict


@attrs.frozen(kw_only=True)
class ProviderLine:
    """One provider. `p_fail` is the chance that a machine never rented before turns out bad, the same figure
    as in an estimate of one; rates are Mb/s seen from the host; None where too little is known. `reasons` of
    bad rentals, most frequent first."""

    provider: str
    rentals: int
    good: int
    bad: int
    p_fail: float
    ready_s: float | None
    up_mbps: float | None
    down_mbps: float | None
    billed_factor: float | None
    unconfirmed: int
    reasons: tuple[tuple[str, int], ...]


@attrs.frozen(kw_only=True)
class MachineLine:
    """One machine with its own chance to be bad (as in an estimate of it), and its GPU when rented last."""

    provider: str
    host: str
    rentals: int
    bad: int
    p_fail: float
    gpu: str | None


@attrs.frozen(kw_only=True)
class CalibrationLine:
    """Forecasts of one figure in runs that succeeded: the median of actual / predicted, and the share of
    actual figures inside the interval (None: it has no interval of its own, or none was told)."""

    figure: str
    runs: int
    ratio: float | None
    inside: float | None


def provider_lines(history: LedgerHistory, provider: str | None = None) -> list[ProviderLine]:
    """All providers with rentals by name, or the one."""
    return [_provider(history, name) for name in _names(history, provider)]


def machine_lines(history: LedgerHistory, provider: str | None = None) -> list[MachineLine]:
    """Machines with a bad rental or more than one, and a provider's only one once judged; busiest first."""
    markets = [list(_machines(history, name)) for name in _names(history, provider)]
    only = {(m.provider, m.host) for own in markets if len(own) == 1 for m in own}
    judged = {key for key in only if history.failures(*key).n_machine}
    found = [line for own in markets for line in own]
    telling = (m for m in found if m.bad or m.rentals > 1 or (m.provider, m.host) in judged)
    return sorted(telling, key=lambda line: (-line.rentals, -line.bad, line.provider, line.host))


def calibration_lines(history: LedgerHistory, provider: str | None = None) -> list[CalibrationLine]:
    """One line for each phase, the wall time and the dollars."""
    window = history.window
    rows = window.rows if provider is None else window.market(provider).rows
    lines = [_calibration(name, window.off(name, rows)) for name in GRADED]
    lines[-1] = attrs.evolve(lines[-1], inside=_share(*window.inside("s", rows)))
    dollars = _calibration("usd", window.usd_off(rows))
    return [*lines, attrs.evolve(dollars, inside=_share(*window.inside("usd", rows)))]


def _names(history: LedgerHistory, provider: str | None) -> list[str]:
    known = history.window.providers()
    return known if provider is None else [name for name in known if name == provider]


def _provider(history: LedgerHistory, name: str) -> ProviderLine:
    window, rows = history.window, history.window.market(name).rows
    bad = window.verdicts(rows, Verdict.BAD)
    ready, billed = history.ready_s(name, None), history.billing_factor(name)
    up, down = (history.link_mbps(name, None, None, way) for way in ("up", "down"))
    return ProviderLine(
        provider=name, rentals=len(rows), good=len(window.verdicts(rows, Verdict.GOOD)), bad=len(bad),
        p_fail=p_fail(history.failures(name, None)), ready_s=ready and ready.value, up_mbps=up and up.value,
        down_mbps=down and down.value, billed_factor=billed and billed.value,
        unconfirmed=window.unconfirmed(rows), reasons=_reasons([window.text("reason", row) for row in bad]),
    )  # fmt: skip


def _reasons(texts: Sequence[str | None]) -> tuple[tuple[str, int], ...]:
    counted = Counter(" ".join((text or "no reason told").split()) for text in texts)
    return tuple(sorted(counted.items(), key=lambda item: (-item[1], item[0])))


def _machines(history: LedgerHistory, provider: str) -> Iterator[MachineLine]:
    window = history.window
    for host, rows in window.market(provider).hosts.items():
        failures = history.failures(provider, host)
        yield MachineLine(
            provider=provider, host=str(host), rentals=len(rows), bad=failures.bad_machine,
            p_fail=p_fail(failures), gpu=window.text("gpu", rows[-1]),
        )  # fmt: skip


def _calibration(figure: str, off: Sequence[float]) -> CalibrationLine:
    ratio = math.exp(median(off)) if off else None
    return CalibrationLine(figure=figure, runs=len(off), ratio=ratio, inside=None)


def _share(held: int, of: int) -> float | None:
    return held / of if of else None
