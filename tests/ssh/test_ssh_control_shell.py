"""`Remote.ask`: framed answers over one long-lived shell."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support_sshd import Relay, Sshd

from gipper.errors import CommandTimeout, ConnectionLost, RemoteError
from gipper.remote import Completed
from gipper.runtime import RealRuntime
from gipper.ssh.framing import FrameReader, MarkerFilter
from gipper.ssh.quoting import frame
from gipper.ssh.remote import SshRemote

Dial = Callable[..., SshRemote]


@pytest.mark.parametrize("status", [0, 1, 7, 137, 255])
def test_status_is_exact(remote: SshRemote, status: int) -> None:
    """A script's exit ends the script, not the shell, and its status is exact."""
    assert remote.ask(f"exit {status}").status == status
    assert remote.ask("true").status == 0


@pytest.mark.parametrize(
    "script",
    [
        "echo 'unbalanced",
        'echo "',
        "(",
        "}",
        "cat <<END\n",
        "if",
        "case x in",
        "echo $(",
        "\\",
        "exec 1>&-",
        "`",
    ],
)
def test_broken_scripts_break_nothing(remote: SshRemote, script: str) -> None:
    """Whatever is wrong with a script, it has an answer and so has the next one."""
    remote.ask(script, timeout_s=20)
    assert remote.ask("echo next").stdout == b"next\n"


def test_scripts_dont_meet(remote: SshRemote) -> None:
    """Folder, variables and redirections of one script are not seen by the next."""
    remote.ask("cd /; X=1; export X; exec >/dev/null 2>&1; set -x; trap 'echo bye' EXIT")
    first, second = remote.ask("pwd; echo ${X-unset}").text.split("\n")
    assert (first != "/", second) == (True, "unset")


def test_stdin_is_empty(remote: SshRemote) -> None:
    """A script that reads gets nothing: the next request is not its input."""
    assert remote.ask("cat; read x; echo $?").text == "1"
    assert remote.ask("echo still").text == "still"


def test_streams_and_bytes(remote: SshRemote) -> None:
    """Both streams are exact, whatever bytes they hold, with or without a last line end."""
    done = remote.ask(r"printf 'a\000\377\n\n'; printf '\376err' >&2")
    assert done == Completed(status=0, stdout=b"a\0\xff\n\n", stderr=b"\xfeerr")


def test_large_answer_is_cut_not_stuck(remote: SshRemote) -> None:
    """20 MiB on each stream keep their first 4 MiB, and the status."""
    done = remote.ask("head -c 20971520 /dev/zero; head -c 20971520 /dev/zero >&2; exit 9")
    assert (done.status, len(done.stdout), len(done.stderr)) == (9, 4 << 20, 4 << 20)
    assert remote.ask("echo next").text == "next"


def test_death_by_signal(remote: SshRemote) -> None:
    """A script that kills itself ends with 128 + n and leaves the shell alive."""
    assert remote.ask("kill -9 $$").status == 137
    assert remote.ask("echo next").text == "next"


def test_killed_shell_is_replaced(remote: SshRemote) -> None:
    """A script that kills the control shell is an error, not a lost link; the next one gets a new shell."""
    with pytest.raises(RemoteError) as caught:
        remote.ask("kill -9 $PPID", timeout_s=20)
    assert not isinstance(caught.value, CommandTimeout)
    assert remote.ask("echo next").text == "next"


def test_deadline_then_a_new_shell(remote: SshRemote) -> None:
    """A script over its limit is given up, and doesn't delay the next one."""
    with pytest.raises(CommandTimeout):
        remote.ask("exec sleep 100", timeout_s=0.5)
    assert remote.ask("echo next", timeout_s=10).text == "next"


def test_one_round_trip(sshd: Sshd, dial: Dial) -> None:
    """An answer on the open shell costs one burst from here, whatever the script prints."""
    with Relay(sshd.port) as relay:
        remote = dial(sshd.target(addresses=[relay.address]))
        remote.ask("true")
        relay.reset_counts()
        # Only bursts after a burst of the server count, so that the first request is free.
        for _ in range(6):
            remote.ask("echo a; echo b >&2; exit 3")
        assert relay.round_trips <= 6


def test_askers_take_turns(remote: SshRemote, runtime: RealRuntime) -> None:
    """Several tasks may ask at once; each gets its own answer."""
    tasks = [runtime.spawn("ask", lambda i=i: remote.ask(f"echo {i}; exit {i}")) for i in range(30)]
    answers = [task.result() for task in tasks]
    assert [(a.status, a.text) for a in answers] == [(i, str(i)) for i in range(30)]


def test_after_close(remote: SshRemote) -> None:
    """A closed remote answers ConnectionLost to everything, and can be closed again."""
    remote.ask("true")
    remote.close()
    remote.close()
    for call in (lambda: remote.ask("true"), lambda: remote.run("true"), lambda: remote.open_channel("true")):
        with pytest.raises(ConnectionLost):
            call()


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=st.text(st.sampled_from(" \n'\"\\$`(){}|;<>#!*?[]~=%abc0\t\x7fé"), max_size=40))
def test_fuzzed_scripts_never_lose_the_frame(remote: SshRemote, script: str) -> None:
    """Shell text made of the worst characters can't forge, break or swallow the next answer.

    (No "&": what is left in the background writes when it likes, and must not hold the streams.)
    """
    try:
        remote.ask(f"cd / && PATH=/nonexistent && ulimit -f 0 && eval '' \n{script}", timeout_s=20)
    except RemoteError as error:
        assert not isinstance(error, ConnectionLost)
    assert remote.ask("echo next; exit 3") == Completed(status=3, stdout=b"next\n")


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    borders = [0, *sorted(c % (len(data) + 1) for c in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(borders)]


CUTS = st.lists(st.integers(0, 10_000), max_size=12)


@given(noise=st.binary(max_size=300), body=st.binary(max_size=300), status=st.integers(0, 255), cuts=CUTS)
def test_frame_reader_is_exact_however_bytes_arrive(
    noise: bytes, body: bytes, status: int, cuts: list[int]
) -> None:
    """The body and status come out exactly, for all bodies and all ways to cut the stream."""
    reader = FrameReader("MARK", 1 << 20)
    stream = noise + b"\nMARK{\n" + body + b"\nMARK} %d\n" % status
    for piece in pieces(stream, cuts):
        assert not reader.done
        reader.feed(piece)
        if reader.done:
            break
    assert (reader.done, reader.status, reader.value()) == (True, status, body)


@given(noise=st.binary(max_size=2000), body=st.binary(max_size=300), cuts=CUTS)
def test_marker_filter_is_exact_however_bytes_arrive(noise: bytes, body: bytes, cuts: list[int]) -> None:
    """Nothing before the marker's line end, everything after it."""
    marked = MarkerFilter("MARK")
    out = b"".join(marked.feed(piece) for piece in pieces(noise + b"\nMARK\n" + body, cuts))
    assert (marked.seen, out) == (True, body)


@given(size=st.integers(0, 3_000), limit=st.integers(0, 2_000), step=st.integers(1, 999))
def test_frame_reader_keeps_the_first_bytes(size: int, limit: int, step: int) -> None:
    """Over its limit a frame keeps its beginning and still finds its end."""
    body = bytes(i % 251 for i in range(size))
    reader = FrameReader("MARK", limit)
    stream = b"\nMARK{\n" + body + b"\nMARK} 4\n"
    for at in range(0, len(stream), step):
        reader.feed(stream[at : at + step])
    assert (reader.done, reader.status, reader.value()) == (True, 4, body[:limit])


def test_frame_is_one_request() -> None:
    """A frame ends with its only unquoted line end, so that the shell needs nothing more to run it."""
    assert frame("a\nb", "M").endswith(b">&2\n")
