"""`gipper job`: check a job file, print the schema of job files, begin a new one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from gipper.cli.options import json_option
from gipper.errors import ConfigError

if TYPE_CHECKING:
    from gipper.plugins.registry import Registry
    from gipper.values.jobs import Job
    from gipper.values.settings import Settings

STARTER: Final = '''\
# A gipper job. Relative paths start at this file's folder here, at the work folder on the machine.
#   gipper job check THIS_FILE      is it right?
#   gipper pod estimate THIS_FILE   what would it take and cost?
#   gipper pod run THIS_FILE        rent, run, bring the results home, give the machine back

name = "my-job"

[gpu]
min_mem_gb = 16                    # of each GPU, as sold
# count = 1
# prefer = ["RTX 4090", "L40S"]    # these first, in this order
# regions = ["US", "CA"]           # anywhere if left out
# max_usd_per_h = 0.80

[pod]
# image = "nvidia/cuda:12.8.1-devel-ubuntu24.04"
# disk_gb = 40
# env = { EPOCHS = "3" }           # plain variables
# secrets = ["HF_TOKEN"]           # names alone: the values come from this machine's environment

# [[inputs]]
# src = "data"
# dst = "data"
# exclude = ["*.tmp", "/cache/"]   # gitignore patterns

[[outputs]]
src = "results"
dst = "results"

[run]
# setup = "uv pip install --system -r requirements.txt"
command = """
mkdir -p results
nvidia-smi > results/gpu.txt
"""

[budget]
max_usd = 2.00                     # the whole run
max_hours = 1                      # the command alone

[placement]
# compute_s = 1800                 # what you know makes the choice better
'''


@click.group()
def job() -> None:
    """Check a job file; the schema of job files; a new one."""


@job.command()
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def check(file: Path, as_json: bool) -> None:
    """Say every mistake in FILE. Nothing is rented, no market is asked."""
    from gipper import jobfile
    from gipper.cli.render import print_json, say
    from gipper.redact_scan import key_finder

    installed = _installed()
    loaded = jobfile.load(
        file,
        settings=installed.settings,
        option_tables=installed.tables,
        key_names=installed.key_names,
        contains_key=key_finder(installed.key_values),
    )
    notes = [*installed.notes, *loaded.notes, *_missing_inputs(loaded.job)]
    if as_json:
        print_json({"file": str(file), "ok": True, "name": loaded.job.name, "notes": notes})
        return
    say(f"{file}: ok")
    for note in notes:
        say(f"note: {note}")


@job.command()
def schema() -> None:
    """Print the JSON schema of job files, with the tables of the installed providers."""
    from gipper.cli.render import print_json
    from gipper.schema import job_schema

    print_json(job_schema(_installed().tables))


@job.command()
@click.argument("file", type=click.Path(path_type=Path))
def new(file: Path) -> None:
    """Write a commented job file to FILE, which must not exist yet."""
    from gipper.cli.render import say

    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(STARTER)
    except FileExistsError:
        raise ConfigError(f"{file} is already there", hint="name another file, or remove that one") from None
    except OSError as error:
        raise ConfigError(f"{file} can't be written: {error.strerror}", hint="name another place") from error
    say(f"{file}: written; next: gipper job check {file}")


class _Installed(NamedTuple):
    settings: Settings
    tables: Mapping[str, type | None]
    key_names: frozenset[str]
    key_values: Mapping[str, str]
    notes: tuple[str, ...]


def _installed() -> _Installed:
    """Settings, and what the installed plugins declare; a plugin that fails to load is a note."""
    from gipper import settings
    from gipper.keys import Keys
    from gipper.paths import Paths
    from gipper.plugins.discover import disabled_names
    from gipper.plugins.registry import Registry

    paths = Paths.from_env(os.environ)
    loaded = settings.load(paths.config_file, tables={}).settings
    registry = Registry.discover(prefer=loaded.plugins.prefer, disabled=disabled_names(os.environ))
    tables, names, notes = _declared(registry)
    keys = Keys.from_env(os.environ, paths, editable_checkout=None)
    return _Installed(loaded, tables, names, keys.values_of(sorted(names)), notes)


def _declared(registry: Registry) -> tuple[Mapping[str, type | None], frozenset[str], tuple[str, ...]]:
    from gipper.errors import PluginError

    tables, names, notes = dict[str, type | None](), set[str](), list[str]()
    for name in registry.provider_names():
        try:
            info = registry.load_provider(name).info
        except PluginError as error:
            notes.append(error.message)
            continue
        tables[name] = info.job_table
        names.update(info.key_names)
    return tables, frozenset(names), tuple(notes)


def _missing_inputs(job: Job) -> list[str]:
    from gipper.jobfile_mapping import absolute

    sources = [Path(i.src) for i in absolute(job).inputs]
    return [f"inputs[{n}].src: {src} is not there" for n, src in enumerate(sources) if not src.exists()]
