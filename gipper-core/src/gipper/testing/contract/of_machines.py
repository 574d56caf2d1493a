"""Sentences about machines: reading one, listing all, ending one, what guards it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from decimal import Decimal
from typing import Final

from gipper.errors import GipperError
from gipper.testing.contract.sentence import Broken, Check
from gipper.testing.contract.stage import Stage, holds, needs
from gipper.values.machines import Machine, MachineState, Port

_MOST_MACHINES: Final = 60


def _told(stage: Stage) -> None:
    machine = stage.rented()
    found = stage.until(lambda: stage.described(machine.id), 60.0, "describe knows it")
    holds((found.id, found.name) == (machine.id, machine.name), f"it is told as {found.id} {found.name!r}")
    holds(
        found.usd_h is None or (isinstance(found.usd_h, Decimal) and found.usd_h >= 0),
        "its price is no price",
    )
    holds(found.created is None or found.created.tzinfo is not None, "its creation has no time zone")


def _unknown(stage: Stage) -> None:
    found = stage.described(stage.bench.unknown_id)
    holds(found is None, f"a machine was returned: {found}")


def _describe_fails(stage: Stage) -> None:
    machine = stage.rented()
    stage.arrange("describe_fails")
    stage.must_fail(lambda: stage.provider.describe(machine.id))


def _describe_refused(stage: Stage) -> None:
    needs(bool(stage.info.key_names), "the provider needs no key")
    machine = stage.rented()
    stage.arrange("key_refused")
    stage.must_fail(lambda: stage.provider.describe(machine.id))


def _reachable(stage: Stage) -> None:
    found = stage.ready(stage.rented())
    odd = [
        a for a in found.addresses if not a.host.strip() or a.host != a.host.strip() or not 0 < a.port < 65536
    ]
    holds(not odd, f"addresses that nobody can dial: {odd}")


def _tcp(stage: Stage) -> None:
    needs(stage.info.tcp, "the market maps no TCP ports")
    _mapped(stage, Port(inside=8000, protocol="tcp"))


def _udp(stage: Stage) -> None:
    needs(stage.info.udp, "the market maps no UDP ports")
    _mapped(stage, Port(inside=5004, protocol="udp"))


def _mapped(stage: Stage, port: Port) -> None:
    found = stage.ready(stage.rented(ports=(port,)))
    ours = [p for p in found.ports if (p.inside, p.protocol) == (port.inside, port.protocol)]
    holds(bool(ours and ours[0].outside and ours[0].host), f"ports are told as {found.ports}")


def _all_pages(stage: Stage) -> None:
    count = stage.bench.page + 1
    needs(count <= _MOST_MACHINES, f"a page holds {stage.bench.page} machines")
    machines = [stage.rented() for _ in range(count)]
    for machine in machines:
        stage.appeared(machine)
    missing = {m.id for m in machines} - {m.id for m in stage.listed()}
    holds(not missing, f"{len(missing)} of {count} machines are missing")


def _no_half_list(stage: Stage) -> None:
    needs(stage.bench.page + 1 <= _MOST_MACHINES, f"a page holds {stage.bench.page} machines")
    for _ in range(stage.bench.page + 1):
        stage.rented()
    stage.arrange("list_later_page_fails")
    stage.must_fail(stage.listed)


def _list_fails(stage: Stage) -> None:
    stage.rented()
    stage.arrange("list_fails")
    stage.must_fail(stage.listed)


def _list_refused(stage: Stage) -> None:
    needs(bool(stage.info.key_names), "the provider needs no key")
    stage.arrange("key_refused")
    stage.must_fail(stage.listed)


def _nothing_listed(stage: Stage) -> None:
    holds(not stage.listed().items, "machines are listed although none was rented")


def _stopped_is_listed(stage: Stage) -> None:
    machine = stage.rented()
    stage.appeared(machine)
    stage.arrange("machine_stops")
    found = next((m for m in stage.listed() if m.id == machine.id), None)
    holds(found is not None, "it is not in the list")
    holds(found is not None and found.state is not MachineState.GONE, "it is told as gone")


def _ends(stage: Stage) -> None:
    machine = stage.rented()
    stage.appeared(machine)
    stage.provider.terminate(machine.id)
    _gone(stage, machine)
    holds(not stage.bench.alive(), "the market still has it")


def _gone(stage: Stage, machine: Machine) -> None:
    def absent() -> bool:
        found = stage.described(machine.id)
        listed = any(m.id == machine.id and m.state is not MachineState.GONE for m in stage.listed())
        return (found is None or found.state is MachineState.GONE) and not listed

    patience = stage.info.gone_patience_s
    stage.until(absent, patience, "describe and list say that it is gone")


def _ends_slowly(stage: Stage) -> None:
    machine = stage.rented()
    stage.appeared(machine)
    stage.arrange("end_slow")
    stage.provider.terminate(machine.id)
    _gone(stage, machine)


def _ends_again(stage: Stage) -> None:
    machine = stage.rented()
    for _ in range(2):
        _quiet(lambda: stage.provider.terminate(machine.id))
    stage.bench.stop_of(machine)


def _ends_unknown(stage: Stage) -> None:
    _quiet(lambda: stage.provider.terminate(stage.bench.unknown_id))


def _ends_vanished(stage: Stage) -> None:
    machine = stage.rented()
    stage.appeared(machine)
    stage.arrange("machine_vanishes")
    _quiet(lambda: stage.provider.terminate(machine.id))
    _gone(stage, machine)


def _ends_one(stage: Stage) -> None:
    first, second = stage.rented(), stage.rented()
    stage.provider.terminate(first.id)
    stage.until(lambda: first.name not in stage.bench.alive(), 60.0, "the market ends it")
    holds(second.name in stage.bench.alive(), "another machine was ended, too")


def _end_fails(stage: Stage) -> None:
    machine = stage.rented()
    stage.arrange("end_fails")
    stage.must_fail(lambda: stage.provider.terminate(machine.id))


def _lets_in_again(stage: Stage) -> None:
    machine = stage.rented()
    for _ in range(2):
        _quiet(lambda: stage.provider.authorize(machine, stage.bench.public_key()))


def _watchdog(stage: Stage) -> None:
    watchdog = stage.provider.watchdog(stage.rented())
    needs(watchdog is not None, "this machine has no watchdog")
    assert watchdog is not None
    done = subprocess.run(["sh", "-n", "-c", watchdog.command], capture_output=True, text=True, check=False)
    holds(done.returncode == 0, f"a shell can't read the command: {done.stderr.strip()}")
    holds(all(name.isidentifier() for name in watchdog.reads), f"it reads {watchdog.reads}")
    key = stage.bench.key
    holds(key is None or key not in watchdog.command, "the account's key stands in it")


def _quiet(ask: Callable[[], object]) -> None:
    try:
        ask()
    except GipperError as error:
        raise Broken(f"it raised {type(error).__name__}: {error.message}") from error


CHECKS = (
    Check("look-1", "A machine is told under its own id and name, with a price that is one.", _told),
    Check("look-2", "An id that the market doesn't know is None.", _unknown),
    Check("look-3", "A market that fails is an error, never a machine that is gone.", _describe_fails),
    Check("look-4", "A key that is refused is an error, never a machine that is gone.", _describe_refused),
    Check("look-5", "A machine that runs shows addresses that can be dialled.", _reachable),
    Check("ports-1", "A TCP port that was asked for is told with its outside.", _tcp),
    Check("ports-2", "A UDP port that was asked for is told with its outside.", _udp),
    Check("list-1", "The list holds every machine, over all its pages.", _all_pages),
    Check("list-2", "A list of which a page is missing is an error.", _no_half_list),
    Check("list-3", "A list that fails is an error, never an empty one.", _list_fails),
    Check("list-4", "A key that is refused is an error, never an empty list.", _list_refused),
    Check("list-5", "An account without machines has an empty list.", _nothing_listed),
    Check("list-6", "A machine that stopped is listed: it may still bill.", _stopped_is_listed),
    Check("end-1", "A machine that was ended is gone: from the market, its reading and its list.", _ends),
    Check("end-2", "A machine that lingers in the list after its end is gone in the end.", _ends_slowly),
    Check("end-3", "Ending a machine twice is no error.", _ends_again),
    Check("end-4", "Ending a machine that the market doesn't know is no error.", _ends_unknown),
    Check("end-5", "Ending a machine that went away by itself is no error.", _ends_vanished),
    Check("end-6", "Ending a machine ends no other.", _ends_one),
    Check("end-7", "A machine that could not be ended is an error.", _end_fails),
    Check("key-1", "Letting a key in twice is no error.", _lets_in_again, "gipper_authorize"),
    Check(
        "watchdog-1",
        "The watchdog is a command for a shell, without the account's key.",
        _watchdog,
        "gipper_watchdog",
    ),
)
