"""`gipper pod gpus`: what all markets offer now, scored for a job of half an hour."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gipper.cli.options import json_option

if TYPE_CHECKING:
    from gipper.values.jobs import Job

    _RegionsType = click.ParamType[tuple[str, ...]]
else:
    # Only newer versions of click have a generic class here.
    _RegionsType = click.ParamType

_SECONDS: Final = 1800.0
# No offer is too dear to be shown.
_NO_LIMIT_USD: Final = Decimal(10**9)
_PORT: Final = "5004/udp"


class Regions(_RegionsType):
    """Country codes, separated by commas."""

    name = "codes"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Codes in capitals; fails as wrong use for what isn't one, naming the nearest."""
        from gipper.countries import is_country, nearest_countries

        if isinstance(value, tuple):
            return value
        codes = [part.strip() for part in value.split(",") if part.strip()]
        for code in codes:
            if not is_country(code):
                near = " or ".join(nearest_countries(code))
                self.fail(
                    f"{code!r} is no ISO country code{f'; did you mean {near}?' if near else ''}", param, ctx
                )
        return tuple(dict.fromkeys(code.upper() for code in codes))


@click.command("gpus")
@click.option(
    "--count",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="GPUs; 0 = machines without one.",
)
@click.option("--min-mem", type=click.FloatRange(min=0), default=16.0, show_default=True, help="GB per GPU.")
@click.option("--region", type=Regions(), help="Country codes, such as US,CA.")
@click.option("--udp", is_flag=True, help="Only where UDP ports can be published.")
@click.option("--provider", help="Only this provider (`local` takes part only so).")
@click.option(
    "--cloud", type=click.Choice(["COMMUNITY", "SECURE"], case_sensitive=False),
    help="Only machines of private hosts, or only of data centres.",
)  # fmt: skip
@click.option("--limit", type=click.IntRange(min=1), default=30, show_default=True, help="Rows at most.")
@click.option("--explain", is_flag=True, help="Where each figure of the best offer came from.")
@json_option
def gpus(
    count: int, min_mem: float, region: tuple[str, ...] | None, udp: bool, provider: str | None,
    cloud: str | None, limit: int, explain: bool, as_json: bool,
) -> int:  # fmt: skip
    """Show what all markets offer now, scored for a job of 30 minutes. Nothing is rented."""
    from gipper.cli.offers_table import require_offers, show_notes, show_offers, sources
    from gipper.cli.render import say, warn
    from gipper.core import Gipper
    from gipper.jobfile import LoadedJob
    from gipper.launch import Choice, Launch

    gipper = Gipper.open(note=lambda text: warn(f"gipper: note: {text}"))
    cloud = None if cloud is None else cloud.upper()
    job = half_an_hour(min_mem if count else 0.0, region, count=count, udp=udp, cloud=cloud)
    launch = Launch(gipper=gipper, loaded=LoadedJob(job=job, options={}), choice=Choice(provider=provider))
    found = launch.look(None)
    show_notes(found, gipper.redactor.text)
    require_offers(found, _hint(found.asked, count))
    show_offers(found.ranked[:limit], title="offers for a 30-minute job, best first", as_json=as_json)
    if explain and not as_json:
        best = found.ranked[0]
        say(f"where the figures of {best.provider} {best.offer.id} come from:")
        for line in sources(best.estimate):
            say(f"  {line}")
    return 0


def _hint(asked: tuple[str, ...], count: int) -> str:
    if not count:
        return "ask for less"
    if asked == ("local",):
        return "local offers this machine's own GPUs; without any: --count 0"
    return "ask for less; --count 0 lists machines without a GPU"


def half_an_hour(
    min_mem_gb: float, regions: tuple[str, ...] | None, *, udp: bool, cloud: Any, count: int = 1
) -> Job:
    """A job that computes for 30 minutes on `count` GPUs and moves nothing."""
    from gipper.values.jobs import Budget, GpuWants, Job, Placement, Pod, RunTable

    return Job(
        name="30-minute job",
        folder=Path(),
        run=RunTable(command="true"),
        gpu=GpuWants(count=count, min_mem_gb=min_mem_gb, regions=regions, cloud=cloud),
        pod=Pod(ports=(_PORT,) if udp else ()),
        budget=Budget(max_usd=_NO_LIMIT_USD),
        placement=Placement(compute_s=_SECONDS, upload_gb=0.0),
    )
