"""Who gets in, and what a machine knows of the process that rented it."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import paramiko
import pytest

from gipper.api import MachineState

SECRET = "k-0123456789-very-secret"


def test_other_keys_are_refused(market: Any, tmp_path: Path) -> None:
    """A key that isn't the request's own doesn't get in."""
    other = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other], check=True)
    with pytest.raises(paramiko.AuthenticationException):
        market.connect(market.rent(), key_filename=str(other))


def test_passwords_are_refused(market: Any) -> None:
    """Neither a password nor no credential at all is even offered as a way in."""
    machine = market.rent()
    with pytest.raises(paramiko.BadAuthenticationType) as refused:
        market.connect(machine, key_filename=None, password="")
    assert refused.value.allowed_types == ["publickey"]
    transport = paramiko.Transport((machine.addresses[0].host, machine.addresses[0].port))
    transport.start_client(timeout=10)
    with pytest.raises(paramiko.BadAuthenticationType):
        transport.auth_none("gipper")
    transport.close()


def test_other_users_are_refused(market: Any) -> None:
    """The right key under another user's name doesn't get in."""
    with pytest.raises(paramiko.AuthenticationException):
        market.connect(market.rent(), user="root")


def test_forwarding_is_refused(market: Any) -> None:
    """The machine opens no connections on behalf of its client."""
    transport = market.connect(market.rent()).get_transport()
    with pytest.raises(paramiko.ChannelException):
        transport.open_channel("direct-tcpip", ("127.0.0.1", 1), ("127.0.0.1", 2), timeout=10)


def test_the_host_key_is_the_announced_one(market: Any) -> None:
    """The server proves the key that `Machine.host_key` names, a fresh one for each machine."""
    machines = [market.rent("gipper-a"), market.rent("gipper-b")]
    for machine in machines:
        key = market.connect(machine).get_transport().get_remote_server_key()
        assert machine.host_key == f"ssh-ed25519 {base64.b64encode(key.asbytes()).decode()}"
    assert machines[0].host_key != machines[1].host_key


def test_only_loopback_is_listened_on(market: Any) -> None:
    """All that the machine listens on is the one port on 127.0.0.1 that it tells."""
    machine = market.rent()
    pid = market.record(machine.id)["pid"]
    links = [os.readlink(f) for f in Path(f"/proc/{pid}/fd").iterdir()]
    inodes = {link[8:-1] for link in links if link.startswith("socket:[")}
    listening = []
    for table in ("tcp", "tcp6", "udp", "udp6"):
        rows = [line.split() for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]]
        listening += [row[1] for row in rows if row[9] in inodes]
    assert listening == [f"0100007F:{machine.addresses[0].port:04X}"]


def test_provider_keys_never_reach_the_machine(market: Any) -> None:
    """A provider's key in the renting process's environment is neither the server's nor a session's."""
    process = market.elsewhere("gipper-env", env={"VAST_API_KEY": SECRET, "LD_LIBRARY_PATH": "/nowhere"})
    machine = market.running(process.stdout.readline().strip())
    environ = Path(f"/proc/{market.record(machine.id)['pid']}/environ").read_bytes()
    seen = market.ssh(machine, "env; cat /proc/$PPID/environ | tr '\\0' '\\n'").stdout
    process.communicate()
    for text in (environ, seen):
        assert SECRET.encode() not in text and b"VAST_API_KEY" not in text
        assert b"LD_LIBRARY_PATH=/nowhere" in text
    files = [f for f in (market.machines / machine.id).rglob("*") if f.is_file()]
    assert files and not any(SECRET.encode() in f.read_bytes() for f in files)


def test_no_descriptor_is_inherited(market: Any, tmp_path: Path) -> None:
    """An open file of the renting process, even an inheritable one, isn't open in the machine."""
    with (tmp_path / "ledger").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        machine = market.rent()
    pid = market.record(machine.id)["pid"]
    links = [os.readlink(f) for f in Path(f"/proc/{pid}/fd").iterdir()]
    assert str(tmp_path / "ledger") not in links
    assert os.readlink(f"/proc/{pid}/fd/0") == os.devnull
    log = str(market.machines / machine.id / "server.log")
    assert [os.readlink(f"/proc/{pid}/fd/{n}") for n in (1, 2)] == [log, log]


def test_ctrl_c_of_the_renting_terminal_does_not_reach_the_machine(market: Any) -> None:
    """SIGINT for the renting process's whole group ends it and not the machine, which has its own session."""
    process = market.elsewhere("gipper-int")
    machine = market.running(process.stdout.readline().strip())
    pid = market.record(machine.id)["pid"]
    assert os.getsid(pid) == pid
    os.killpg(process.pid, signal.SIGINT)
    process.communicate()
    assert market.provider.gipper_describe(machine.id).state is MachineState.RUNNING
    assert market.ssh(machine, "exit 3").returncode == 3


def test_files_are_private(market: Any) -> None:
    """Nothing in a machine's folder can be read by others, nor what a session makes there."""
    machine = market.rent()
    assert market.ssh(machine, "mkdir d; echo x > d/f").returncode == 0
    folder = market.machines / machine.id
    for path in (folder, *folder.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path


def test_the_jobs_variables_are_in_sessions(market: Any) -> None:
    """`request.env` reaches sessions, and can't replace what makes the machine itself."""
    machine = market.rent(env={"ANSWER": "42", "HOME": "/", "GIPPER_LOCAL_MACHINE": "other"})
    done = market.ssh(machine, 'echo "$ANSWER $GIPPER_LOCAL_MACHINE"; test "$HOME" != /')
    assert (done.returncode, done.stdout) == (0, f"42 {machine.id}\n".encode())
