"""`gipper pod run`: one job on one rented machine, from the job file to the proof."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gipper.cli.options import hooks_option, json_option
from gipper.errors import ConfigError, GipperError, NotProvedGone
from gipper.outcomes import EXIT_NOT_GONE

if TYPE_CHECKING:
    from gipper.core import Gipper
    from gipper.launch import Launch
    from gipper.lifecycle.results import RunResult
    from gipper.lifecycle.runfolder import RunFolder
    from gipper.planning_values import Plan

_SHOWN = 8


@click.command("run")
@click.argument("job_file", metavar="JOB.toml", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Ask the markets, rent nothing.")
@click.option("--provider", help="Only this provider.")
@click.option("--gpu", help="Only this GPU.")
@click.option("--throughput", type=click.FloatRange(min=0, min_open=True), help="Units a second.")
@click.option("--log-dir", type=click.Path(path_type=Path), help="Also keep the job's log here.")
@click.option("--detach", is_flag=True, help="Leave once the job runs (needs the reap timer).")
@click.option("--unattended", is_flag=True, help="With --detach: leave although no reap timer is installed.")
@hooks_option
@json_option
def run(
    job_file: Path, dry_run: bool, provider: str | None, gpu: str | None, throughput: float | None,
    log_dir: Path | None, detach: bool, unattended: bool, allow_hooks: bool, as_json: bool,
) -> int:  # fmt: skip
    """Rent, check, upload, run, collect, give back, verify. The job's output goes to stdout."""
    from gipper.cli.closing import tell_end
    from gipper.cli.console import Console
    from gipper.cli.render import warn
    from gipper.core import Gipper
    from gipper.launch import Choice, Launch
    from gipper.lifecycle.runfolder import RunFolder

    gipper = Gipper.open(note=lambda text: warn(f"gipper: note: {text}"))
    launch = Launch(
        gipper=gipper, loaded=gipper.load_job(job_file), reporter=Console(),
        choice=Choice(provider=provider, gpu=gpu, throughput=throughput), allow_hooks=allow_hooks,
    )  # fmt: skip
    if dry_run:
        show_plan(launch.plan(launch.survey().bytes), as_json=as_json)
        return 0
    if as_json:
        raise click.UsageError("--json goes with --dry-run")
    launch.leave = _may_leave(gipper, detach=detach, unattended=unattended)
    result = _supervised(launch)
    log = _kept_log(RunFolder(gipper.run_folder(result.run)), log_dir)
    if result.left is not None:
        _tell_left(result)
    else:
        tell_end(result, log)
    return EXIT_NOT_GONE if _looked_again(gipper) else result.exit_code


def _kept_log(folder: RunFolder, log_dir: Path | None) -> Path:
    """The log's place for the user; a copy that can't be made must not hide how the run ended."""
    from gipper.cli.render import warn
    from gipper.launch import log_copy

    try:
        return log_copy(folder, log_dir)
    except OSError as error:
        warn(f"gipper: note: the log could not be copied to {log_dir}: {error.strerror}")
        return folder.log


def _looked_again(gipper: Gipper) -> bool:
    """True where a machine that was proved gone is back; looked for only where that is due."""
    from gipper.cli.console import Console
    from gipper.cli.machines import askable
    from gipper.cli.render import warn
    from gipper.takeover import reaper

    try:
        seen = reaper(gipper, askable(gipper), Console(), dry_run=False, end_unknown=False).look_again()
    except GipperError as error:
        warn(
            f"gipper: note: earlier machines were not looked at again: {gipper.redactor.text(error.message)}"
        )
        return False
    for line in seen.lines:
        warn(f"gipper: {line.verb} {line.provider} {line.pod} {line.name}: {line.why}")
    return bool(seen.unproved)


def _supervised(launch: Launch) -> RunResult:
    from gipper import run as api
    from gipper.cli.signals import supervised
    from gipper.lifecycle.services import Interrupts

    runtime = launch.gipper.runtime
    interrupts = Interrupts(runtime)
    launch.preflight = lambda *given: api.preflight(*given)
    try:
        return supervised(runtime, interrupts, lambda: launch.run(interrupts), lambda: _at_risk(launch))
    except GipperError:
        raise
    except Exception as error:
        # A fault of gipper's own must not hide that a machine may still cost money: raised on either way.
        risk = _at_risk(launch)
        if risk is None:
            raise
        raise NotProvedGone(
            f"a fault of gipper ended the run ({type(error).__name__}: {error}), and {risk}",
            hint="gipper pod reap; then report this with --debug",
        ) from error


def _may_leave(gipper: Gipper, *, detach: bool, unattended: bool) -> bool:
    if not detach:
        if unattended:
            raise click.UsageError("--unattended goes with --detach")
        return False
    from gipper.reaptimer import installed

    if not unattended and not installed(gipper.env):
        raise ConfigError(
            "--detach needs somebody who ends the machine later: no reap timer is installed",
            hint="gipper pod reap-timer install, or add --unattended and come back yourself",
        )
    return True


def _tell_left(result: RunResult) -> None:
    from gipper.cli.render import tell

    tell(f"run {result.run} goes on without this client: {result.left}")
    tell("outputs must be fetched by then; what is not fetched is lost")
    tell(f"come back: gipper pod attach {result.run}")
    tell(f"stop it:   gipper pod stop {result.run}")


def _at_risk(launch: Launch) -> str | None:
    running = launch.running
    if running is None or (running.alive is None and running.renting is None):
        return None
    if running.alive is None:
        which = f"a machine named {running.renting} may exist"
    else:
        alive = running.alive
        which = (
            f"{alive.provider.name} machine {alive.pod} ({alive.name}) may still cost ${alive.usd_h:.3f}/h"
        )
    return f"{which}; end it with: gipper pod reap (or in the market's own console)"


def show_plan(plan: Plan, *, as_json: bool) -> None:
    """Print the best offers of `plan`."""
    from gipper.cli.offers_table import show_offers

    show_offers(plan.ranked[:_SHOWN], title="offers, best first", as_json=as_json)
