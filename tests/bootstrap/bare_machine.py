"""A bare machine for the bootstrap: an empty environment, a few tools, and stubs for everything that it asks.

machine = BareMachine(folder, "dash")
machine.gpus(gpu(), gpu(cap="12.0"))     # what nvidia-smi tells; without this there is none
seen = machine.source()                  # Seen: the environment after it, and the lines that it said
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import attrs

from gipper.bootstrap import Places, script

SHELLS = {"bash": ("bash",), "dash": ("dash",), "busybox": ("busybox", "sh")}
_TOOLS = ("cat", "env", "id", "mv", "rm", "sed", "sleep", "timeout", "touch", "tr", "chmod", "mkdir", "cp")
_SMI = """#!/bin/sh
echo "$1" >>{root}/asked
case $1 in
  --query-gpu=driver_version,compute_cap,memory.total,name) cat {root}/new ;;
  --query-gpu=driver_version,index,memory.total,name) cat {root}/old ;;
  *) exit 6 ;;
esac
"""


def gpu(
    driver: str = "580.65.06", cap: str = "8.9", mib: str = "24564", name: str = "NVIDIA GeForce RTX 4090"
) -> tuple[str, str, str, str]:
    """One line of nvidia-smi."""
    return (driver, cap, mib, name)


@attrs.frozen(kw_only=True)
class Seen:
    """What a sourcing left: the environment, what was printed to stdout and stderr."""

    env: dict[str, str]
    out: str
    lines: list[str]

    @property
    def tag(self) -> str:
        """The end of the index's address."""
        return self.env["GIPPER_TORCH_INDEX"].rpartition("/")[2]


class BareMachine:
    """`folder` holds all of it: home, bin (all of PATH), root (stubs' answers, the first process's environment)."""

    def __init__(self, folder: Path, shell: str = "dash") -> None:
        self.shell = shell
        self.home, self.bin, self.root = folder / "home", folder / "bin", folder / "root"
        for made in (self.home, self.bin, self.root):
            made.mkdir(parents=True)
        for tool in _TOOLS:
            found = shutil.which("busybox" if shell == "busybox" else tool)
            assert found is not None
            (self.bin / tool).symlink_to(found)
        (self.bin / "sh").symlink_to(shutil.which(SHELLS[shell][0]) or "")
        self.program("uv", "exit 0")
        self.first = self.root / "environ"
        self.first.write_bytes(b"")
        self.places = Places(
            first_environ=str(self.first), volume=str(self.root / "workspace"), smi_s=1, uv_s=3
        )
        self.own_path = False

    @property
    def path(self) -> str:
        """The PATH that a login there has."""
        return str(self.bin)

    def program(self, name: str, text: str) -> None:
        """Put a program on the machine."""
        file = self.bin / name
        file.unlink(missing_ok=True)
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)

    def gpus(self, *cards: tuple[str, str, str, str], old: bool = False) -> None:
        """Let nvidia-smi name `cards`; an `old` one doesn't know compute_cap."""
        rows = [", ".join(card) for card in cards]
        plain = [", ".join((c[0], str(i), *c[2:])) for i, c in enumerate(cards)]
        (self.root / "old").write_text("".join(f"{r}\n" for r in plain))
        if not old:
            (self.root / "new").write_text("".join(f"{r}\n" for r in rows))
        text = _SMI.format(root=self.root)
        if old:
            text = text.replace(f"cat {self.root}/new", "echo 'Field is not a valid field to query.'; exit 2")
        self.program("nvidia-smi", text)

    def first_process(self, **variables: str) -> None:
        """What the image gave its first process."""
        self.first.write_bytes(b"".join(f"{k}={v}".encode() + b"\0" for k, v in variables.items()))

    def asked(self) -> int:
        """How often nvidia-smi was asked."""
        file = self.root / "asked"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def source(self, *, times: int = 1, before: str = "", env: dict[str, str] | None = None) -> Seen:
        """Source the script `times` in one shell with nothing but HOME, PATH and `env`; `before` runs first."""
        file = self.root / "bootstrap.sh"
        file.write_text(script(own_path=self.own_path, places=self.places))
        text = f"{before}\n" + f". {file} || exit 99\n" * times + f"env -0 >{self.root}/env\n"
        given = {"HOME": str(self.home), "PATH": self.path, **(env or {})}
        done = self.run(text, {k: v for k, v in given.items() if v != "UNSET"})
        assert done.returncode == 0, done
        pairs = (p.partition("=") for p in (self.root / "env").read_text().split("\0") if p)
        return Seen(env={k: v for k, _, v in pairs}, out=done.stdout, lines=done.stderr.splitlines())

    def run(self, text: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """Run shell text with exactly `env`, within 30 s."""
        found = shutil.which(SHELLS[self.shell][0]) or ""
        argv = [found, *SHELLS[self.shell][1:], "-c", text]
        with subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env,
            cwd=self.home, start_new_session=True, text=True,
        ) as process:  # fmt: skip
            try:
                out, err = process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        return subprocess.CompletedProcess(argv, process.returncode, out, err)
