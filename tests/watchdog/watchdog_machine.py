"""A folder that stands for a rented machine: a home, a shell, a clock and a boot id that tests set."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Final

from support_sshd import wait_until

from gipper.values.bills import Watchdog
from gipper.watchdog import FOLDER, Pace, boot_watchdog, client_watchdog

QUICK: Final = Pace(tick_s=1, first_s=1, most_s=1)
SHELLS: Final = [name for name in ("dash", "busybox", "bash") if shutil.which(name)]


class Machine:
    """Runs the watchdog's texts with `shell` as its sh.

    `clock=False`: on this computer's own clock; else `uptime` and `boot_id` are files that the test writes,
    and so is the environment of the first process; then a pause of the watchdog's is 50 ms.
    """

    def __init__(self, folder: Path, shell: str = "dash", *, clock: bool = True) -> None:
        self.home = folder / "home"
        self.bin = folder / "bin"
        self.clocked = clock
        self.files = {"/proc/1/environ": folder / "environ1"}
        if clock:
            self.files |= {
                "/proc/uptime": folder / "uptime",
                "/proc/sys/kernel/random/boot_id": folder / "boot_id",
            }
        self.home.mkdir(parents=True)
        self.bin.mkdir()
        self.files["/proc/1/environ"].write_bytes(b"A=1\0")
        self.path = str(self.bin) if shell == "busybox" else f"{self.bin}:{os.environ['PATH']}"
        if shell == "busybox":
            subprocess.run(["busybox", "--install", "-s", self.bin], check=True)
        else:
            (self.bin / "sh").symlink_to(str(shutil.which(shell)))
        if clock:
            self.set_clock(100, "boot-1")

    @property
    def folder(self) -> Path:
        """Where the watchdog keeps its state."""
        return self.home / FOLDER

    def set_clock(self, uptime: float, boot: str | None = None) -> None:
        """Seconds since boot, and another boot if one is named."""
        _replace(self.files["/proc/uptime"], f"{uptime:.2f} 1.00\n")
        if boot is not None:
            _replace(self.files["/proc/sys/kernel/random/boot_id"], boot + "\n")

    def boot(self, watchdog: Watchdog, seconds: float, *, name: str = "m1", **env: str) -> str:
        """The market runs its start-up script."""
        return self.sh(boot_watchdog(watchdog, seconds, name=name, pace=QUICK), **env)

    def arm(self, watchdog: Watchdog, seconds: float, *, name: str = "m1", **env: str) -> str:
        """The client arms over a session."""
        return self.sh(client_watchdog(watchdog, seconds, name=name, pace=QUICK), **env)

    def sh(self, text: str, **env: str) -> str:
        """Run a text in a session of its own; its output. Fails where it fails or holds its output open."""
        process = self.popen(text, **env)
        out, err = process.communicate(timeout=30)
        assert process.returncode == 0, (out, err)
        return out

    def popen(self, text: str, **env: str) -> subprocess.Popen[str]:
        """Start a text in a session of its own."""
        for real, faked in self.files.items():
            text = text.replace(real, str(faked))
        if self.clocked:
            for pause in ('sleep "$w"', 'sleep "$first"'):
                text = text.replace(pause, "sleep 0.05")
        return subprocess.Popen(
            [self.bin / "sh"], stdin=_text_file(self.home.parent, text), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True, cwd=self.home,
            env={"PATH": self.path, "HOME": str(self.home), **env},
        )  # fmt: skip

    def left(self) -> int:
        """Seconds left, as the disk says."""
        try:
            return int((self.folder / "left").read_text().split()[0])
        except (OSError, IndexError):
            return 1 << 30

    def instances(self) -> list[int]:
        """Watchdogs that run: each leads a session of its own."""
        found = []
        for pid in self.processes():
            words = _read(pid, "cmdline").split(b"\0")
            if words[1:3] == [str(self.folder / "run").encode(), b""] and os.getsid(pid) == pid:
                found.append(pid)
        return found

    def processes(self) -> list[int]:
        """Everything that runs with this home."""
        mark = f"HOME={self.home}".encode()
        pids = [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()]
        return [pid for pid in pids if mark in _read(pid, "environ").split(b"\0")]

    def power_off(self) -> None:
        """Nothing that runs goes on; the disk stays."""
        wait_until(self._none_left, what="everything ended")

    def _none_left(self) -> bool:
        found = self.processes()
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return not found


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _replace(path: Path, text: str) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(path)


def _text_file(folder: Path, text: str) -> int:
    path = folder / "text.sh"
    path.unlink(missing_ok=True)
    path.write_text(text)
    return os.open(path, os.O_RDONLY)
