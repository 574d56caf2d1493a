"""One source of a run brought home, incrementally: where it lies, where it goes, what the receipt says."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Final

import attrs

from gipper.errors import GipperError
from gipper.lifecycle.kept import Kept
from gipper.lifecycle.proof import Rental
from gipper.lifecycle.services import Services
from gipper.remote import Fetched, Known, Manifest, Sent
from gipper.values.jobs import Job, Output
from gipper.values.receipts import Sync

_NS: Final = 1_000_000_000


@attrs.frozen(kw_only=True)
class CheckpointPlace:
    """`run.checkpoint` of a job: `source` there, the local folder `place`, seconds between two syncs."""

    source: str
    place: Path
    every_s: float


def destination(job: Job, output: Output) -> Path:
    """Where `output` goes here: `dst` (from the job's folder; "/" at its end = inside), else its name."""
    name = Path(output.src.rstrip("/")).name or "outputs"
    wanted = output.dst or name
    place = (job.folder / Path(wanted).expanduser()).absolute()
    return place / name if wanted.endswith("/") else place


def checkpoint_place(job: Job, every_s: float) -> CheckpointPlace | None:
    """Where the job's checkpoint goes: where its output's `dst` puts it. `every_s` is the settings'."""
    checkpoint = job.run.checkpoint
    if checkpoint is None:
        return None
    source = posixpath.normpath(checkpoint.src)
    for output in job.outputs:
        inside = _inside(source, posixpath.normpath(output.src))
        if inside is not None:
            place = destination(job, output)
            return CheckpointPlace(
                source=source, place=place / inside if inside else place,
                every_s=checkpoint.every_s or every_s,
            )  # fmt: skip
    return None


def there(folder: str, path: str) -> str:
    """`path` of a job on the machine, absolute, given the run's `folder` there (``HOME/gipper/RUN``)."""
    home = posixpath.dirname(posixpath.dirname(folder)).rstrip("/")
    if path == "~" or path.startswith("~/"):
        return posixpath.normpath(home + path[1:])
    return posixpath.normpath(posixpath.join(folder, "work", path))


def asked(folder: str, path: str) -> str:
    """`path` as a fetch from the run's work folder takes it: `~` is the machine's home."""
    return there(folder, path) if path.startswith("~") else path


def bring(
    kept: Kept, source: str, fetch: Callable[[MutableMapping[str, Known]], Fetched]
) -> tuple[Fetched, GipperError | OSError | None]:
    """`fetch` what changed of `source` and keep the list of what came, also where it failed.

    A failure is handed back with what came before it as the `Fetched`.
    """
    known = kept.below(source)
    before = dict(known)
    failure: GipperError | OSError | None = None
    fetched = Fetched(files=(), bytes=0, seconds=0.0)
    try:
        fetched = fetch(known)
    except (GipperError, OSError) as error:
        failure, fetched = error, _came(before, known)
    finally:
        if known != before:
            # The files are home all the same: without the list another process only fetches them again.
            with contextlib.suppress(OSError):
                kept.replace(source, known)
    return fetched, failure


def uploaded(kept: Kept, place: CheckpointPlace, base: str, manifest: Manifest, sent: Sent) -> None:
    """Note what of an earlier checkpoint just went up: as long as the job leaves it, it needn't come back.

    A tar stream carries whole seconds: that is the time that those files have there.
    """
    known, top = kept.below(place.source), place.place.resolve()
    for entry in manifest.entries:
        inside = _inside(posixpath.normpath(posixpath.join(base, entry.path)), place.source)
        at_home = inside is not None and entry.source == top / inside
        if entry.type == "file" and inside and at_home and entry.path not in sent.changed:
            known[inside] = Known(
                size=entry.size, mtime_ns=entry.mtime_ns // _NS * _NS, inode=0, sha256=entry.sha256,
                here_ns=entry.mtime_ns,
            )  # fmt: skip
    with contextlib.suppress(OSError):
        kept.replace(place.source, known)


def _came(before: Mapping[str, Known], known: Mapping[str, Known]) -> Fetched:
    new = {path: one for path, one in known.items() if before.get(path) != one}
    return Fetched(files=listed(new), bytes=sum(one.size for one in new.values()), seconds=0.0)


def listed(files: Mapping[str, Known]) -> tuple[tuple[str, int, str], ...]:
    """(path, size, sha256) of each."""
    return tuple((path, one.size, one.sha256) for path, one in files.items())


def write_sync(services: Services, rental: Rental, what: str, fetched: Fetched, problem: str = "") -> None:
    """The `sync` receipt; a `problem` says what stopped it."""
    problems = (problem,) if problem else ()
    services.ledger.append_or_spill(
        Sync(
            provider=rental.provider.name, pod=rental.pod, what=what, bytes=fetched.bytes,
            seconds=fetched.seconds, whole=fetched.whole and not problem, files=fetched.files,
            missing=(*fetched.missing, *fetched.refused, *fetched.changed, *problems),
        ),
        run=rental.run, refs=rental.refs,
    )  # fmt: skip


def told(services: Services, error: GipperError | OSError) -> str:
    """One line for a person."""
    text = error.message if isinstance(error, GipperError) else f"{error.strerror}: {error.filename}"
    return services.redact(text)


def _inside(path: str, whole: str) -> str | None:
    if path == whole:
        return ""
    if whole == ".":
        return None if path.startswith(("/", "~")) else path
    return path[len(whole) + 1 :] if path.startswith(whole + "/") else None
