"""A real local provider on a temporary data folder, and the proof that a test left no process."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import paramiko
import pytest

from gipper.api import Machine
from gipper.builtin.local import LocalProvider

RENTER = Path(__file__).with_name("renter.py")


def _load_renter() -> ModuleType:
    spec = importlib.util.spec_from_file_location("local_renter", RENTER)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


renter = _load_renter()


def until(true: Callable[[], Any], what: str, seconds: float = 20.0) -> Any:
    """Poll `true` until it is; its value."""
    deadline = time.monotonic() + seconds
    while not (value := true()):
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.01)
    return value


class Market:
    """One provider with its key, and short words for what tests do with it."""

    def __init__(self, folder: Path, usd_h: str = "0") -> None:
        self.data = folder / "data"
        self.data.mkdir(mode=0o700)
        self.key = folder / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.key], check=True)
        self.public_key = self.key.with_suffix(".pub").read_text()
        self.provider = LocalProvider(renter.Context(self.data, usd_h))
        self.machines = self.data / "machines"
        self.clients: list[paramiko.SSHClient] = []

    until = staticmethod(until)

    def request(self, name: str = "gipper-test", life_s: float = 120.0, **more: Any) -> Any:
        return renter.request(name, self.public_key, life_s, **more)

    def rent(self, name: str = "gipper-test", life_s: float = 120.0, **more: Any) -> Machine:
        """Rent and wait until it runs."""
        machine = self.provider.gipper_rent(renter.offer(), self.request(name, life_s, **more))
        return self.running(machine.id)

    def running(self, machine_id: str) -> Machine:
        def look() -> Machine | None:
            machine = self.provider.gipper_describe(machine_id)
            assert machine is not None, "the machine is gone"
            return machine if machine.addresses else None

        return until(look, "the machine runs")

    def elsewhere(self, name: str, life_s: float = 120.0, env: dict[str, str] | None = None) -> Any:
        """A process that rents, in its own session, with its first line ("go") already read."""
        process = subprocess.Popen(
            [sys.executable, RENTER, self.data, self.key.with_suffix(".pub"), name, str(life_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
        assert process.stdout and process.stdout.readline() == "go\n"
        return process

    def record(self, machine_id: str) -> dict[str, Any]:
        return json.loads((self.machines / machine_id / "machine.json").read_text())

    def connect(self, machine: Machine, user: str = "gipper", **more: Any) -> paramiko.SSHClient:
        client = paramiko.SSHClient()
        client.set_missing_host_key_policy(paramiko.AutoAddPolicy())
        options = {"key_filename": str(self.key), "allow_agent": False, "look_for_keys": False, **more}
        address = machine.addresses[0]
        sock = socket.create_connection((address.host, address.port), timeout=10)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.connect(address.host, address.port, user, sock=sock, timeout=10, **options)
        self.clients.append(client)
        return client

    def ssh(self, machine: Machine, *command: str, first: tuple[str, ...] = (), **more: Any) -> Any:
        """Run OpenSSH's client; the finished process."""
        argv = ["ssh", *first, *self.options(machine), "-p", str(machine.addresses[0].port)]
        argv += ["gipper@127.0.0.1", *command]
        return subprocess.run(argv, capture_output=True, timeout=60, **more)

    def options(self, machine: Machine) -> list[str]:
        known = self.key.with_name("known_hosts")
        known.write_text(f"{machine.id} {machine.host_key}\n")
        pairs = {"UserKnownHostsFile": known, "HostKeyAlias": machine.id, "StrictHostKeyChecking": "yes"}
        pairs |= {"BatchMode": "yes", "IdentitiesOnly": "yes", "LogLevel": "ERROR"}
        return ["-F", "none", "-i", str(self.key), *(x for k, v in pairs.items() for x in ("-o", f"{k}={v}"))]

    def processes(self) -> list[int]:
        """Living processes that belong to a machine of this data folder."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid() and self._ours(entry):
                found.append(int(entry.name))
        return found

    def _ours(self, entry: Path) -> bool:
        try:
            environ = (entry / "environ").read_bytes()
            return b"GIPPER_LOCAL_MACHINE=" in environ and str(self.data).encode() in environ
        except OSError:
            return False

    def close(self) -> None:
        """End every machine, and fail where anything is left."""
        for client in self.clients:
            client.close()
        for machine in self.provider.gipper_list_ours():
            self.provider.gipper_terminate(machine.id)
        assert self.processes() == []
        assert list(self.machines.iterdir()) == []


@pytest.fixture
def market(tmp_path: Path) -> Iterator[Market]:
    made = Market(tmp_path)
    yield made
    made.close()


@pytest.fixture
def new_market(tmp_path: Path) -> Iterator[Callable[..., Market]]:
    """Makes more markets, each on a data folder of its own."""
    made: list[Market] = []

    def make(**options: Any) -> Market:
        folder = tmp_path / f"market-{len(made)}"
        folder.mkdir()
        made.append(Market(folder, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()
