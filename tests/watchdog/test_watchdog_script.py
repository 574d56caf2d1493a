"""The watchdog's script in real shells: its time, its one instance, its secrets, its end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support_sshd import wait_until
from watchdog.watchdog_machine import QUICK, SHELLS, Machine

from gipper.api import ProviderError, boot_watchdog
from gipper.values.bills import Watchdog
from gipper.watchdog import armed, client_watchdog

NOTHING = Watchdog(command="true")
SECRET = "s3cr3t-value-of-this-machine"


@pytest.fixture
def new_machine(tmp_path: Path) -> Iterator[Callable[..., Machine]]:
    made: list[Machine] = []

    def new(**options: object) -> Machine:
        made.append(Machine(tmp_path / f"m{len(made)}", **options))  # type: ignore[arg-type]
        return made[-1]

    yield new
    for machine in made:
        machine.power_off()


@pytest.fixture(params=SHELLS[:2])
def machine(request: pytest.FixtureRequest, new_machine: Callable[..., Machine]) -> Machine:
    return new_machine(shell=request.param)


@pytest.mark.parametrize("shell", SHELLS)
def test_it_fires_when_its_time_is_over_and_not_before(
    new_machine: Callable[..., Machine], shell: str
) -> None:
    """On the real clock: the command runs once the seconds are over, by the machine's own uptime."""
    machine = new_machine(shell=shell, clock=False)
    begun = _uptime()
    machine.arm(Watchdog(command="cat /proc/uptime >fired"), 2)
    wait_until((machine.folder / "fired").exists, what="it fires")
    wait_until(lambda: bool((machine.folder / "fired").read_text()), what="the command wrote")
    assert float((machine.folder / "fired").read_text().split()[0]) >= begun + 1


def test_the_command_is_run_again_until_the_machine_is_gone(machine: Machine) -> None:
    """A command that fails is tried again; one that succeeded too, for as long as there is a machine."""
    machine.arm(Watchdog(command="echo x >>tries; [ $(wc -l <tries) = 2 ]"), 0)
    tries = machine.folder / "tries"
    wait_until(lambda: tries.exists() and tries.read_text().count("x") >= 4, what="four tries")


def test_a_restart_goes_on_with_what_is_left(machine: Machine) -> None:
    """Everything ends, the machine boots, its start-up script runs again: the time goes on, and fires."""
    ends = Watchdog(command="touch fired")
    machine.boot(ends, 1000)
    machine.set_clock(400)
    wait_until(lambda: machine.left() == 700, what="the time left is on the disk")
    machine.power_off()
    machine.set_clock(5, "boot-2")
    machine.boot(ends, 1000)
    assert machine.left() == 700
    assert len(machine.instances()) == 1
    machine.set_clock(704)
    wait_until(lambda: machine.left() == 1, what="one second is left")
    assert not (machine.folder / "fired").exists()
    machine.set_clock(705)
    wait_until((machine.folder / "fired").exists, what="it fires")


@pytest.mark.parametrize(("uptime", "left"), [(500, 600), (5, 700), (4000, 0)])
def test_a_restart_of_the_container_alone_counts_the_time_between(
    machine: Machine, uptime: int, left: int
) -> None:
    """Same boot: the time went on meanwhile; a clock that began anew makes it no longer."""
    machine.boot(NOTHING, 1000)
    machine.set_clock(400)
    wait_until(lambda: machine.left() == 700, what="the time left is on the disk")
    machine.power_off()
    machine.set_clock(uptime)
    machine.boot(NOTHING, 1000)
    assert machine.left() == left


def test_a_restart_after_its_time_ends_the_machine_at_once(machine: Machine) -> None:
    """Its time was over, the machine came back: there is no second life."""
    machine.boot(Watchdog(command="echo x >>fired"), 0)
    wait_until((machine.folder / "fired").exists, what="it fires")
    machine.power_off()
    (machine.folder / "fired").unlink()
    machine.set_clock(1, "boot-2")
    machine.boot(Watchdog(command="echo x >>fired"), 1000)
    wait_until((machine.folder / "fired").exists, what="it fires again")


def test_many_starts_at_once_leave_one(machine: Machine) -> None:
    """Start-up script and client at the same moment, several times over: one instance, the shortest time."""
    texts = [boot_watchdog(NOTHING, 1000 + i, name="m1", pace=QUICK) for i in range(3)]
    texts += [client_watchdog(NOTHING, 300 + i, name="m1", pace=QUICK) for i in range(3)]
    running = [machine.popen(text) for text in texts]
    for process in running:
        assert process.wait(timeout=60) == 0, process.communicate()
        process.communicate()
    wait_until(lambda: len(machine.instances()) == 1, what="one is left")
    assert machine.left() == 300


def test_the_exact_rest_takes_the_place_of_the_boots_count(machine: Machine) -> None:
    """The client's exact rest wins over the start-up script's longer one; nothing makes it longer again."""
    machine.boot(NOTHING, 1000)
    first = machine.instances()
    assert armed(machine.arm(NOTHING, 300)).left_s == 300
    assert len(machine.instances()) == 1
    assert machine.instances() != first
    assert armed(machine.arm(NOTHING, 5000)).left_s == 300
    machine.boot(NOTHING, 1000)
    assert (machine.left(), len(machine.instances())) == (300, 1)
    machine.power_off()
    machine.set_clock(7, "boot-2")
    machine.boot(NOTHING, 1000)
    assert (machine.left(), len(machine.instances())) == (300, 1)


def test_a_disk_that_another_machine_left_counts_for_nothing(machine: Machine) -> None:
    """A home on a volume that was another machine's: its time is not this one's."""
    machine.boot(NOTHING, 50, name="m1")
    machine.power_off()
    machine.set_clock(3, "boot-of-another-host")
    machine.boot(NOTHING, 1000, name="m2")
    assert machine.left() == 1000


def test_garbage_on_the_disk_is_no_time(machine: Machine) -> None:
    """A state file that makes no sense is as none: the full time, and it runs."""
    machine.boot(NOTHING, 1000)
    machine.power_off()
    (machine.folder / "left").write_text("x; 5 boot-1\n")
    machine.boot(NOTHING, 900)
    assert (machine.left(), len(machine.instances())) == (900, 1)


def test_values_are_in_no_argument_no_file_and_no_log(machine: Machine) -> None:
    """The command gets the first process's variable; its value is in no argv, file or start environment."""
    machine.files["/proc/1/environ"].write_bytes(f"A=1\0MACHINE_KEY={SECRET}\0NOT_THAT_KEY=x\0".encode())
    command = f'[ "$MACHINE_KEY" = {SECRET[::-1]} ] || echo ${{#MACHINE_KEY}} $OWN >got; echo "$MACHINE_KEY"; sleep 60'
    machine.arm(Watchdog(command=command, reads=("MACHINE_KEY", "OWN")), 0, OWN="mine")
    got = machine.folder / "got"
    wait_until(lambda: got.exists() and got.read_text() != "", what="the command runs")
    assert got.read_text() == f"{len(SECRET)} mine\n"
    for pid in machine.processes():
        assert SECRET.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
    for pid in machine.instances():
        assert SECRET.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
    files = [p for p in machine.home.rglob("*") if p.is_file()]
    assert not [p for p in files if SECRET.encode() in p.read_bytes()]
    assert all(p.stat().st_mode & 0o077 == 0 for p in [*files, machine.folder])


def test_it_outlives_session_client_and_sweep(machine: Machine) -> None:
    """TERM and HUP to all of the session that armed it, and KILL to all that carry the run's id."""
    script = client_watchdog(NOTHING, 1000, name="m1", pace=QUICK)
    session = machine.popen(f"{script}\nsleep 60", GIPPER_RUN_ID="0000000000")
    wait_until(lambda: len(machine.instances()) == 1, what="it runs")
    wait_until(lambda: not (machine.folder / "lock").exists(), what="it is armed")
    (pid,) = machine.instances()
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGKILL):
        os.killpg(session.pid, number)
    session.communicate(timeout=10)
    assert b"GIPPER_RUN_ID" not in Path(f"/proc/{pid}/environ").read_bytes()
    machine.set_clock(200)
    wait_until(lambda: machine.left() == 900, what="it goes on counting")
    assert machine.instances() == [pid]


def test_it_needs_none_of_its_files_once_it_runs(machine: Machine) -> None:
    """The job may clear its home: the watchdog still ends the machine."""
    target = machine.home.parent / "fired"
    machine.arm(Watchdog(command=f"touch {target}"), 1000)
    wait_until(lambda: _removed(machine.folder), what="the folder is gone")
    machine.set_clock(1200)
    wait_until(target.exists, what="it fires")


@pytest.mark.parametrize(
    "command",
    [
        "printf %s '\"a\" \\n $HOME `x` é' >out",
        "cat >out <<\\GIPPER\nin a document\nGIPPER\n",
        "echo 'it''s' >out; :",
    ],
)
def test_any_command_arrives_as_it_is(machine: Machine, command: str) -> None:
    """Quotes, documents, the script's own end mark: through JSON and both shells, nothing is changed."""
    watchdog = Watchdog(command=command)
    text = json.loads(json.dumps({"onstart": boot_watchdog(watchdog, 0, pace=QUICK)}))["onstart"]
    machine.sh(text)
    expected = subprocess.run(
        [machine.bin / "sh", "-c", command], cwd=machine.home, env={"PATH": machine.path, "HOME": str(machine.home)}, check=True
    )  # fmt: skip
    assert expected.returncode == 0
    out = machine.folder / "out"
    wait_until(
        lambda: out.exists() and out.read_bytes() == (machine.home / "out").read_bytes(), what="the same"
    )


def test_the_start_up_script_is_a_good_guest(machine: Machine) -> None:
    """Short, silent, and the shell that runs it goes on, strict as it may be, even if all of it fails."""
    text = boot_watchdog(NOTHING, 1000, name="m1", pace=QUICK)
    assert len(text) < 3000
    assert (
        machine.sh(f"set -eu\numask 022\nd=mine\n{text}echo $d $(umask) $PWD")
        == f"mine 0022 {machine.home}\n"
    )
    machine.power_off()
    shutil.rmtree(machine.folder)
    machine.folder.write_text("in the way")
    assert machine.sh(f"set -eu\n{text}echo on") == "on\n"


def test_a_client_hears_why_it_cannot_be_armed(machine: Machine) -> None:
    """No folder, no watchdog: the script ends with an error, and says armed only where it is."""
    machine.folder.write_text("in the way")
    process = machine.popen(client_watchdog(NOTHING, 10, name="m1", pace=QUICK))
    out, err = process.communicate(timeout=30)
    assert process.returncode != 0
    assert "armed" not in out
    assert err


@pytest.mark.parametrize("at_home", [True, False])
def test_cron_starts_it_again_only_on_a_machine_of_its_own(
    new_machine: Callable[..., Machine], at_home: bool
) -> None:
    """Where cron runs and home is the user's own: one line, others kept, and it works. Else nothing."""
    machine = new_machine()
    table = machine.home.parent / "table"
    table.write_text("5 5 * * * mine\n")
    home = machine.home if at_home else "/somewhere/else"
    _tool(machine, "getent", f"echo user:x:0:0::{home}:/bin/sh")
    _tool(
        machine,
        "crontab",
        f'if [ "$1" = -l ]; then cat {table}; else cat >{table}.new && mv {table}.new {table}; fi',
    )
    shutil.copy(str(shutil.which("sleep")), machine.bin / "cron")
    daemon = subprocess.Popen([machine.bin / "cron", "100"])
    try:
        told = [armed(machine.arm(NOTHING, 1000)).again for _ in range(2)]
    finally:
        daemon.kill()
        daemon.wait()
    assert told == (["cron"] * 2 if at_home else ["none"] * 2)
    lines = table.read_text().splitlines()
    assert lines[0] == "5 5 * * * mine"
    assert len(lines) == (2 if at_home else 1)
    if at_home:
        machine.power_off()
        machine.set_clock(3, "boot-2")
        # What cron would run; the fake clock is in the script that is on the disk already.
        machine.sh(lines[1].removeprefix("@reboot ") + " &")
        wait_until(lambda: len(machine.processes()) >= 1 and machine.left() == 1000, what="on again")


def test_a_start_up_script_needs_no_cron(machine: Machine) -> None:
    """Where the market's start-up script armed it before, that one starts it again."""
    machine.boot(NOTHING, 1000)
    assert armed(machine.arm(NOTHING, 500)).again == "boot"


@pytest.mark.parametrize(
    "watchdog",
    [Watchdog(command=" "), Watchdog(command="a\0b"), Watchdog(command="true", reads=("A;touch x",)), Watchdog(command="true", reads=("",))],
)  # fmt: skip
def test_a_watchdog_that_no_shell_can_run_is_refused(watchdog: Watchdog) -> None:
    """An empty command, or what is no variable's name, is the plugin's mistake and never reaches a shell."""
    with pytest.raises(ProviderError):
        boot_watchdog(watchdog, 10)


@pytest.mark.parametrize("name", ["a b", "$(x)", '"', "\n"])
def test_a_name_is_a_word(name: str) -> None:
    """A machine's name is put into the script as it is: only what is harmless there is taken."""
    with pytest.raises(ProviderError):
        boot_watchdog(NOTHING, 10, name=name)


@pytest.mark.parametrize("output", ["", "armed x\nagain boot", "armed 5", "armed 5\nagain magic"])
def test_an_answer_that_makes_no_sense_is_an_error(output: str) -> None:
    """A machine's answer is never taken for more than it says."""
    with pytest.raises(ProviderError):
        armed(output)


def _removed(folder: Path) -> bool:
    shutil.rmtree(folder, ignore_errors=True)  # It is being written to.
    return not folder.exists()


def _uptime() -> float:
    return float(Path("/proc/uptime").read_text().split()[0])


def _tool(machine: Machine, name: str, script: str) -> None:
    path = machine.bin / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
