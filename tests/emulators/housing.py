"""Where an emulator's machines live: a real OpenSSH sandbox for each, or nowhere.

As root a sandbox has a PID and a mount namespace of its own: its first process carries the container's
environment (/proc/1/environ, which sessions don't inherit), /root is its own, and all of it ends with that
process. Inside and outside share the network of this computer: a published port is forwarded.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import attrs
from stubs.gpu_stubs import GpuStubs, card, put_program
from support_relay import wait_until
from support_sshd import SSHD, Sshd, free_port

_PRIVSEP = Path("/run/sshd")


@attrs.define
class Gpu:
    """What a host's GPUs and driver are like. `driver` are lines of the stub library's configuration;
    `compat` puts a forward-compatibility folder, whose library answers 804, in front of the driver's."""

    cards: list[dict[str, Any]] = attrs.field(factory=lambda: [card()])
    apps: list[dict[str, Any]] = attrs.field(factory=list)
    driver: dict[str, int] = attrs.field(factory=dict)
    compat: bool = False

    @classmethod
    def busy(cls) -> Gpu:
        """Somebody else computes on it."""
        return cls(cards=[card(memory_used=18472, utilization_gpu=73)])


@attrs.frozen(kw_only=True)
class Wish:
    """A machine to be made. `ports` are inside ports by protocol; `env` is the first process's.

    `own_clock`: its uptime stands still until the test advances it, and its `sleep` is short.
    """

    env: Mapping[str, str] = attrs.field(factory=dict)
    onstart: str = ""
    ports: Sequence[tuple[int, str]] = ()
    outside: Mapping[tuple[int, str], int] = attrs.field(factory=dict)
    keys: Sequence[str] = ()
    gpu: Gpu = attrs.field(factory=Gpu)
    own_clock: bool = False


class Lodging(Protocol):
    """One machine that exists."""

    @property
    def ssh_port(self) -> int:
        """Where its sshd answers, on 127.0.0.1."""

    def authorize(self, line: str) -> None:
        """Let a key in."""

    def close(self) -> None:
        """End it with all that runs on it; idempotent."""


class Housing(Protocol):
    """Makes machines."""

    def open(self, wish: Wish) -> Lodging:
        """A machine that runs."""

    def close(self) -> None:
        """End all that are left."""


@attrs.define
class Nowhere:
    """A machine without an SSH server."""

    ssh_port: int = 9
    keys: list[str] = attrs.field(factory=list)
    closed: bool = False

    def authorize(self, line: str) -> None:
        self.keys.append(line)

    def close(self) -> None:
        self.closed = True


class NoHousing:
    """Machines that are only told of."""

    def open(self, wish: Wish) -> Nowhere:
        return Nowhere(keys=list(wish.keys))

    def close(self) -> None:
        pass


class Sandboxes:
    """Real machines below `folder`; `driver` is the compiled stub of libcuda."""

    def __init__(self, folder: Path, driver: Path) -> None:
        self._folder = folder
        self._driver = driver
        self._made: list[Sandbox] = []

    def open(self, wish: Wish) -> Sandbox:
        sandbox = Sandbox(self._folder / f"m{len(self._made)}", self._driver, wish)
        self._made.append(sandbox)
        sandbox.start()
        return sandbox

    def close(self) -> None:
        for sandbox in self._made:
            sandbox.close()

    @property
    def homes(self) -> list[Path]:
        """The homes of all machines ever made, in order."""
        return [sandbox.home for sandbox in self._made]


class Sandbox(Sshd):
    """One machine."""

    def __init__(self, folder: Path, driver: Path, wish: Wish) -> None:
        folder.mkdir(parents=True)
        self._wish = wish
        self.stubs = GpuStubs(folder / "stubs", driver)
        _by_the_system_s_python(self.stubs.bin / "nvidia-smi")
        self.stubs.smi(cards=wish.gpu.cards, apps=wish.gpu.apps)
        self.stubs.driver(**wish.gpu.driver)
        self._uptime = folder / "uptime"
        if wish.own_clock:
            self._uptime.write_text("1000.00 1.00\n")
            put_program(self.stubs.bin / "sleep", "#!/bin/sh\nexec /bin/sleep 0.2\n")
        path = self._library_path(folder)
        super().__init__(
            folder, authorize=False,
            env={"HOME": self._home_inside(folder), "PATH": self._path, "LD_LIBRARY_PATH": path},
        )  # fmt: skip
        for line in wish.keys:
            self.authorize(line)
        self._forwards: list[Forward] = []

    @property
    def ssh_port(self) -> int:
        return self.port

    @property
    def _path(self) -> str:
        return f"{self.stubs.bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

    def authorize(self, line: str | None = None) -> None:
        if line is not None and line.strip() not in self.authorized_keys.read_text().splitlines():
            super().authorize(line.strip())

    def start(self) -> None:
        if os.getuid() == 0:
            _PRIVSEP.mkdir(mode=0o755, exist_ok=True)
        config = self.folder / "sshd_config"
        config.write_text("\n".join(self._config()) + "\n")
        (self.folder / "onstart").write_text(self._wish.onstart)
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._apart(), "sh", "-c", self._first(config)], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True, cwd=self.folder,
                env={"PATH": self._path, "HOME": self._home_inside(self.folder), **self._wish.env, **self._mark()},
            )  # fmt: skip
        wait_until(self._answers, seconds=20.0, what="the machine's sshd answers")
        for inside, protocol in self._wish.ports:
            outside = self._wish.outside.get((inside, protocol))
            if outside is not None:
                self._forwards.append(Forward(outside, inside, protocol))

    def advance(self, seconds: float) -> None:
        """Its own clock goes on by so much."""
        now = float(self._uptime.read_text().split()[0])
        self._uptime.write_text(f"{now + seconds:.2f} 1.00\n")

    def close(self) -> None:
        for forward in self._forwards:
            forward.close()
        self._forwards.clear()
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
        self.stop()

    def _mark(self) -> dict[str, str]:
        return {"SUPPORT_SSHD": self._token}

    def _apart(self) -> list[str]:
        if os.getuid() != 0:
            return []
        return ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc"]

    def _first(self, config: Path) -> str:
        own_root = f"mount --bind {self.home} /root && " if os.getuid() == 0 else ""
        if self._wish.own_clock:
            own_root += f"mount --bind {self._uptime} /proc/uptime && "
        # A container's first process goes on whatever the start-up script does.
        return f"{own_root}cd; sh {self.folder}/onstart & {SSHD} -D -e -f {config}; wait"

    @staticmethod
    def _home_inside(folder: Path) -> str:
        return "/root" if os.getuid() == 0 else str(folder / "home")

    def _library_path(self, folder: Path) -> str:
        usual = str(self.stubs.driver_folder)
        if not self._wish.gpu.compat:
            return usual
        return f"{self.stubs.driver(folder / 'cuda-12.8' / 'compat', init=804)}:{usual}"


def _by_the_system_s_python(program: Path) -> None:
    """The tests' own interpreter may lie below /root, which the machine doesn't see."""
    put_program(program, "#!/usr/bin/python3 -IS\n" + program.read_text().partition("\n")[2])


class Forward:
    """Passes what comes to port `outside` on to port `inside`, both on 127.0.0.1, and back."""

    def __init__(self, outside: int, inside: int, protocol: str) -> None:
        kind = socket.SOCK_DGRAM if protocol == "udp" else socket.SOCK_STREAM
        self._inside = ("127.0.0.1", inside)
        self._door = socket.socket(socket.AF_INET, kind)
        self._door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._door.bind(("127.0.0.1", outside))
        self._ways: dict[Any, Any] = {}
        self._selector = selectors.DefaultSelector()
        self._over = threading.Event()
        if protocol == "tcp":
            self._door.listen()
        self._door.setblocking(False)
        self._selector.register(self._door, selectors.EVENT_READ)
        self._step = self._datagram if protocol == "udp" else self._stream
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop; idempotent."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            for key, _ in self._selector.select(0.05):
                with contextlib.suppress(OSError):
                    self._step(key.fileobj)
        for sock in [key.fileobj for key in self._selector.get_map().values()]:
            sock.close()  # type: ignore[union-attr]
        self._selector.close()

    def _datagram(self, sock: Any) -> None:
        if sock is not self._door:
            self._door.sendto(sock.recv(65535), self._ways[sock])
            return
        data, peer = self._door.recvfrom(65535)
        way = self._ways.get(peer)
        if way is None:
            way = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            way.connect(self._inside)
            self._ways[peer], self._ways[way] = way, peer
            self._selector.register(way, selectors.EVENT_READ)
        way.send(data)

    def _stream(self, sock: Any) -> None:
        if sock is self._door:
            client, _ = self._door.accept()
            inner = socket.create_connection(self._inside, timeout=2)
            self._ways[client], self._ways[inner] = inner, client
            for one in (client, inner):
                self._selector.register(one, selectors.EVENT_READ)
            return
        data = sock.recv(65536)
        other = self._ways[sock]
        if data:
            other.sendall(data)
            return
        for one in (sock, other):
            self._selector.unregister(one)
            one.close()


@contextlib.contextmanager
def sandboxes(folder: Path, driver: Path) -> Iterator[Sandboxes]:
    """Sandboxes that are all gone at the end."""
    made = Sandboxes(folder, driver)
    try:
        yield made
    finally:
        made.close()


def a_port(protocol: str) -> int:
    """A free port for the outside of a machine."""
    if protocol == "tcp":
        return free_port()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        number: int = sock.getsockname()[1]
        return number


def has(program: str) -> bool:
    """Whether this computer has a program."""
    return shutil.which(program) is not None
