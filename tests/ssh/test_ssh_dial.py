"""Dialling: which address, which key, which error."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support_sshd import Relay, Sshd, free_port, wait_until

from gipper.errors import ConfigError, ConnectFailed, Stopped
from gipper.runtime import RealRuntime
from gipper.ssh.keys import KeyPair, ensure_key
from gipper.ssh.remote import SshDialer, SshRemote
from gipper.ssh.sockets import interleaved
from gipper.values.machines import Address

Dial = Callable[..., SshRemote]


@contextmanager
def listener(says: bytes = b"", *, hang_up: bool = False) -> Iterator[Address]:
    """Something that accepts, says `says`, and then nothing more."""
    kept: list[socket.socket] = []
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                sock, _ = server.accept()
            except OSError:
                return
            sock.sendall(says)
            if hang_up:
                sock.close()
            else:
                kept.append(sock)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield Address(host="127.0.0.1", port=server.getsockname()[1])
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(5)
        for sock in kept:
            sock.close()


@contextmanager
def agent(folder: Path, keys: int) -> Iterator[dict[str, str]]:
    """A running ssh-agent with that many foreign keys; what its users have in their environment."""
    sock = folder / "agent.sock"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(sock)], stdout=subprocess.DEVNULL)
    try:
        wait_until(sock.exists, what="agent")
        env = {**os.environ, "SSH_AUTH_SOCK": str(sock)}
        for i in range(keys):
            path = folder / f"foreign{i}"
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
            subprocess.run(["ssh-add", "-q", str(path)], check=True, env=env)
        yield {"SSH_AUTH_SOCK": str(sock)}
    finally:
        process.terminate()
        process.wait()


def test_address_and_fingerprint(sshd: Sshd, remote: SshRemote) -> None:
    """A remote tells where it is and whose key it saw, as ssh-keygen prints it."""
    printed = subprocess.run(
        ["ssh-keygen", "-lf", str(sshd.host_key_file)], check=True, capture_output=True, text=True
    )
    assert remote.address == sshd.address
    assert remote.fingerprint == printed.stdout.split()[1]


def test_closed_port(sshd: Sshd, dial: Dial) -> None:
    """A closed port is unreachable, and the text names the address."""
    address = Address(host="127.0.0.1", port=free_port())
    with pytest.raises(ConnectFailed, match=f"127.0.0.1:{address.port}") as caught:
        dial(sshd.target(addresses=[address]))
    assert caught.value.kind == "unreachable"


def test_unknown_name(sshd: Sshd, dial: Dial) -> None:
    """A host name that doesn't resolve is unreachable."""
    with pytest.raises(ConnectFailed, match=r"nowhere\.invalid:22") as caught:
        dial(sshd.target(addresses=[Address(host="nowhere.invalid")]))
    assert caught.value.kind == "unreachable"


def test_no_address(sshd: Sshd, dial: Dial, runtime: RealRuntime) -> None:
    """A machine without an address yet is unreachable, not a crash."""
    import attrs

    with pytest.raises(ConnectFailed) as caught:
        dial(attrs.evolve(sshd.target(), addresses=()))
    assert caught.value.kind == "unreachable"


@pytest.mark.parametrize("says", [b"", b"220 mail server\r\n", b"SSH-2.0-slow\r\n", b"\xff\xfe\n"])
def test_silent_server(sshd: Sshd, dial: Dial, says: bytes) -> None:
    """A server that accepts and then says nothing useful is given up at the limit."""
    with listener(says) as address, pytest.raises(ConnectFailed) as caught:
        dial(sshd.target(addresses=[address]), timeout_s=0.6)
    assert caught.value.kind == "protocol"


@pytest.mark.parametrize("says", [b"", b"HTTP/1.0 400 Bad Request\r\n\r\n", b"SSH-2.0-x\r\n" + bytes(4000)])
def test_server_that_hangs_up(sshd: Sshd, dial: Dial, says: bytes) -> None:
    """A proxy that accepts for a machine that isn't there yet is a protocol failure, at once."""
    with listener(says, hang_up=True) as address, pytest.raises(ConnectFailed) as caught:
        dial(sshd.target(addresses=[address]), timeout_s=30)
    assert caught.value.kind == "protocol"


def test_d_029_second_address(sshd: Sshd, dial: Dial) -> None:
    """Addresses are tried in order until one lets us in; silence of one leaves time for the next."""
    closed = Address(host="127.0.0.1", port=free_port())
    with listener() as silent:
        remote = dial(sshd.target(addresses=[closed, silent, sshd.address]), timeout_s=4)
    assert remote.address == sshd.address
    assert remote.run("echo in").text == "in"


def test_most_telling_cause(tmp_path: Path, dial: Dial) -> None:
    """A refused key at one address says more than a closed port at the next; both are told."""
    closed = Address(host="127.0.0.1", port=free_port())
    with Sshd(tmp_path / "sshd", authorize=False) as sshd, pytest.raises(ConnectFailed) as caught:
        dial(sshd.target(addresses=[sshd.address, closed]))
    assert caught.value.kind == "auth"
    assert str(sshd.port) in caught.value.message
    assert str(closed.port) in caught.value.message


def test_d_024_port_opens_late(tmp_path: Path, dial: Dial) -> None:
    """While sshd isn't there the dial fails as unreachable; once it is, the same dial works."""
    sshd = Sshd(tmp_path / "sshd")
    with pytest.raises(ConnectFailed) as caught:
        dial(sshd.target())
    assert caught.value.kind == "unreachable"
    with sshd:
        assert dial(sshd.target()).run("echo in").text == "in"


def test_d_030_key_accepted_late(tmp_path: Path, dial: Dial) -> None:
    """A key that isn't there yet is "auth", with the user's name; once it is, the same dial works."""
    with Sshd(tmp_path / "sshd", authorize=False) as sshd:
        with pytest.raises(ConnectFailed, match=f"refused for user {sshd.user}") as caught:
            dial(sshd.target())
        assert caught.value.kind == "auth"
        sshd.authorize()
        assert dial(sshd.target()).run("echo in").text == "in"


def test_one_try_too_many_is_auth(tmp_path: Path, dial: Dial) -> None:
    """A server that hangs up after the first refused key is told as a refused key, too."""
    strict = Sshd(tmp_path / "sshd", authorize=False, extra=["MaxAuthTries 1"])
    with strict as sshd, pytest.raises(ConnectFailed) as caught:
        dial(sshd.target())
    assert caught.value.kind == "auth"


def test_d_031_a_full_agent(tmp_path: Path, dial: Dial, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 8 foreign keys in the agent and three tries allowed, one key is offered and it is gipper's."""
    with agent(tmp_path, 8) as env, Sshd(tmp_path / "sshd", extra=["MaxAuthTries 3"]) as sshd:
        monkeypatch.setenv("SSH_AUTH_SOCK", env["SSH_AUTH_SOCK"])
        assert dial(sshd.target()).run("echo in").text == "in"
        assert (sshd.log.count("Failed publickey"), sshd.log.count("Accepted publickey")) == (0, 1)


def test_d_033_hostile_user_configuration(sshd: Sshd, dial: Dial, own_folders: Path) -> None:
    """Nothing in ~/.ssh is read: a configuration that would break every connection breaks none."""
    folder = own_folders / ".ssh"
    folder.mkdir(mode=0o700)
    (folder / "config").write_text(
        "Host *\n Port 1\n ProxyCommand false\n IdentityFile /nonexistent\n"
        " ControlMaster auto\n User nobody\n"
    )
    (folder / "id_ed25519").write_text("not a key\n")
    assert dial(sshd.target()).run("echo in").text == "in"


def test_d_034_ipv6(tmp_path: Path, dial: Dial) -> None:
    """An IPv6 address works, bare or in brackets, and is written with brackets."""
    with Sshd(tmp_path / "sshd", host="::1") as sshd:
        assert dial(sshd.target()).run("echo in").text == "in"
        bracketed = Address(host="[::1]", port=sshd.port)
        assert dial(sshd.target(addresses=[bracketed])).run("echo in").text == "in"
        assert str(sshd.address) == f"[::1]:{sshd.port}"


def test_name_with_a_dead_family(sshd: Sshd, dial: Dial) -> None:
    """A name of both families works although only one of them answers."""
    assert dial(sshd.target(addresses=[Address(host="localhost", port=sshd.port)])).run("true").status == 0


def test_families_take_turns() -> None:
    """The first address of each family comes before the second of any."""
    pairs = [(10, "a"), (10, "b"), (10, "c"), (2, "d"), (2, "e")]
    assert [a for _, a in interleaved(pairs)] == ["a", "d", "b", "e", "c"]


def test_stop_while_connecting(sshd: Sshd, runtime: RealRuntime) -> None:
    """A raised stop ends a dial that would wait for long, as Stopped."""
    stop = runtime.event()
    with listener() as silent:
        target = sshd.target(addresses=[silent])
        task = runtime.spawn("dial", lambda: SshDialer(runtime).dial(target, timeout_s=300, stop=stop))
        runtime.spawn("stop", stop.set)
        assert runtime.wait_any([task.done], runtime.monotonic() + 20) is task.done
        with pytest.raises(Stopped):
            task.result()


def test_key_that_others_can_read(sshd: Sshd, dial: Dial) -> None:
    """A key file with loose permissions is refused before anything is dialled, with the chmod."""
    sshd.key.private.chmod(0o640)
    with pytest.raises(ConfigError) as caught:
        dial(sshd.target())
    assert caught.value.hint == f"chmod 600 {sshd.key.private}"


def test_key_is_made_at_first_dial(tmp_path: Path, runtime: RealRuntime) -> None:
    """The key provider is asked before the key file is read."""
    made: list[KeyPair] = []

    def provider() -> KeyPair:
        made.append(ensure_key(tmp_path / "sshd" / "client"))
        return made[-1]

    with Sshd(tmp_path / "sshd") as sshd:
        remote = SshDialer(runtime, provider).dial(sshd.target(), timeout_s=20)
        remote.close()
    assert len(made) == 1


def test_nothing_reaches_the_terminal(sshd: Sshd, dial: Dial, capfd: pytest.CaptureFixture[str]) -> None:
    """Failures that paramiko would log as errors, with tracebacks, print nothing."""
    with listener(b"SSH-2.0-x\r\n" + bytes(4000), hang_up=True) as address, pytest.raises(ConnectFailed):
        dial(sshd.target(addresses=[address]))
    with Relay(sshd.port) as relay:
        remote = dial(sshd.target(addresses=[relay.address]))
        relay.reset()
        wait_until(lambda: not remote._control.alive, what="reset noticed")
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")
