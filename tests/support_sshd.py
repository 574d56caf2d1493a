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
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from gipper.remote import Target
from gipper.ssh.keys import KeyPair, ensure_key
from gipper.values.machines import Address

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
TOKEN = "SUPPORT_SSHD"
_READY_S = 20.0
_PRIVSEP = Path("/run/sshd")


def wait_until(condition: Callable[[], bool], *, seconds: float = 10.0, what: str = "condition") -> None:
    """Poll until `condition` holds; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not hold within {seconds} s"
        time.sleep(0.01)


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


class Relay:
    """Forwards TCP connections to a port on loopback, until it is told to do worse.

    Counts `up` and `down` bytes, `connections`, and `round_trips`: bursts from the client that follow
    a burst from the server.
    """

    def __init__(self, port: int, *, host: str = "127.0.0.1") -> None:
        self.up = 0
        self.down = 0
        self.connections = 0
        self.round_trips = 0
        self._upstream = (host, port)
        self._mode = "forward"
        self._cut: int | None = None
        self._cuts_left = 0
        self._server_spoke = False
        self._lock = threading.Lock()
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._clients: set[socket.socket] = set()
        self._pending: dict[socket.socket, bytearray] = {}
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._wake_r, self._wake_w = socket.socketpair()
        self._stopped = False
        self._thread = threading.Thread(target=self._loop, name="relay", daemon=True)

    def __enter__(self) -> Self:
        for sock in (self._listener, self._wake_r):
            sock.setblocking(False)
            self._selector.register(sock, selectors.EVENT_READ)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped = True
        self._poke()
        self._thread.join(10)
        assert not self._thread.is_alive()

    @property
    def port(self) -> int:
        """Where clients connect."""
        port: int = self._listener.getsockname()[1]
        return port

    @property
    def address(self) -> Address:
        """Where clients connect."""
        return Address(host="127.0.0.1", port=self.port)

    def drop(self) -> None:
        """Take everything and forward nothing: a link that went away without a word."""
        self._set("drop")

    def stall(self) -> None:
        """Read nothing any more: buffers fill up, then writers block."""
        self._set("stall")

    def heal(self) -> None:
        """Forward again (what was dropped stays lost)."""
        self._set("forward")

    def refuse(self) -> None:
        """Reset what is open, and each new connection as it comes."""
        self._set("refuse")
        self.reset()

    def reset(self) -> None:
        """Send RST on both sides of every open connection."""
        with self._lock:
            self._mode = {"forward": "reset", "drop": "reset+drop"}.get(self._mode, "reset+" + self._mode)
        self._poke()
        wait_until(lambda: not self._mode.startswith("reset"), what="relay reset")

    def cut_after(self, count: int, *, times: int = 1) -> None:
        """Reset a connection once `count` more bytes came from clients; that often (-1: always)."""
        with self._lock:
            self._cut, self._cuts_left = count, times
            self._cut_base = count

    def reset_counts(self) -> None:
        """Begin to count anew, for example after the login."""
        with self._lock:
            self.up = self.down = self.connections = self.round_trips = 0
            self._server_spoke = False

    def _set(self, mode: str) -> None:
        with self._lock:
            self._mode = mode
        self._poke()

    def _poke(self) -> None:
        with contextlib.suppress(OSError):
            self._wake_w.send(b"x")

    def _loop(self) -> None:
        while not self._stopped:
            if self._mode.startswith("reset"):
                self._reset_all()
            for key, mask in self._selector.select(timeout=None if self._mode != "stall" else 0.05):
                self._serve(key.fileobj, mask)  # type: ignore[arg-type]
        self._reset_all()
        for sock in (self._listener, self._wake_r, self._wake_w):
            sock.close()
        self._selector.close()

    def _serve(self, sock: socket.socket, mask: int) -> None:
        if sock is self._wake_r:
            self._wake_r.recv(4096)
        elif sock is self._listener:
            self._accept()
        elif sock in self._pairs:
            self._move(sock, mask)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        if self._mode == "refuse":
            _abort(client)
            return
        try:
            server = socket.create_connection(self._upstream, timeout=5)
        except OSError:
            _abort(client)
            return
        with self._lock:
            self.connections += 1
        self._clients.add(client)
        for one, other in ((client, server), (server, client)):
            one.setblocking(False)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._pairs[one] = other
            self._pending[one] = bytearray()
            self._selector.register(one, selectors.EVENT_READ)

    def _move(self, sock: socket.socket, mask: int) -> None:
        if self._mode == "stall":
            time.sleep(0.01)
            return
        try:
            if mask & selectors.EVENT_WRITE:
                self._flush(sock)
            if mask & selectors.EVENT_READ:
                self._read(sock)
        except BlockingIOError:
            pass
        except OSError:
            self._abort_pair(sock)

    def _read(self, sock: socket.socket) -> None:
        data = sock.recv(256 * 1024)
        other = self._pairs[sock]
        if not data:
            self._close_pair(sock)
        elif self._count(sock, len(data)):
            self._abort_pair(sock)
        elif self._mode != "drop":
            self._pending[other] += data
            self._flush(other)

    def _flush(self, sock: socket.socket) -> None:
        """Send what waits for `sock`; while something is left, its partner is not read."""
        waiting = self._pending[sock]
        with contextlib.suppress(BlockingIOError):
            while waiting:
                del waiting[: sock.send(waiting)]
        self._watch(sock, selectors.EVENT_WRITE, on=bool(waiting))
        self._watch(self._pairs[sock], selectors.EVENT_READ, on=not waiting)

    def _watch(self, sock: socket.socket, event: int, *, on: bool) -> None:
        registered = self._selector.get_map().get(sock)
        before = registered.events if registered else 0
        after = before | event if on else before & ~event
        if registered and not after:
            self._selector.unregister(sock)
        elif registered and after != before:
            self._selector.modify(sock, after)
        elif not registered and after:
            self._selector.register(sock, after)

    def _count(self, sock: socket.socket, count: int) -> bool:
        """Account for `count` bytes; True where the connection is to be cut."""
        with self._lock:
            if sock not in self._clients:
                self.down += count
                self._server_spoke = True
                return False
            self.up += count
            self.round_trips += self._server_spoke
            self._server_spoke = False
            if self._cut is None or self._cuts_left == 0:
                return False
            self._cut -= count
            if self._cut > 0:
                return False
            self._cuts_left -= 1
            self._cut = self._cut_base
            return True

    def _reset_all(self) -> None:
        for sock in list(self._clients):
            self._abort_pair(sock)
        with self._lock:
            self._mode = self._mode.partition("+")[2] or ("forward" if self._mode == "reset" else self._mode)

    def _abort_pair(self, sock: socket.socket) -> None:
        for one in self._forget(sock):
            _abort(one)

    def _close_pair(self, sock: socket.socket) -> None:
        for one in self._forget(sock):
            one.close()

    def _forget(self, sock: socket.socket) -> list[socket.socket]:
        other = self._pairs.get(sock)
        if other is None:
            return []
        for one in (sock, other):
            self._pairs.pop(one, None)
            self._pending.pop(one, None)
            self._clients.discard(one)
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(one)
        return [sock, other]


def _abort(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
