"""Sessions on a local machine are exact, for paramiko's client and for OpenSSH's."""

from __future__ import annotations

import hashlib
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import paramiko
import pytest
from paramiko.common import MSG_CHANNEL_DATA, MSG_CHANNEL_SUCCESS

BIG = 20 << 20


def run(client: paramiko.SSHClient, command: str | bytes) -> tuple[int, bytes, bytes]:
    _, stdout, stderr = client.exec_command(command, timeout=30)
    return stdout.channel.recv_exit_status(), stdout.read(), stderr.read()


def test_exec_runs_in_the_machines_own_home(market: Any) -> None:
    """A command runs with the machine's folder as HOME and the machine's id in its environment."""
    machine = market.rent()
    home = market.machines / machine.id / "home"
    script = 'printf "%s\\n" "$HOME" "$PWD" "$GIPPER_LOCAL_MACHINE"'
    status, out, err = run(market.connect(machine), script)
    assert (status, out.decode().split("\n")[:3], err) == (0, [str(home), str(home), machine.id], b"")


def test_300_execs_are_exact(market: Any) -> None:
    """Each of 300 short commands gives exactly its own status, stdout and stderr."""
    client = market.connect(market.rent())
    for n in range(300):
        status, out, err = run(client, f"echo out{n}; echo err{n} >&2; exit {n % 256}")
        assert (status, out, err) == (n % 256, f"out{n}\n".encode(), f"err{n}\n".encode())


def test_channels_side_by_side_are_exact(market: Any) -> None:
    """Eight channels of one connection at once don't mix their streams."""
    client = market.connect(market.rent())
    answers: dict[int, list[tuple[int, bytes, bytes]]] = {n: [] for n in range(8)}

    def work(n: int) -> None:
        for _ in range(10):
            answers[n].append(run(client, f"seq {n} {n + 2000}; exit {n}"))

    threads = [threading.Thread(target=work, args=(n,)) for n in answers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n, got in answers.items():
        want = "".join(f"{i}\n" for i in range(n, n + 2001)).encode()
        assert got == [(n, want, b"")] * 10


def test_the_answer_to_exec_precedes_output(market: Any) -> None:
    """The reply to an exec request always arrives before the first byte of output."""
    order: list[int] = []

    def noted(kind: int) -> Any:
        original = paramiko.Transport._channel_handler_table[kind]

        def handler(channel: Any, message: Any) -> None:
            order.append(kind)
            original(channel, message)

        return handler

    class Watching(paramiko.Transport):
        _channel_handler_table = {  # noqa: RUF012 - as in the class itself
            **paramiko.Transport._channel_handler_table,
            MSG_CHANNEL_SUCCESS: noted(MSG_CHANNEL_SUCCESS),
            MSG_CHANNEL_DATA: noted(MSG_CHANNEL_DATA),
        }

    client = market.connect(market.rent(), transport_factory=Watching)
    for _ in range(50):
        order.clear()
        run(client, "echo x")
        assert order[0] == MSG_CHANNEL_SUCCESS and MSG_CHANNEL_DATA in order


def test_20_mib_up_by_openssh(market: Any) -> None:
    """20 MiB through OpenSSH's stdin arrive bit for bit."""
    data = os.urandom(BIG)
    done = market.ssh(market.rent(), "sha256sum", input=data)
    assert done.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_20_mib_down_by_openssh(market: Any) -> None:
    """20 MiB from the machine arrive bit for bit at OpenSSH's stdout."""
    machine = market.rent()
    data = os.urandom(BIG)
    (market.machines / machine.id / "home" / "big").write_bytes(data)
    assert market.ssh(machine, "cat big").stdout == data


def test_20_mib_both_ways_by_paramiko(market: Any) -> None:
    """20 MiB echo through `cat` bit for bit while both directions are busy."""
    channel = market.connect(market.rent()).get_transport().open_session(timeout=10)
    channel.exec_command("cat; exit 3")
    data = os.urandom(BIG)

    def feed() -> None:
        channel.sendall(data)
        channel.shutdown_write()

    thread = threading.Thread(target=feed)
    thread.start()
    got = b"".join(iter(lambda: channel.recv(1 << 20), b""))
    thread.join()
    assert got == data
    assert channel.recv_exit_status() == 3


def test_both_streams_full(market: Any) -> None:
    """5 MiB on stdout and 5 MiB on stderr at once both arrive whole."""
    script = "head -c 5242880 /dev/zero >&2 & head -c 5242880 /dev/zero; wait; exit 6"
    done = market.ssh(market.rent(), script)
    assert (done.returncode, len(done.stdout), len(done.stderr)) == (6, 5 << 20, 5 << 20)


def test_the_end_of_stdin_reaches_the_command(market: Any) -> None:
    """After the client's end of input a command can still answer."""
    done = market.ssh(market.rent(), "cat; echo after", input=b"before\n")
    assert (done.returncode, done.stdout) == (0, b"before\nafter\n")


def test_a_command_that_does_not_read_its_input_ends(market: Any) -> None:
    """Input that nobody reads doesn't hold a finished command open."""
    done = market.ssh(market.rent(), "exit 7", input=b"x" * (4 << 20))
    assert done.returncode == 7


@pytest.mark.parametrize(
    ("script", "status"), [("exit 7", 7), ("kill -TERM $$", 143), ("kill -9 $$", 137), ("nonsense-x", 127)]
)
def test_statuses(market: Any, script: str, status: int) -> None:
    """A status is exact, and 128 + n for signal n, by both clients."""
    machine = market.rent()
    assert market.ssh(machine, script).returncode == status
    assert run(market.connect(machine), script)[0] == status


def test_commands_are_bytes(market: Any) -> None:
    """A command that isn't UTF-8 arrives as it is; one that nothing can run is refused with a status."""
    client = market.connect(market.rent())
    assert run(client, b"printf %s '\xff\xc3\xa9'") == (0, b"\xff\xc3\xa9", b"")
    status, _, text = run(client, b"echo a\0b")
    assert status == 126 and b"can't be started" in text


def test_a_detached_child_does_not_hold_the_session(market: Any) -> None:
    """A command ends although a child of it with streams of its own goes on."""
    machine = market.rent()
    done = market.ssh(machine, "setsid sleep 300 </dev/null >/dev/null 2>&1 & echo $!")
    assert done.returncode == 0
    assert Path(f"/proc/{int(done.stdout)}").exists()


def test_scp_and_sftp(market: Any, tmp_path: Path) -> None:
    """OpenSSH's scp, in both of its protocols, copies a file there and back."""
    machine = market.rent()
    source = tmp_path / "source"
    source.write_bytes(os.urandom(1 << 20))
    for number, old in enumerate(([], ["-O"])):
        argv = ["scp", *old, "-P", str(machine.addresses[0].port), *market.options(machine)]
        there = f"gipper@127.0.0.1:copy{number}"
        subprocess.run([*argv, source, there], check=True, capture_output=True, timeout=30)
        back = tmp_path / f"back{number}"
        subprocess.run([*argv, there, back], check=True, capture_output=True, timeout=30)
        assert back.read_bytes() == source.read_bytes()


def test_shell_without_a_terminal(market: Any) -> None:
    """A shell request without a terminal reads commands from stdin."""
    done = market.ssh(market.rent(), input=b"echo $((40 + 2)); exit 5\n")
    assert (done.returncode, done.stdout) == (5, b"42\n")


def test_shell_on_a_terminal(market: Any) -> None:
    """`ssh -tt` without a command is a shell on a controlling terminal, with exact status."""
    done = market.ssh(market.rent(), first=("-tt",), input=b"tty; echo a$((40 + 2)) >/dev/tty; exit 4\n")
    assert done.returncode == 4
    assert b"a42" in done.stdout and b"/dev/pts/" in done.stdout


def test_the_end_of_input_ends_a_shell_on_a_terminal(market: Any) -> None:
    """A shell on a terminal ends with the client's input."""
    assert market.ssh(market.rent(), first=("-tt",), input=b"").returncode == 0


def test_command_on_a_terminal(market: Any) -> None:
    """All output of a command on a terminal arrives, and a child left on it doesn't hold the session."""
    script = "sleep 300 & seq 1 20000; exit 9"
    done = market.ssh(market.rent(), script, first=("-tt",), stdin=subprocess.DEVNULL)
    assert done.returncode == 9
    assert done.stdout == b"".join(b"%d\r\n" % n for n in range(1, 20001))


def test_terminal_size(market: Any) -> None:
    """The terminal has the size that the client says, at first and later."""
    channel = market.connect(market.rent()).get_transport().open_session(timeout=10)
    channel.get_pty("xterm", 101, 37)
    channel.settimeout(20)
    channel.exec_command("stty size; echo $TERM; read x; stty size")
    got = b""
    while b"xterm" not in got:
        got += channel.recv(100)
    assert got.split() == [b"37", b"101", b"xterm"]
    channel.resize_pty(80, 24)
    channel.sendall(b"\n")
    assert b"".join(iter(lambda: channel.recv(100), b"")).split() == [b"24", b"80"]


def test_a_client_that_leaves_hangs_up_its_terminal(market: Any) -> None:
    """A command on a terminal ends when its client's connection is lost."""
    client = market.connect(market.rent())
    channel = client.get_transport().open_session(timeout=10)
    channel.get_pty()
    channel.settimeout(20)
    channel.exec_command("echo $$; sleep 300")
    pid = int(channel.recv(100))
    client.close()
    market.until(lambda: not Path(f"/proc/{pid}").exists(), "the command ends")


def test_a_client_that_leaves_is_noticed_at_the_next_output(market: Any) -> None:
    """A command whose client was killed gets SIGPIPE when it writes, as from OpenSSH's server."""
    client = market.connect(market.rent())
    _, stdout, _ = client.exec_command("echo $$; while echo x; do :; done")
    pid = int(stdout.readline())
    client.close()
    market.until(lambda: not Path(f"/proc/{pid}").exists(), "the command ends")


def test_many_connections_leave_no_threads(market: Any) -> None:
    """After 30 connections with a command each the server is back at its few threads."""
    machine = market.rent()
    server = Path(f"/proc/{market.record(machine.id)['pid']}")
    for _ in range(30):
        client = market.connect(machine)
        assert run(client, "true")[0] == 0
        client.close()
    market.until(lambda: len(list((server / "task").iterdir())) <= 3, "threads end")
    descriptors = len(list((server / "fd").iterdir()))
    assert descriptors < 20
