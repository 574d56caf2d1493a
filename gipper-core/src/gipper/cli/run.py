"""`gipper pod run`: one job on one rented machine, from the job file to the proof."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gipper.cli.options import json_option

if TYPE_CHECKING:
    from gipper.launch import Launch
    from gipper.lifecycle.supervisor import MachineEnd, RunResult
    from gipper.planning_values import Plan

_SHOWN = 8


@click.command("run")
@click.argument("job_file", metavar="JOB.toml", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Ask the markets, rent nothing.")
@click.option("--provider", help="Only this provider.")
@click.option("--gpu", help="Only this GPU.")
@click.option("--throughput", type=click.FloatRange(min=0, min_open=True), help="Units a second.")
@click.option("--log-dir", type=click.Path(path_type=Path), help="Also keep the job's log here.")
@json_option
def run(
    job_file: Path, dry_run: bool, provider: str | None, gpu: str | None, throughput: float | None,
    log_dir: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """Rent, check, upload, run, collect, give back, verify. The job's output goes to stdout."""
    from gipper.cli.console import Console
    from gipper.cli.render import warn
    from gipper.core import Gipper
    from gipper.launch import Choice, Launch

    gipper = Gipper.open(note=lambda text: warn(f"gipper: note: {text}"))
    launch = Launch(
        gipper=gipper, loaded=gipper.load_job(job_file), reporter=Console(),
        choice=Choice(provider=provider, gpu=gpu, throughput=throughput),
    )  # fmt: skip
    if dry_run:
        show_plan(launch.plan(launch.survey().bytes), as_json=as_json)
        return 0
    if as_json:
        raise click.UsageError("--json goes with --dry-run")
    result = _supervised(launch)
    _tell_end(launch, result, log_dir)
    return result.exit_code


def _supervised(launch: Launch) -> RunResult:
    from gipper import run as api
    from gipper.cli.signals import supervised
    from gipper.lifecycle.services import Interrupts

    runtime = launch.gipper.runtime
    interrupts = Interrupts(runtime)
    launch.preflight = lambda *given: api.preflight(*given)
    return supervised(runtime, interrupts, lambda: launch.run(interrupts), lambda: _at_risk(launch))


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


def _tell_end(launch: Launch, result: RunResult, log_dir: Path | None) -> None:
    from gipper.cli.render import tell, warn
    from gipper.launch import log_copy
    from gipper.lifecycle.runfolder import RunFolder

    log = log_copy(RunFolder(launch.gipper.run_folder(result.run)), log_dir, launch.job)
    warn(f"gipper: run {result.run} {result.outcome.value}: {result.reason}")
    if result.hint:
        warn(f"  next: {result.hint}")
    tell(f"outputs: {_outputs(result)}; log: {log}")
    for problem in result.collected.problems:
        warn(f"gipper: not home: {problem}")
    tell(f"phases: {_phases(result)}")
    tell(f"cost: {_cost(result)}")
    for end in result.machines:
        tell(_proof(end))
    if not result.machines:
        tell(_no_machine(result))


def _outputs(result: RunResult) -> str:
    places = ", ".join(str(p) for p in result.collected.places)
    files = f" ({result.collected.files} files, {result.collected.bytes:,} bytes)"
    return places + files if places else "none"


def _phases(result: RunResult) -> str:
    t = result.timings
    named = {
        "ready": t.ready,
        "setup": t.setup,
        "upload": t.upload,
        "command": t.compute,
        "download": t.download,
    }
    return ", ".join(f"{name} {s:.1f} s" for name, s in named.items() if s is not None) or "none began"


def _cost(result: RunResult) -> str:
    spends = [s for end in result.machines for s in end.spends]
    total = sum((s.usd for s in spends), start=type(spends[0].usd)(0)) if spends else 0
    seconds = sum(s.seconds for s in spends)
    return f"${total:.6f} by gipper's own count ({seconds:.0f} s rented); `gipper pod cost` has the rest"


def _proof(end: MachineEnd) -> str:
    if end.proof is None:
        return (
            f"machine {end.pod} ({end.provider}, {end.name}) is NOT proved gone and may still cost money; "
            "type: gipper pod reap"
        )
    first, second = (t.strftime("%H:%M:%S.%f")[:-3] for t in end.proof.listings)
    return f"machine {end.pod} ({end.provider}) gone: not listed at {first} and {second} UTC"


def _no_machine(result: RunResult) -> str:
    if result.doubt is not None:
        return f"machine: unknown; {result.doubt}"
    return "machine: none was rented"


def show_plan(plan: Plan, *, as_json: bool) -> None:
    """Print the best offers of `plan`."""
    from gipper.cli.render import print_table

    best = plan.ranked[:_SHOWN]
    rows = [
        (
            r.offer.provider, r.offer.gpu.name if r.offer.gpu else "-", f"{r.offer.usd_h:.3f}",
            f"{r.estimate.wall_s / 60:.0f}", f"{r.estimate.usd:.3f}", f"{r.estimate.risk_usd:.3f}",
            f"{r.score:.3f}", r.offer.where or "-",
        )
        for r in best
    ]  # fmt: skip
    print_table(
        ("provider", "gpu", "$/h", "min", "$run", "risk", "score", "where"), rows, as_json=as_json,
        title="offers, best first",
        json_rows=[
            {"provider": r.offer.provider, "offer": r.offer.id, "usd_h": r.offer.usd_h, **r.estimate.wire()}
            for r in best
        ],
    )  # fmt: skip
