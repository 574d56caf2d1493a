"""How the bootstrap gets uv: pip, else the installer, never longer than its limit, never the job's failure."""

from __future__ import annotations

import time

import pytest
from bootstrap.bare_machine import BareMachine

_LOG = 'echo "{name} $*" >>{root}/log\n'
_PUT = "mkdir -p $HOME/.local/bin; cp {root}/true $HOME/.local/bin/uv"
GAVE_UP = "the job goes on without it"


@pytest.fixture
def machine(machine: BareMachine) -> BareMachine:
    """A machine without uv, whose pip, curl and wget all fail."""
    (machine.bin / "uv").unlink()
    (machine.root / "true").write_text("#!/bin/sh\nexit 0\n")
    (machine.root / "true").chmod(0o755)
    program(machine, "python3", "exit 1")
    program(machine, "curl", "exit 6")
    program(machine, "wget", "exit 4")
    return machine


def program(machine: BareMachine, name: str, text: str) -> None:
    """A stub that notes how it was called."""
    log = _LOG.format(name=name, root=machine.root)
    machine.program(name, log + text.replace("PUT", _PUT.format(root=machine.root)))


def log(machine: BareMachine) -> list[str]:
    """The calls of all stubs, in order."""
    file = machine.root / "log"
    return file.read_text().splitlines() if file.exists() else []


def uv_lines(machine: BareMachine) -> list[str]:
    """What a sourcing says of uv."""
    return [line for line in machine.source().lines if "uv" in line]


def test_uv_that_is_there_is_left_alone(machine: BareMachine) -> None:
    """Nothing is installed, nothing is asked."""
    program(machine, "uv", "exit 0")
    assert uv_lines(machine) == [] and log(machine) == []


def test_pip_comes_first(machine: BareMachine) -> None:
    """A quiet install for the user; the installer isn't asked; uv is on PATH."""
    program(
        machine,
        "python3",
        '[ "$PIP_BREAK_SYSTEM_PACKAGES" = 1 ] || exit 1; case "$*" in *--user*) PUT;; esac',
    )
    assert uv_lines(machine) == []
    (call,) = log(machine)
    assert call.startswith("python3 -m pip install -q") and call.endswith("--user uv")
    assert (machine.home / ".local/bin/uv").exists()


def test_inside_a_virtual_environment_pip_installs_plainly(machine: BareMachine) -> None:
    """There `--user` is refused: once more without."""
    program(
        machine, "python3", f'case "$*" in *--user*) exit 1;; esac; cp {machine.root}/true {machine.bin}/uv'
    )
    assert uv_lines(machine) == []
    assert [("--user" in call) for call in log(machine)] == [True, False]


@pytest.mark.parametrize("missing", ["curl", "wget", None])
def test_the_installer_is_next(machine: BareMachine, missing: str | None) -> None:
    """Through curl, else wget; told where to put uv and to touch no profile; its file is removed."""
    body = f'for a; do case $a in /*) echo "echo ran >>{machine.root}/ran; mkdir -p \\$UV_UNMANAGED_INSTALL; cp {machine.root}/true \\$UV_UNMANAGED_INSTALL/uv" >$a;; esac; done'
    program(machine, "wget", body)
    if missing != "curl":
        program(machine, "curl", body if missing else "exit 22")
    if missing:
        (machine.bin / missing).unlink()
    assert uv_lines(machine) == []
    assert (machine.root / "ran").read_text() == "ran\n"
    assert (machine.home / ".local/bin/uv").exists()
    assert [p.name for p in machine.home.iterdir()] == [".local"]


def test_no_way_to_get_it_is_one_line(machine: BareMachine) -> None:
    """Each try and its status, on one line; everything else is set."""
    assert uv_lines(machine) == [
        "gipper: uv could not be installed (pip: exit 1, pip: exit 1, curl: exit 6, wget: exit 4); " + GAVE_UP
    ]
    assert machine.source().env["GIPPER_TORCH_CUDA"] == "cpu"


def test_a_machine_with_nothing_is_one_line(machine: BareMachine) -> None:
    """No python3, no curl, no wget: said so, quickly."""
    for name in ("python3", "curl", "wget"):
        (machine.bin / name).unlink()
    (line,) = uv_lines(machine)
    assert line.count("not there") == 4 and line.endswith(GAVE_UP)


def test_a_broken_installer_is_one_line(machine: BareMachine) -> None:
    """A page of a proxy instead of the installer: its noise goes nowhere."""
    program(machine, "curl", 'for a; do case $a in /*) echo "<html> ) (" >$a;; esac; done')
    (line,) = uv_lines(machine)
    assert "installer: exit" in line
    assert not list(machine.home.glob(".gipper-uv*"))


def test_a_pip_that_says_yes_and_installs_nothing(machine: BareMachine) -> None:
    """Only uv on PATH counts."""
    program(machine, "python3", "exit 0")
    (line,) = uv_lines(machine)
    assert line.endswith(GAVE_UP) and log(machine)[-1].startswith("wget")


def test_a_hanging_pip_leaves_time_for_the_installer(machine: BareMachine) -> None:
    """pip is ended though it ignores TERM; the rest of the time is the installer's; one line if all hang."""
    for name in ("python3", "curl", "wget"):
        program(machine, name, "trap '' TERM\nexec sleep 300")
    begun = time.monotonic()
    (line,) = uv_lines(machine)
    took = time.monotonic() - begun
    assert line.count("no time left") == 4, line
    assert [call.split()[0] for call in log(machine)] == ["python3", "curl"]
    assert took < 4 * machine.places.uv_s, "the limit isn't held"


def test_the_second_shell_of_a_run_does_not_try_again(machine: BareMachine) -> None:
    """A failed install is tried once a run and told once."""
    state = f"GIPPER_BOOTSTRAP_STATE={machine.root}/state"
    machine.source(before=state)
    calls = log(machine)
    assert machine.source(before=state).lines == [] and log(machine) == calls
