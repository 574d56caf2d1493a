"""`gipper pod estimate`: what a run would take and cost, offer by offer, and the best one line by line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from gipper.cli.options import hooks_option, json_option

if TYPE_CHECKING:
    from gipper.planning_values import RankedOffer
    from gipper.plugins.handle import Provider
    from gipper.values.estimates import Estimate

_SHOWN: Final = 8


@click.command("estimate")
@click.argument("job_file", metavar="JOB.toml", type=click.Path(path_type=Path))
@click.option("--throughput", type=click.FloatRange(min=0, min_open=True), help="Units a second.")
@click.option("--provider", help="Only this provider.")
@click.option("--gpu", help="Only this GPU.")
@hooks_option
@json_option
def estimate(
    job_file: Path, throughput: float | None, provider: str | None, gpu: str | None, allow_hooks: bool,
    as_json: bool,
) -> int:  # fmt: skip
    """Show what a run would take and cost: the best 8 offers, and how the best one's score is made."""
    from gipper.cli.console import Console
    from gipper.cli.offers_table import require_offers, show_notes, show_offers
    from gipper.cli.render import say, warn
    from gipper.core import Gipper
    from gipper.launch import Choice, Launch

    gipper = Gipper.open(note=lambda text: warn(f"gipper: note: {text}"))
    launch = Launch(
        gipper=gipper, loaded=gipper.load_job(job_file), reporter=Console(),
        choice=Choice(provider=provider, gpu=gpu, throughput=throughput), allow_hooks=allow_hooks,
    )  # fmt: skip
    found = launch.look(launch.survey().bytes)
    show_notes(found, gipper.redactor.text)
    require_offers(found)
    show_offers(found.ranked[:_SHOWN], title="offers for this job, best first", as_json=as_json)
    if not as_json:
        best = found.ranked[0]
        say()
        for name, text in told(best, gipper.provider(best.provider), gipper.settings.failure_cost_usd):
            say(f"{name:<11} {text}".rstrip())
    return 0


def told(best: RankedOffer, provider: Provider, failure_cost_usd: float) -> Iterator[tuple[str, str]]:
    """(name, text) of each line on the best offer: enough to work its score out by hand."""
    from gipper.cli.offers_table import gpu_text, sources, where_text

    one = best.estimate
    yield "best", f"{best.provider} {best.offer.id}: {gpu_text(best)}, {where_text(best)}"
    yield "objective", one.objective
    yield from _time(one)
    yield from _dollars(best, one)
    yield from _worth(best, one, failure_cost_usd)
    yield "between", _between(one)
    for line in sources(one):
        yield "from", line
    yield "end", without_client(provider)
    for line in one.flat["assumptions"]:
        yield "note", line


def _time(one: Estimate) -> Iterator[tuple[str, str]]:
    from gipper.values.estimates import PHASES

    phases = " + ".join(f"{name} {getattr(one.phases, name):.2f}" for name in PHASES)
    yield "seconds", f"{phases} = {one.wall_s:.2f}"
    if one.rtt_ms is not None:
        yield "round trip", f"{one.rtt_ms:.1f} ms ({one.rtt_basis})"


def _dollars(best: RankedOffer, one: Estimate) -> Iterator[tuple[str, str]]:
    yield "rental", f"${one.rental_usd:.6f} = {one.wall_s:.2f} s / 3600 × ${best.offer.usd_h:f}/h"
    for change in one.adjustments:
        if change.factor != 1:
            yield "adjustment", f"rental × {change.factor:.6g}  {change.label}"
    yield "billing", f"rental × {one.billing_factor:.6f}"
    told_fees = "" if one.bandwidth_known else "  fees not advertised: a lower bound"
    yield "bandwidth", f"+ ${one.bandwidth_usd:.6f}{told_fees}"
    for change in one.adjustments:
        if change.usd:
            yield "adjustment", f"{'-' if change.usd < 0 else '+'} ${abs(change.usd):.6f}  {change.label}"
    yield "expected", f"${one.usd:.6f}"


def _worth(best: RankedOffer, one: Estimate, failure_cost_usd: float) -> Iterator[tuple[str, str]]:
    lost = (
        f"${failure_cost_usd:.2f} + ({one.phases.ready:.2f} + 60) s / 3600 × "
        f"(${best.offer.usd_h:f} + ${one.hour_value_usd:.2f})"
    )
    yield "host risk", f"p {one.p_fail:.6f} → ${one.risk_usd:.6f} = p × ({lost})"
    waiting = one.hour_value_usd * one.wall_s / 3600
    yield "waiting", f"${one.hour_value_usd:.2f}/h → ${waiting:.6f}"
    yield "score", f"{one.score:.6f} = expected + host risk + waiting"


def _between(one: Estimate) -> str:
    """The interval that holds four runs of five."""
    (soon, late), (least, most) = one.interval.wall_s, one.interval.usd
    few = ", from few observations" if one.interval.thin else ""
    return f"{soon / 60:.0f}–{late / 60:.0f} min, ${least:.3f}–{most:.3f} in four runs of five{few}"


def without_client(provider: Provider) -> str:
    """What ends a machine of this provider once its client is gone."""
    ways = []
    if provider.implements("gipper_watchdog"):
        ways.append("a watchdog on the machine")
    if provider.info.own_deadline:
        ways.append("the machine's own deadline")
    if not ways:
        return "without this client, only the reaper ends the machine (`gipper pod reap-timer install`)"
    return f"without this client, {' and '.join(ways)} and the reaper end the machine"
