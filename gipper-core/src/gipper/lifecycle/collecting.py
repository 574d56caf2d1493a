"""Bringing outputs home, whatever became of the job."""

from __future__ import annotations

from pathlib import Path

import attrs

from gipper.errors import GipperError, TransferError
from gipper.lifecycle.link import HostLost, Link
from gipper.lifecycle.services import Interrupts, Services
from gipper.remote import Fetched
from gipper.values.jobs import Job, Output
from gipper.values.receipts import Sync


@attrs.frozen(kw_only=True)
class Collected:
    """What came home: bytes, the local places, and one line for each thing that could not."""

    bytes: int = 0
    files: int = 0
    seconds: float = 0.0
    places: tuple[Path, ...] = ()
    problems: tuple[str, ...] = ()


def destination(job: Job, output: Output) -> Path:
    """Where `output` goes here: `dst` (from the job's folder; "/" at its end = inside), else its name."""
    name = Path(output.src.rstrip("/")).name or "outputs"
    wanted = output.dst or name
    place = (job.folder / Path(wanted).expanduser()).absolute()
    return place / name if wanted.endswith("/") else place


def collect(
    services: Services, link: Link, job: Job, folder: str, until: float, interrupts: Interrupts
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
        total = _one(services, link, job, output, folder, until, interrupts, total)
    return attrs.evolve(total, seconds=services.runtime.monotonic() - begun)


def _one(
    services: Services, link: Link, job: Job, output: Output, folder: str, until: float,
    interrupts: Interrupts, total: Collected,
) -> Collected:  # fmt: skip
    place = destination(job, output)
    base = folder + "/work"
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        fetched = link.call(
            lambda r: r.fetch(base, output.src, place, stop=interrupts.twice),
            until=until,
            stop=interrupts.twice,
        )
    except (GipperError, OSError) as error:
        return _failed(services, link, output, total, error)
    _write(services, link, output.src, fetched)
    problems = tuple(f"{output.src}: {p}" for p in (*fetched.missing, *fetched.refused, *fetched.changed))
    return attrs.evolve(
        total,
        bytes=total.bytes + fetched.bytes,
        files=total.files + len(fetched.files),
        places=(*total.places, place),
        problems=total.problems + problems,
    )


def _failed(
    services: Services, link: Link, output: Output, total: Collected, error: GipperError | OSError
) -> Collected:
    text = error.message if isinstance(error, GipperError) else f"{error.strerror}: {error.filename}"
    problem = f"{output.src}: {services.redact(text)}"
    if not isinstance(error, HostLost):
        _write(services, link, output.src, Fetched(files=(), bytes=0, seconds=0.0, missing=(problem,)))
    kind = (
        "could not be saved here" if isinstance(error, (OSError, TransferError)) else "could not be fetched"
    )
    services.reporter.warn(f"output {kind}: {problem}")
    return attrs.evolve(total, problems=(*total.problems, problem))


def _write(services: Services, link: Link, what: str, fetched: Fetched) -> None:
    rental = link.rental
    services.ledger.append_or_spill(
        Sync(
            provider=rental.provider.name, pod=rental.pod, what=what, bytes=fetched.bytes,
            seconds=fetched.seconds, whole=fetched.whole, files=fetched.files,
            missing=(*fetched.missing, *fetched.refused, *fetched.changed),
        ),
        run=rental.run, refs=rental.refs,
    )  # fmt: skip
