"""`Remote.run`: exact statuses, exact bytes, deadlines."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support_root import need_bash_login
from support_sshd import Sshd, wait_until

from gipper.errors import CommandTimeout, ConnectionLost, RemoteError
from gipper.runtime import RealRuntime
from gipper.ssh.quoting import MAX_SCRIPT, exec_line, quote
from gipper.ssh.remote import SshRemote

Dial = Callable[..., SshRemote]
MIB = 1 << 20


@pytest.mark.parametrize("status", [0, 1, 7, 126, 127, 128, 137, 254, 255])
def test_status_is_the_commands_own(remote: SshRemote, status: int) -> None:
    """An exit status comes back as it was given, 255 included."""
    assert remote.run(f"exit {status}").status == status


@pytest.mark.parametrize(("name", "number"), [("KILL", 9), ("TERM", 15), ("SEGV", 11), ("HUP", 1)])
def test_death_by_signal_is_128_plus_n(remote: SshRemote, name: str, number: int) -> None:
    """A command that a signal ended has status 128 + n, never -1."""
    assert remote.run(f"kill -{name} $$").status == 128 + number


def test_streams_are_kept_apart(remote: SshRemote) -> None:
    """stdout and stderr each hold what was written to them and nothing else."""
    done = remote.run("echo out; echo err >&2")
    assert (done.stdout, done.stderr, done.text) == (b"out\n", b"err\n", "out")


def test_d_053_both_streams_full(remote: SshRemote) -> None:
    """5 MiB on each stream at once arrive whole, without a hang."""
    script = "head -c 5242880 /dev/zero & head -c 5242880 /dev/zero >&2; wait; exit 3"
    done = remote.run(script, limit=6 * MIB, timeout_s=60)
    assert (done.status, len(done.stdout), len(done.stderr)) == (3, 5 * MIB, 5 * MIB)


def test_d_053_one_after_the_other(remote: SshRemote) -> None:
    """More than every window on stderr before the first byte of stdout is no deadlock either."""
    script = "head -c 20971520 /dev/zero >&2; head -c 20971520 /dev/zero"
    done = remote.run(script, limit=32 * MIB, timeout_s=60)
    assert (done.status, len(done.stdout), len(done.stderr)) == (0, 20 * MIB, 20 * MIB)


def test_output_over_the_limit_is_cut(remote: SshRemote) -> None:
    """The first `limit` bytes are kept, the command still runs to its end."""
    done = remote.run("seq 1 100000; exit 5", limit=10)
    assert (done.status, done.stdout) == (5, b"1\n2\n3\n4\n5\n")


def test_d_057_bytes_that_are_not_text(remote: SshRemote) -> None:
    """Bytes of no encoding, and characters cut at any border, come through unchanged."""
    data = b"\xff\xfe" + "é".encode() * 100_000 + b"\0\r\n\x1b[0m"
    assert remote.run("cat", stdin=data).stdout == data


def test_large_stdin_beside_large_output(remote: SshRemote) -> None:
    """A command that answers while it is still fed blocks neither side."""
    data = bytes(range(256)) * (24 * MIB // 256)
    done = remote.run("tee /dev/stderr", stdin=data, limit=32 * MIB, timeout_s=60)
    assert done.stdout == data
    assert done.stderr == data


def test_stdin_that_nobody_reads(remote: SshRemote) -> None:
    """A command may leave its input unread, however large, and keeps its status."""
    assert remote.run("exit 4", stdin=bytes(8 * MIB)).status == 4


def test_deadline(remote: SshRemote) -> None:
    """A command that doesn't end is given up at the deadline; the connection stays usable."""
    with pytest.raises(CommandTimeout):
        remote.run("exec sleep 100", timeout_s=0.5)
    assert remote.run("echo on").text == "on"


def test_d_052_left_in_the_background(remote: SshRemote) -> None:
    """A start returns although what it started holds the streams open."""
    done = remote.run("sleep 60 & echo started", timeout_s=30)
    assert (done.status, done.text) == (0, "started")


def test_d_052_detached(remote: SshRemote) -> None:
    """A detached start returns with its status; a start that fails says so."""
    assert remote.run("setsid sleep 60 </dev/null >/dev/null 2>&1 &").status == 0
    failed = remote.run("cd /nonexistent-folder && setsid sleep 60 </dev/null >/dev/null 2>&1")
    assert failed.status != 0
    assert b"nonexistent-folder" in failed.stderr


def test_d_035_chatty_shells(tmp_path: Path, dial: Dial) -> None:
    """Start files that print on both streams and a banner of 40 lines change no byte of an answer."""
    need_bash_login()
    banner = tmp_path / "banner"
    banner.write_text("".join(f"line {i} of {{a banner\n" for i in range(40)))
    with Sshd(tmp_path / "sshd", extra=[f"Banner {banner}"]) as sshd:
        (sshd.home / ".bashrc").write_text(
            "echo 'Welcome {not json}'; echo warning >&2; printf 'no line end'\n"
        )
        remote = dial(sshd.target())
        noisy = subprocess.run(
            ["ssh", *sshd.ssh_options(), sshd.host, "echo x"], check=True, capture_output=True
        )
        done = remote.run("printf out; printf err >&2; exit 6")
        asked = remote.ask("printf out; printf err >&2; exit 6")
        channel = remote.open_channel("cat; printf err >&2; exit 6")
        channel.write(b"out")
        channel.close_write()
        copied = channel.read(100)
        assert (channel.read(100), channel.status(10), channel.poll_stderr()) == (b"", 6, b"err")
        channel.close()
    assert b"Welcome" in noisy.stdout, "the test's start file was not read at all"
    assert (done.status, done.stdout, done.stderr) == (6, b"out", b"err")
    assert (asked.status, asked.stdout, asked.stderr) == (6, b"out", b"err")
    assert copied == b"out"


def test_start_file_that_exits_is_a_failure(sshd: Sshd, dial: Dial) -> None:
    """Status 0 without our marker means that the command never ran, and is told with the shell's words."""
    need_bash_login()
    (sshd.home / ".bashrc").write_text("echo this account is closed; exit 0\n")
    remote = dial(sshd.target())
    with pytest.raises(RemoteError, match="this account is closed") as caught:
        remote.run("true")
    assert not isinstance(caught.value, ConnectionLost)
    with pytest.raises(RemoteError):
        remote.ask("true", timeout_s=10)


def test_sessions_end_is_connection_lost(sshd: Sshd, remote: SshRemote, runtime: RealRuntime) -> None:
    """A session that dies under a command is ConnectionLost, never a status."""
    task = runtime.spawn("run", lambda: remote.run("echo $$ > ~/started; exec sleep 100", timeout_s=60))
    wait_until((sshd.home / "started").exists, what="command began")
    sshd.kill_sessions()
    with pytest.raises(ConnectionLost, match=str(sshd.port)):
        task.result()
    with pytest.raises(ConnectionLost):
        remote.run("true")


def test_more_commands_than_channels(remote: SshRemote, runtime: RealRuntime) -> None:
    """40 commands at once share the few channels that a server grants; none is refused."""
    tasks = [runtime.spawn("run", lambda i=i: remote.run(f"echo {i}").text) for i in range(40)]
    assert [task.result() for task in tasks] == [str(i) for i in range(40)]


@pytest.mark.parametrize("command", ["true \0", "x" * (MAX_SCRIPT + 1)])
def test_what_no_machine_can_run_is_refused(remote: SshRemote, command: str) -> None:
    """A NUL or more than an argument may hold is refused here, not cut on the way."""
    with pytest.raises(RemoteError):
        remote.run(command)
    with pytest.raises(RemoteError):
        remote.ask(command)


def test_long_command(remote: SshRemote) -> None:
    """A command just under the limit arrives whole."""
    text = "x" * (MAX_SCRIPT - 100)
    assert remote.run(f"printf %s {text}").stdout == text.encode()
    assert remote.ask(f"printf %s {text}").stdout == text.encode()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=200))
def test_any_text_survives_every_quoting(remote: SshRemote, text: str) -> None:
    """Whatever a word holds, the remote command sees the same word, by run and by ask."""
    command = f"printf %s {quote(text)}"
    assert remote.run(command).stdout == text.encode()
    assert remote.ask(command).stdout == text.encode()


@settings(deadline=None)
@given(command=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=100))
def test_exec_line_holds_nothing_that_another_shell_reads(command: str) -> None:
    """Between its quotes the line has no quote, line end or `!`, which csh and fish read even there."""
    line = exec_line(command, "m")
    assert line.count("'") == 4
    assert not set("\n\r!") & set(line)
