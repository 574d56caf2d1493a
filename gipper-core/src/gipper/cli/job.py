"""`gipper job`: check a job file, print the schema of job files, begin a new one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from gipper.cli.lazy import LazyGroup
from gipper.cli.options import hooks_option, json_option
from gipper.errors import ConfigError, ProblemsError
from gipper.outcomes import EXIT_OK, EXIT_USAGE

if TYPE_CHECKING:
    from gipper.core import Gipper
    from gipper.strict_mistakes import Mistake
    from gipper.values.jobs import Job

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


@click.group(cls=LazyGroup)
def job() -> None:
    """Check a job file; the schema of job files; a new one."""


@job.command()
@click.argument("file", type=click.Path(path_type=Path))
@hooks_option
@json_option
def check(file: Path, allow_hooks: bool, as_json: bool) -> int:
    """Say every mistake in FILE; 2 where there is one. Nothing is rented, no market is asked."""
    from gipper.cli.render import print_json, say

    notes: list[str] = []
    try:
        checked = _checked(file, notes, allow_hooks=allow_hooks)
    except ConfigError as error:
        if not as_json:
            raise
        problems = error.problems if isinstance(error, ProblemsError) else (error.message,)
        print_json({"file": str(file), "ok": False, "problems": list(problems), "notes": notes})
        return EXIT_USAGE
    if as_json:
        print_json({"file": str(file), "ok": True, "name": checked.name, "notes": notes})
        return EXIT_OK
    say(f"{file}: ok")
    for note in notes:
        say(f"note: {note}")
    return EXIT_OK


@job.command()
def schema() -> None:
    """Print the JSON schema of job files, with the tables of the installed providers."""
    from gipper.cli.render import print_json
    from gipper.schema import job_schema

    print_json(job_schema(_tables()))


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


def _tables() -> Mapping[str, type | None]:
    """The job tables of the installed providers; a plugin that fails to load is told on stderr."""
    from gipper.cli.render import warn
    from gipper.core import Gipper
    from gipper.errors import PluginError

    registry = Gipper.open().registry
    tables = dict[str, type | None]()
    for name in registry.provider_names():
        try:
            tables[name] = registry.load_provider(name).info.job_table
        except PluginError as error:
            warn(f"left out of the schema: {error.message}")
    return tables


def _checked(file: Path, notes: list[str], *, allow_hooks: bool) -> Job:
    """The job, and in its place what `run` would refuse. Raises ConfigError."""
    from gipper.core import Gipper
    from gipper.jobhooks import examine
    from gipper.strict import report

    gipper = Gipper.open(note=notes.append)
    job = gipper.load_job(file).job
    _hooks, faults = examine(
        job, gipper.paths.data_folder, allow=allow_hooks, redact=gipper.redactor.text
    )  # fmt: skip
    report(
        str(file), [*faults, *_missing_inputs(job), *_missing_secrets(gipper, job)],
        hint="make them, or mend the file; then check again",
    )  # fmt: skip
    return job


def _missing_inputs(job: Job) -> Iterator[Mistake]:
    from gipper.jobfile_mapping import absolute
    from gipper.strict_mistakes import Mistake

    for n, given in enumerate(absolute(job).inputs):
        if not Path(given.src).exists():
            yield Mistake(path=("inputs", n, "src"), text=f"{given.src} is not there")


def _missing_secrets(gipper: Gipper, job: Job) -> Iterator[Mistake]:
    from gipper.strict_mistakes import Mistake

    for n, name in enumerate(job.pod.secrets):
        if gipper.keys.get(name) is None:
            yield Mistake(
                path=("pod", "secrets", n), text=f"{name} is not set in the environment or in a dotenv"
            )
