"""`gipper pod attach`, `stop` and `ssh`: a run that is not, or no longer, this terminal's."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
from typing import TYPE_CHECKING

import click

from gipper.errors import ConfigError
from gipper.outcomes import EXIT_NOT_GONE, EXIT_USAGE, Outcome

if TYPE_CHECKING:
    from gipper.core import Gipper
    from gipper.lifecycle.services import Interrupts
    from gipper.takeover import Takeover


def _opened(run: str) -> Takeover:
    from gipper.cli.console import Console
    from gipper.cli.render import warn
    from gipper.core import Gipper
    from gipper.takeover import Takeover

    gipper = Gipper.open(note=lambda text: warn(f"gipper: note: {text}"))
    return Takeover(gipper, run, Console())


@click.command("attach")
@click.argument("run")
def attach(run: str) -> int:
    """Go on with RUN: follow its job, collect, give the machine back. Exits as `pod run` would.

    Where another process supervises it, only its log is followed.
    """
    from gipper.lifecycle.services import Interrupts

    taken = _opened(run)
    lock = taken.lock()
    if lock is None:
        return _watch(taken)
    try:
        return _go_on(taken, Interrupts(taken.gipper.runtime), "attached")
    finally:
        lock.release()


@click.command("stop")
@click.argument("run")
def stop(run: str) -> int:
    """End RUN's job, collect its outputs, give its machine back. Exits 1 (stopped) when that is done, and
    as the run did where it was already over."""
    from gipper.cli.render import warn
    from gipper.lifecycle.services import Interrupts

    taken = _opened(run)
    lock = taken.lock()
    if lock is None:
        if not taken.signal_owner():
            owner = taken.owner()
            raise ConfigError(
                f"run {run} is held by another process that can't be asked (last known: {owner.pid}, perhaps "
                "of another host or container)",
                hint=f"stop it there, or try `gipper pod stop {run}` again in a minute",
            )
        warn(f"gipper: asked the client of run {run} to stop; waiting for it")
        return _watch(taken, quiet=True)
    try:
        return _go_on(taken, Interrupts(taken.gipper.runtime), "stopped", stop_job=True)
    finally:
        lock.release()


@click.command("ssh")
@click.argument("run")
def ssh(run: str) -> int:
    """Open a shell on RUN's machine with OpenSSH's client. It is recorded: the custody report counts it."""
    from gipper.cli.render import warn
    from gipper.lifecycle.resuming import only_machine
    from gipper.ssh.pins import host_alias
    from gipper.values.receipts import Shell

    taken = _opened(run)
    pod = only_machine(taken.record, taken.book.of_run(run))
    machine = taken.gipper.provider(pod.provider).describe(pod.pods[0])
    if machine is None or not machine.addresses:
        raise ConfigError(f"machine {pod.pods[0]} has no address to log in at", hint="gipper pod ls")
    address = machine.addresses[0]
    user = machine.user or taken.gipper.provider(pod.provider).info.ssh_user
    command = [
        "ssh", "-F", "none", "-i", str(taken.gipper.key_pair.private), "-o", "IdentitiesOnly=yes", "-o",
        f"UserKnownHostsFile={taken.folder.known_hosts}", "-o", f"HostKeyAlias={host_alias(machine.id)}",
        "-p", str(address.port), f"{user}@{address.host}",
    ]  # fmt: skip
    client = shutil.which("ssh")
    if client is None:
        raise ConfigError("OpenSSH's client is not installed", hint=shlex.join(command))
    receipt = Shell(provider=pod.provider, pod=machine.id, by=getpass.getuser())
    taken.gipper.ledger.append(receipt, run=run, refs={"name": pod.job})
    taken.gipper.ledger.close()
    warn(f"gipper: the job's work folder there is {taken.record.folder or f'~/gipper/{run}'}/work")
    os.execv(client, command)  # noqa: S606 - the shell replaces this process, on purpose


def _go_on(taken: Takeover, interrupts: Interrupts, why: str, *, stop_job: bool = False) -> int:
    from gipper.cli.closing import tell_end
    from gipper.cli.render import warn
    from gipper.cli.signals import supervised

    taken.refresh()
    if taken.record.outcome is not None and not any(p.unproved for p in taken.book.of_run(taken.run)):
        warn(f"gipper: run {taken.run} is already over: nothing was done")
        return _ended(taken)
    resumption = taken.resumption(interrupts, why)
    resumption.stop_job = stop_job
    result = supervised(
        taken.gipper.runtime, interrupts, resumption.go_on,
        lambda: f"{resumption.record.name} may still run; gipper pod attach {taken.run}",
    )  # fmt: skip
    tell_end(result, taken.folder.log)
    return result.exit_code


def _watch(taken: Takeover, *, quiet: bool = False) -> int:
    from gipper.cli.logs import show_log
    from gipper.cli.render import warn

    if not quiet:
        warn(f"gipper: run {taken.run} is supervised by another process: following its log only")
        show_log(taken.folder.log, taken.run, follow=True)
    else:
        _wait_for_lock(taken.gipper, taken)
    taken.refresh()
    return _ended(taken)


def _wait_for_lock(gipper: Gipper, taken: Takeover) -> None:
    from gipper.lifecycle.services import Backoff

    backoff = Backoff(most=1.0)
    while (lock := taken.lock()) is None:
        gipper.runtime.sleep(backoff.next())
    lock.release()


def _ended(taken: Takeover) -> int:
    from gipper.cli.closing import shown_log
    from gipper.cli.render import tell, warn

    record = taken.record
    if record.outcome is None:
        warn(f"gipper: run {taken.run} has no end yet; go on with it: gipper pod attach {taken.run}")
        return EXIT_USAGE
    unproved = [p.name for p in taken.book.of_run(taken.run) if p.unproved]
    tell(f"run {taken.run} {record.outcome}; log: {shown_log(taken.folder.log)}")
    if unproved:
        warn(f"gipper: not proved gone: {', '.join(unproved)}; type: gipper pod reap")
        return EXIT_NOT_GONE
    return Outcome(record.outcome).exit_code
