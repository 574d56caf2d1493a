"""Machines for preflight checks: a shell of this computer that sees stubs instead of a GPU."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import attrs
import pytest
from stubs.gpu_stubs import GpuStubs, put_program

from gipper.errors import CommandTimeout
from gipper.remote import Completed
from gipper.values.jobs import GpuWants, Job, Placement, Pod, Probe, RunTable
from gipper.values.machines import Machine
from gipper.values.offers import GpuModel
from gipper.values.plugins import CheckResult

SHELLS = {"sh": ("/bin/sh", "-c"), "dash": ("dash", "-c"), "busybox": ("busybox", "sh", "-c")}
TOOLS = ("timeout", "sleep", "head", "cat", "df", "tr", "sed", "printf")
_CLOCK = """#!/bin/sh
read -r up rest <"{root}/uptime"; echo "$((${{up%.*}} + $1)).00 $rest" >"{root}/uptime"
"""
_HASTE = """#!/bin/sh
echo "$3" >>"{root}/limits"; shift 3; exec {timeout} -s KILL 1 "$@"
"""


@attrs.define
class ShellRemote:
    """Scripts run in a shell of this computer. Files of /proc and /sys that they read lie in `root`."""

    home: Path
    root: Path
    env: dict[str, str]
    shell: tuple[str, ...] = SHELLS["sh"]
    asked: int = 0

    def ask(self, script: str, *, timeout_s: float = 60.0) -> Completed:
        return self.run(script, timeout_s=timeout_s)

    def run(
        self, command: str, *, stdin: bytes = b"", timeout_s: float = 60.0, limit: int = 4 << 20
    ) -> Completed:
        self.asked += 1
        for path in ("/proc/1/environ", "/proc/uptime", "/proc/meminfo", "/sys/fs/cgroup"):
            command = command.replace(path, str(self.root / Path(path).name))
        with subprocess.Popen(
            [*self.shell, command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**self.env, "HOME": str(self.home)}, cwd=self.home, start_new_session=True,
        ) as process:  # fmt: skip
            try:
                out, err = process.communicate(stdin, timeout=timeout_s)
            except subprocess.TimeoutExpired as error:
                os.killpg(process.pid, signal.SIGKILL)
                raise CommandTimeout("too slow") from error
        return Completed(status=process.returncode, stdout=out[:limit], stderr=err)


@attrs.define
class World:
    """One rented machine with its stubs, and the job that would run there."""

    remote: Any
    stubs: GpuStubs
    folder: Path
    machine: Machine
    job: Job

    def check(self, name: str) -> CheckResult:
        """What the built-in check `name` says of the machine."""
        module = import_module(f"gipper.builtin.checks.{name}")
        parts = {"remote": self.remote, "job": self.job, "machine": self.machine}
        code = module.gipper_preflight.__code__
        result: CheckResult = module.gipper_preflight(
            *(parts[n] for n in code.co_varnames[: code.co_argcount])
        )
        return result

    def fails(self, name: str, verdict: type[Exception]) -> Any:
        """The verdict that the check `name` must raise, of exactly this class."""
        with pytest.raises(verdict) as caught:
            self.check(name)
        assert type(caught.value) is verdict
        return caught.value

    def offered(self, **changes: Any) -> None:
        """Change what the machine was offered as."""
        self.machine = attrs.evolve(self.machine, **changes)

    def wants(self, **gpu: Any) -> None:
        """Change the job's `[gpu]`."""
        self.job = attrs.evolve(self.job, gpu=GpuWants(**gpu))

    def probes(self, **floors: float) -> None:
        """Ask for least rates."""
        self.job = attrs.evolve(self.job, placement=Placement(probe=Probe(**floors)))

    def own_path(self, path: str) -> None:
        """The job file's own LD_LIBRARY_PATH."""
        self.job = attrs.evolve(self.job, pod=Pod(env={"LD_LIBRARY_PATH": path}))

    def program(self, name: str, text: str) -> None:
        """A program that the machine's shell finds first."""
        put_program(self.stubs.bin / name, text)

    def fast_clock(self) -> None:
        """`sleep` moves the machine's own clock and doesn't wait."""
        self.program("sleep", _CLOCK.format(root=self.remote.root))

    def hasty(self) -> Callable[[], list[str]]:
        """`timeout` gives a second to everything; the limits that were asked for, once called."""
        self.program("timeout", _HASTE.format(root=self.remote.root, timeout=shutil.which("timeout")))
        return lambda: (self.remote.root / "limits").read_text().split()


def machine_of(**changes: Any) -> Machine:
    """One RTX 4090, as offered."""
    machine = Machine(
        provider="acme", id="m1", name="gipper-x", usd_h=Decimal("0.4"), gpu_count=1,
        gpu=GpuModel(name="RTX 4090", memory_gb=24, compute_capability=(8, 9)),
    )  # fmt: skip
    return attrs.evolve(machine, **changes)


def make_world(folder: Path, built: Path) -> World:
    """A machine with one good GPU, 50 hours up, and nothing in its first process's environment."""
    home, root = folder / "home", folder / "root"
    home.mkdir()
    root.mkdir()
    (root / "environ").write_bytes(b"PATH=/bin\0")
    (root / "uptime").write_text("180000.00 1.00\n")
    (root / "meminfo").write_text("MemTotal:       67108864 kB\nMemFree:        1 kB\n")
    stubs = GpuStubs(folder / "stubs", built)
    job = Job(name="job", folder=folder, run=RunTable(command="true"))
    remote = ShellRemote(home, root, {**stubs.env(), "PATH": f"{stubs.bin}:{_tools(folder)}"})
    return World(remote, stubs, folder, machine_of(), job)


def _tools(folder: Path) -> Path:
    """A folder with what a small machine has, so that a test can take python3 away."""
    tools = folder / "tools"
    tools.mkdir()
    names = ("sh", "env", "awk", "grep", "python3", "cut", *TOOLS)
    for name in names:
        found = os.path.realpath(shutil.which(name) or "")
        if name == "python3":
            put_program(tools / name, f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        elif Path(found).is_file():
            (tools / name).symlink_to(found)
    return tools
