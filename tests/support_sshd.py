"""A real OpenSSH server on loopback, and a TCP relay that can be made to misbehave.

with Sshd(folder) as sshd:          # running, with host key, authorized key and a home of its own
    target = sshd.target()          # a gipper Target with pins of its own
with Relay(sshd.port) as relay:     # in front of it
    relay.drop() | stall() | heal() | reset() | cut_after(bytes)
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from support_relay import Relay, wait_until

from gipper.remote import Target
from gipper.ssh.keys import KeyPair, ensure_key
from gipper.values.machines import Address

__all__ = ["Relay", "Sshd", "free_port", "wait_until"]

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
TOKEN = "SUPPORT_SSHD"
_READY_S = 20.0
_PRIVSEP = Path("/run/sshd")


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens on now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.bind((host, 0))
        port: int = sock.getsockname()[1]
        return port


class Sshd:
    """OpenSSH's sshd in `folder`: own host key, own authorized_keys, sessions with HOME = `home`.

    `extra` are sshd_config lines that come first (so they win). `authorize=False` starts it without
    the client's key; call `authorize()` later. `key` is the client's pair, made in `folder` if absent.
    """

    def __init__(
        self,
        folder: Path,
        *,
        extra: Sequence[str] = (),
        host: str = "127.0.0.1",
        port: int | None = None,
        authorize: bool = True,
        key: KeyPair | None = None,
        host_key_type: str = "ed25519",
        env: dict[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.host = host
        self.port = port or free_port(host)
        self.home = folder / "home"
        self.log_file = folder / "sshd.log"
        self.authorized_keys = folder / "authorized_keys"
        self.host_key_file = folder / "host_key"
        self._token = secrets.token_hex(8)
        self._extra = tuple(extra)
        self._env = dict(env or {})
        self._process: subprocess.Popen[bytes] | None = None
        self.home.mkdir(parents=True, exist_ok=True)
        self.key = key or ensure_key(folder / "client")
        self.authorized_keys.touch(mode=0o600)
        if authorize:
            self.authorize()
        self.new_host_key(host_key_type)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def user(self) -> str:
        """Who logs in: whoever runs the tests."""
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name

    @property
    def address(self) -> Address:
        """Where it listens."""
        return Address(host=self.host, port=self.port)

    @property
    def host_key(self) -> str:
        """The public host key as a provider would tell it: "TYPE BASE64"."""
        return " ".join(self.host_key_file.with_suffix(".pub").read_text().split()[:2])

    @property
    def log(self) -> str:
        """Everything that sshd logged so far, at level VERBOSE."""
        return self.log_file.read_text("utf-8", "replace")

    def target(
        self,
        *,
        machine_id: str = "machine-1",
        addresses: Sequence[Address] | None = None,
        pins: Path | None = None,
        host_key: str | None = None,
    ) -> Target:
        """A Target for this server, through `addresses` if given (a relay's)."""
        return Target(
            machine_id=machine_id,
            addresses=tuple(addresses or (self.address,)),
            user=self.user,
            key_file=self.key.private,
            pins=pins or self.folder / "known_hosts",
            host_key=host_key,
        )

    def authorize(self, line: str | None = None) -> None:
        """Let a key in from now on (the client's own if no line is given)."""
        with self.authorized_keys.open("a") as file:
            file.write((line or self.key.public) + "\n")

    def new_host_key(self, type_: str = "ed25519") -> None:
        """Another host key, used from the next start on."""
        for path in (self.host_key_file, self.host_key_file.with_suffix(".pub")):
            path.unlink(missing_ok=True)
        subprocess.run(["ssh-keygen", "-q", "-t", type_, "-N", "", "-f", str(self.host_key_file)], check=True)

    def ssh_options(self) -> list[str]:
        """Options for OpenSSH's own client: this server, this key, nobody's configuration."""
        return [
            *("-F", "none", "-p", str(self.port), "-i", str(self.key.private)),
            *("-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none", "-o", "LogLevel=ERROR"),
            *("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"),
            *("-o", f"User={self.user}", "-o", "Ciphers=aes128-gcm@openssh.com"),
        ]

    def start(self) -> None:
        """Start and wait until it answers."""
        if os.getuid() == 0:
            _PRIVSEP.mkdir(mode=0o755, exist_ok=True)
        config = self.folder / "sshd_config"
        config.write_text("\n".join(self._config()) + "\n")
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [SSHD, "-D", "-e", "-f", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=self.folder,
                env={"PATH": os.environ.get("PATH", os.defpath)},
            )
        wait_until(self._answers, seconds=_READY_S, what="sshd answers")

    def stop(self) -> None:
        """End the server, its sessions and all that they started; idempotent."""
        if self._process is not None:
            for pid in self.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
            wait_until(self._sweep, what="sessions ended")

    def freeze(self) -> None:
        """SIGSTOP the server and all its sessions: the kernel still acknowledges, nobody answers."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Undo `freeze`."""
        self._signal(signal.SIGCONT)

    def kill_sessions(self) -> None:
        """End all sessions; the server goes on listening."""
        assert self._process is not None
        for pid in self.processes():
            if pid != self._process.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def processes(self) -> list[int]:
        """The server, its descendants, and what sessions left behind."""
        parents = dict(_parents())
        root = self._process.pid if self._process else -1
        tree = [pid for pid in parents if _descends(pid, root, parents)]
        marked = [pid for pid in parents if _has_token(pid, self._token)]
        return sorted({*tree, *marked})

    def _signal(self, number: int) -> None:
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _sweep(self) -> bool:
        left = [pid for pid in dict(_parents()) if _has_token(pid, self._token)]
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not left

    def _config(self) -> list[str]:
        listen = f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
        env = {"HOME": str(self.home), TOKEN: self._token, **self._env}
        return [
            *self._extra,
            f"ListenAddress {listen}",
            f"HostKey {self.host_key_file}",
            f"AuthorizedKeysFile {self.authorized_keys}",
            f"PidFile {self.folder / 'sshd.pid'}",
            "PermitRootLogin prohibit-password",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "UsePAM no",
            "StrictModes no",
            "LogLevel VERBOSE",
            "PrintMotd no",
            "UseDNS no",
            "Subsystem sftp internal-sftp",
            "SetEnv " + " ".join(f'"{name}={value}"' for name, value in env.items()),
        ]

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"sshd ended: {self.log}"
        try:
            with socket.create_connection((self.host, self.port), timeout=1) as sock:
                return sock.recv(4) == b"SSH-"
        except OSError:
            return False


def _parents() -> Iterator[tuple[int, int]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                text = (entry / "stat").read_text("utf-8", "replace")
                yield int(entry.name), int(text.rpartition(")")[2].split()[1])


def _descends(pid: int, root: int, parents: dict[int, int]) -> bool:
    while pid > 1:
        if pid == root:
            return True
        pid = parents.get(pid, 0)
    return False


def _has_token(pid: int, token: str) -> bool:
    try:
        return f"{TOKEN}={token}".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
