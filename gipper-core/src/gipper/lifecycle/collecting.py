"""Bringing outputs home, whatever became of the job; what a checkpoint brought doesn't travel again."""

from __future__ import annotations

from pathlib import Path

import attrs

from gipper.errors import GipperError, TransferError
from gipper.lifecycle.bringing import asked, bring, destination, listed, told, write_sync
from gipper.lifecycle.kept import Kept
from gipper.lifecycle.link import HostLost, Link
from gipper.lifecycle.services import Interrupts, Services
from gipper.remote import Fetched
from gipper.values.jobs import Job, Output
from gipper.wording import counted

__all__ = ["Collected", "collect", "destination"]


@attrs.frozen(kw_only=True)
class Collected:
    """What came home: bytes, the local places, and one line for each thing that could not.

    `files` counts all that is home of the outputs, `bytes` what still had to travel.
    """

    bytes: int = 0
    files: int = 0
    seconds: float = 0.0
    places: tuple[Path, ...] = ()
    problems: tuple[str, ...] = ()


def collect(
    services: Services, link: Link, job: Job, folder: str, until: float, interrupts: Interrupts, kept: Kept
) -> Collected:
    """Fetch every output until `until` (monotonic); a second wish to stop ends it. Never raises.

    Each output leaves a `sync` receipt; what is missing is named in `problems`.
    """
    total = Collected()
    begun = services.runtime.monotonic()
    for output in job.outputs:
        if interrupts.level >= 2:
            total = attrs.evolve(total, problems=(*total.problems, f"{output.src}: not collected, as asked"))
            continue
        total = _one(services, link, job, output, folder, until, interrupts, total, kept)
    return attrs.evolve(total, seconds=services.runtime.monotonic() - begun)


def _one(
    services: Services, link: Link, job: Job, output: Output, folder: str, until: float,
    interrupts: Interrupts, total: Collected, kept: Kept,
) -> Collected:  # fmt: skip
    place, base, source = destination(job, output), folder + "/work", asked(folder, output.src)
    fetched, failure = bring(
        kept, output.src,
        lambda known: link.call(
            lambda r: r.fetch(base, source, place, known=known, stop=interrupts.twice),
            until=until, stop=interrupts.twice,
        ),
    )  # fmt: skip
    if failure is not None:
        total = _failed(services, link, output, total, failure, fetched, kept)
    else:
        write_sync(services, link.rental, output.src, _all_home(fetched))
    lines = (*fetched.missing, *fetched.refused, *fetched.changed)
    problems = tuple(p if _names(output, p) else f"{output.src}: {p}" for p in lines)
    came = place.exists() and (failure is None or bool(kept.below(output.src)))
    return attrs.evolve(
        total,
        bytes=total.bytes + fetched.bytes,
        files=total.files + len(_all_home(fetched).files),
        places=(*total.places, place) if came else total.places,
        problems=total.problems + problems,
    )


def _names(output: Output, problem: str) -> bool:
    src = output.src.rstrip("/")
    return problem.startswith((f"{src}:", f"{src}/"))


def _all_home(fetched: Fetched) -> Fetched:
    return attrs.evolve(fetched, files=listed(fetched.home)) if fetched.home else fetched


def _failed(
    services: Services, link: Link, output: Output, total: Collected, error: GipperError | OSError,
    fetched: Fetched, kept: Kept,
) -> Collected:  # fmt: skip
    problem = f"{output.src}: {told(services, error)}{_saved_before(kept, output)}"
    if not isinstance(error, HostLost) or fetched.files:
        write_sync(services, link.rental, output.src, fetched, problem)
    kind = (
        "could not be saved here" if isinstance(error, (OSError, TransferError)) else "could not be fetched"
    )
    services.reporter.warn(f"output {kind}: {problem}")
    return attrs.evolve(total, problems=(*total.problems, problem))


def _saved_before(kept: Kept, output: Output) -> str:
    whole = kept.whole()
    if whole is None or not kept.below(output.src):
        return ""
    when = f"{whole.at:%H:%M:%S} UTC"
    return f"; the checkpoint of {when} is here, whole ({counted(len(whole.files), 'file')} in {whole.place})"
