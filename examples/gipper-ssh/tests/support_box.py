"""A box for tests: OpenSSH's own server on loopback, with a home folder of its own."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

TOKEN = "GIPPER_SSH_TEST_BOX"
NVIDIA_SMI = """#!/bin/sh
cat "$HOME/../cards" 2>/dev/null || { echo "Unable to determine the device handle" >&2; exit 15; }
"""


def until(true: Callable[[], Any], what: str, seconds: float = 30.0) -> Any:
    """Poll `true` until it is; its value."""
    deadline = time.monotonic() + seconds
    while not (value := true()):
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.02)
    return value


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def key_pair(path: Path) -> str:
    """A new key pair at `path`; the public line."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "me", "-f", str(path)], check=True)
    return path.with_suffix(".pub").read_text().strip()


class Box:
    """sshd in `folder`. Its sessions' HOME is `folder/home`, and `authorized_keys` in there is what counts."""

    def __init__(self, folder: Path, name: str = "tower") -> None:
        self.folder = folder
        self.name = name
        self.port = free_port()
        self.home = folder / "home"
        self.key = folder / "owner_key"
        self.host_key = folder / "host_key"
        self.bin = folder / "bin"
        self._token = secrets.token_hex(8)
        self._process: subprocess.Popen[bytes] | None = None
        (self.home / ".ssh").mkdir(parents=True, mode=0o700)
        self.bin.mkdir()
        self.authorized_keys = self.home / ".ssh" / "authorized_keys"
        self.owner = key_pair(self.key)
        # Without a last line end, as people leave it.
        self.authorized_keys.write_text(f"# mine\n{self.owner}")
        self.authorized_keys.chmod(0o640)
        key_pair(self.host_key)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def entry(self, **more: Any) -> str:
        """This box as a table of an inventory."""
        keys = {
            "name": self.name, "address": "127.0.0.1", "port": self.port, "key": str(self.key),
            "user": pwd.getpwuid(os.getuid()).pw_name, "usd_h": 0.25, "country": "DE", **more,
        }  # fmt: skip
        lines = (f"{k} = {v}" if isinstance(v, (int, float)) else f'{k} = "{v}"' for k, v in keys.items())
        return "\n".join(["[[box]]", *lines, ""])

    def cards(self, *rows: str) -> None:
        """What the box's nvidia-smi says from now on; without rows it fails."""
        program = self.bin / "nvidia-smi"
        program.write_text(NVIDIA_SMI)
        program.chmod(0o755)
        (self.folder / "cards").unlink(missing_ok=True)
        if rows:
            (self.folder / "cards").write_text("\n".join(rows) + "\n")

    def start(self) -> None:
        """Start, and wait until it answers."""
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        config = self.folder / "sshd_config"
        config.write_text("\n".join(self._config()) + "\n")
        with (self.folder / "sshd.log").open("ab") as log:
            self._process = subprocess.Popen(
                ["/usr/sbin/sshd", "-D", "-e", "-f", str(config)], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True, env={"PATH": os.defpath},
            )  # fmt: skip
        until(self._answers, "sshd answers")

    def stop(self) -> None:
        """End the server and everything that its sessions started; idempotent."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        until(self._swept, "everything on the box ended")

    def alive(self) -> bool:
        """Whether the box itself still runs, and lets its owner in."""
        return self._process is not None and self._process.poll() is None and self.run("true").returncode == 0

    def run(self, command: str) -> subprocess.CompletedProcess[bytes]:
        """A command on the box, as its owner."""
        options = (
            "BatchMode=yes",
            "StrictHostKeyChecking=no",
            "UserKnownHostsFile=/dev/null",
            "LogLevel=ERROR",
        )
        return subprocess.run(
            ["ssh", "-F", "none", *(w for o in options for w in ("-o", o)), "-i", str(self.key),
             "-p", str(self.port), "127.0.0.1", command],
            capture_output=True, timeout=30, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip

    def processes(self, variable: str | None = None) -> list[int]:
        """Processes of the box whose environment has `variable` ("NAME=VALUE")."""
        wanted = (variable or f"{TOKEN}={self._token}").encode()
        return [
            pid for pid, env in _environments() if wanted in env and f"{TOKEN}={self._token}".encode() in env
        ]

    @property
    def lease(self) -> Path:
        """The file."""
        return self.home / ".gipper-ssh" / "lease"

    def shift(self, **fields: str) -> None:
        """Write other values into the lease, as time or a restart would have."""
        lines = self.lease.read_text().splitlines()
        self.lease.write_text(
            "".join(f"{k}={fields.get(k, v)}\n" for k, _, v in (x.partition("=") for x in lines))
        )

    def _swept(self) -> bool:
        left = self.processes()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not left

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "sshd.log").read_text()
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as sock:
                return sock.recv(4) == b"SSH-"
        except OSError:
            return False

    def _config(self) -> list[str]:
        env = {"HOME": self.home, TOKEN: self._token, "PATH": f"{self.bin}:{os.defpath}:/usr/sbin:/sbin"}
        return [
            f"ListenAddress 127.0.0.1:{self.port}", f"HostKey {self.host_key}", "PermitRootLogin yes",
            f"AuthorizedKeysFile {self.authorized_keys}", f"PidFile {self.folder / 'pid'}",
            "PasswordAuthentication no", "KbdInteractiveAuthentication no", "UsePAM no", "StrictModes no",
            "PrintMotd no", "UseDNS no", "MaxStartups 100", "Subsystem sftp internal-sftp",
            "SetEnv " + " ".join(f'"{name}={value}"' for name, value in env.items()),
        ]  # fmt: skip


def _environments() -> Iterator[tuple[int, list[bytes]]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                yield int(entry.name), (entry / "environ").read_bytes().split(b"\0")
