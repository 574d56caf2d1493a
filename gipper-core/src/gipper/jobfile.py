"""A job file into a checked `Job`: all of its mistakes in one report, before anything is rented."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from gipper.jobfile_mapping import for_receipt, from_mapping, to_mapping
from gipper.jobfile_rules import job_checks, normalised, whole_job
from gipper.strict import collect, report
from gipper.strict_mistakes import Mistake
from gipper.strict_options import provider_tables
from gipper.strict_toml import read_toml
from gipper.values.jobs import Checkpoint, Job
from gipper.values.settings import Settings

__all__ = ["LoadedJob", "for_receipt", "from_mapping", "load", "resolved", "to_mapping"]

KeyFinder = Callable[[str], str | None]


@attrs.frozen(kw_only=True)
class LoadedJob:
    """A checked and resolved job. `options` are the `[provider.NAME]` tables of the file as the classes
    that their plugins declare (no entry where the file has no table); `notes` are one line each."""

    job: Job
    notes: tuple[str, ...] = ()
    options: Mapping[str, object] = attrs.field(factory=dict)


def load(
    path: Path,
    *,
    settings: Settings,
    option_tables: Mapping[str, type | None],
    key_names: Collection[str] = (),
    contains_key: KeyFinder | None = None,
) -> LoadedJob:
    """The job in the file `path`, what it leaves open filled from `settings`.

    `option_tables` maps every installed provider to the class of its `[provider.NAME]` table (None: it
    takes no options). `key_names` are the names of providers' keys, refused in pod.env and pod.secrets;
    `contains_key` names the key whose value stands in a text, refused anywhere in the file.
    Raises ConfigError where the file can't be read, ProblemsError with all mistakes in it.
    """
    data = read_toml(path, "job file")
    folder = path.absolute().parent
    found = collect(Job, data, given={"folder": folder}, checks=job_checks(key_names))
    tables = provider_tables(data, option_tables, "options")
    whole = () if found.mistakes else whole_job(found.value)
    mistakes = [*found.mistakes, *tables.mistakes, *whole]
    report(str(path), _without_keys(data, mistakes, contains_key))
    job = resolved(normalised(found.value), settings)
    notes = (*tables.notes, *_unknown_providers(job, option_tables))
    return LoadedJob(job=job, notes=notes, options=tables.options)


def resolved(job: Job, settings: Settings) -> Job:
    """`job` with what it leaves open taken from `settings`; doing it twice changes nothing."""
    gpu = attrs.evolve(
        job.gpu,
        cloud=_or(job.gpu.cloud, settings.cloud),
        regions=_or(job.gpu.regions, settings.regions),
        cuda_versions=_or(job.gpu.cuda_versions, settings.cuda_versions),
    )
    budget = attrs.evolve(
        job.budget,
        max_usd=_or(job.budget.max_usd, settings.default_job_cap_usd),
        max_hours=_or(job.budget.max_hours, settings.default_max_hours),
    )
    pod = attrs.evolve(job.pod, disk_gb=_or(job.pod.disk_gb, settings.container_disk_gb))
    run = attrs.evolve(job.run, checkpoint=_checkpoint(job.run.checkpoint, settings))
    return attrs.evolve(job, gpu=gpu, budget=budget, pod=pod, run=run)


def _checkpoint(checkpoint: Checkpoint | None, settings: Settings) -> Checkpoint | None:
    if checkpoint is None:
        return None
    return attrs.evolve(checkpoint, every_s=_or(checkpoint.every_s, settings.checkpoint_every_s))


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _unknown_providers(job: Job, installed: Mapping[str, type | None]) -> Iterator[str]:
    for name in job.gpu.providers or ():
        if installed and name not in installed:
            yield f"gpu.providers: no usable plugin for {name} is installed here"


def _without_keys(
    data: Mapping[str, Any], mistakes: list[Mistake], contains_key: KeyFinder | None
) -> list[Mistake]:
    """With a mistake for each text that holds a key, and without any other one that could show it."""
    if contains_key is None:
        return mistakes
    hits = list(_key_hits(data, (), contains_key))
    places = [h.path for h in hits]
    return [*(m for m in mistakes if not any(m.path[: len(p)] == p for p in places)), *hits]


def _key_hits(value: Any, path: tuple[str | int, ...], contains_key: KeyFinder) -> Iterator[Mistake]:
    if isinstance(value, str) and (name := contains_key(value)):
        text = f"holds the value of {name}: a provider's key never goes to a rented machine"
        yield Mistake(path=path, text=text)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if name := contains_key(key):
                yield Mistake(path=path, text=f"a key in this table holds the value of {name}")
            else:
                yield from _key_hits(inner, (*path, key), contains_key)
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from _key_hits(inner, (*path, position), contains_key)
