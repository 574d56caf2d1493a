"""Machines that seem to have GPUs: a fake nvidia-smi and a compiled libcuda.so.1, told what to answer.

stubs = GpuStubs(folder)                 # two folders, `bin` for PATH and `driver` for LD_LIBRARY_PATH
stubs.smi(cards=[card()])                # what nvidia-smi tells
stubs.driver(init=999)                   # what the driver library does
env = stubs.env()                        # PATH and LD_LIBRARY_PATH that make a shell see both
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
_BUILT = "libcuda.so.1"


def card(index: int = 0, **changes: Any) -> dict[str, Any]:
    """An idle RTX 4090 as nvidia-smi tells of it; `changes` by field, "_" for "."."""
    fields = {
        "index": index,
        "uuid": f"GPU-0000000{index}-1111-2222-3333-444444444444",
        "name": "NVIDIA GeForce RTX 4090",
        "memory.total": 24564,
        "memory.used": 1,
        "driver_version": "580.65.06",
        "compute_cap": "8.9",
        "utilization.gpu": 0,
    }
    return {**fields, **{k if k in fields else k.replace("_", "."): v for k, v in changes.items()}}


def build_driver(folder: Path) -> Path:
    """Compile the driver library once, into `folder`."""
    built = folder / _BUILT
    if not built.exists():
        source = str(HERE / "libcuda.c")
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-w", "-o", str(built), source, "-ldl"], check=True)
    return built


def put_program(file: Path, text: str) -> None:
    """Make `file` a program of its own. What a link of that name points to is never written to."""
    file.unlink(missing_ok=True)
    with file.open("x") as new:
        new.write(text)
    file.chmod(0o755)


class GpuStubs:
    """One machine's stubs in `folder`; `built` is the compiled library. It begins with one idle card."""

    def __init__(self, folder: Path, built: Path) -> None:
        self.bin = folder / "bin"
        self.driver_folder = folder / "driver"
        self._built = built
        self.bin.mkdir(parents=True)
        text = f"#!{sys.executable} -IS\n" + (HERE / "nvidia_smi.py").read_text()
        put_program(self.bin / "nvidia-smi", text)
        self.smi(cards=[card()])
        self.driver()

    def smi(self, **answers: Any) -> None:
        """What nvidia-smi answers from now on (see nvidia_smi.py)."""
        (self.bin / "smi.json").write_text(json.dumps(answers))

    def no_smi(self) -> None:
        """Take nvidia-smi away."""
        (self.bin / "nvidia-smi").unlink()

    def driver(self, folder: Path | None = None, **behaviour: int) -> Path:
        """A driver library in `folder` (the usual one) that behaves so (see libcuda.c); the folder."""
        folder = folder or self.driver_folder
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / _BUILT).exists():
            shutil.copy(self._built, folder / _BUILT)
        (folder / "libcuda.conf").write_text("".join(f"{k} {v}\n" for k, v in behaviour.items()))
        (folder / "libcuda.calls").unlink(missing_ok=True)
        return folder

    def calls(self, folder: Path | None = None) -> str:
        """One letter for each call so far: i = cuInit, l = a launch."""
        file = (folder or self.driver_folder) / "libcuda.calls"
        return file.read_text() if file.exists() else ""

    def env(self) -> dict[str, str]:
        """What a session needs to see the stubs."""
        path = os.environ.get("PATH", os.defpath)
        return {"PATH": f"{self.bin}:{path}", "LD_LIBRARY_PATH": str(self.driver_folder)}
