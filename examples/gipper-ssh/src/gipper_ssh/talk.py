"""One conversation with a box through OpenSSH's client: its hello, our script, its answer.

The script goes out only after the hello, so that a box that wasn't reached surely did nothing.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Final

import attrs

from gipper_ssh.scripts import PREFIX

Clock = Callable[[], float]
_MOST_BYTES: Final = 1 << 20
_PASSED_ON: Final = ("HOME", "PATH", "USER", "LOGNAME", "SSH_AUTH_SOCK", "TMPDIR", "LANG", "KRB5CCNAME")


class NotReached(Exception):
    """The box didn't say hello: nothing was sent to it."""


class Lost(Exception):
    """The script was sent and no whole answer came back: nobody knows what the box did."""


@attrs.frozen(kw_only=True)
class Answer:
    """What the box said, in order, as (key, value)."""

    said: tuple[tuple[str, str], ...]

    def first(self, key: str) -> str | None:
        """The first value of `key`, None where the box didn't say it."""
        return next((value for k, value in self.said if k == key), None)

    def every(self, key: str) -> tuple[str, ...]:
        """All values of `key`."""
        return tuple(value for k, value in self.said if k == key)


def talk(
    argv: Sequence[str],
    script: Callable[[float], str],
    *,
    clock: Clock,
    hello_s: float,
    answer_s: float,
    keep: Sequence[int] = (),
) -> Answer:
    """Start `argv`, wait `hello_s` s for the hello, send `script(uptime)`, wait `answer_s` for the rest.

    `keep` are file descriptors that ssh holds open as long as it lives. Raises NotReached and Lost.
    """
    with tempfile.TemporaryFile() as errors:
        try:
            process = _start(argv, errors, keep)
        except OSError as error:
            raise NotReached(f"{argv[0]} can't be started: {error.strerror}") from error
        try:
            return _Talk(process, errors, clock).run(script, hello_s, answer_s)
        finally:
            _stop(process)


def _start(argv: Sequence[str], errors: IO[bytes], keep: Sequence[int]) -> subprocess.Popen[bytes]:
    # A session of its own: Ctrl-C at the terminal is for gipper, which then ends things in order.
    return subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env=passed_on(os.environ),
        pass_fds=tuple(keep),
        start_new_session=True,
        bufsize=0,
    )


def passed_on(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that ssh is given: no keys of providers are among them."""
    return {name: env[name] for name in _PASSED_ON if name in env}


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


class _Talk:
    def __init__(self, process: subprocess.Popen[bytes], errors: IO[bytes], clock: Clock) -> None:
        self._process = process
        self._errors = errors
        self._clock = clock
        self._heard = b""

    def run(self, script: Callable[[float], str], hello_s: float, answer_s: float) -> Answer:
        uptime = self._hello(self._clock() + hello_s)
        self._send(script(uptime).encode())
        whole = self._listen(self._clock() + answer_s, lambda: False)
        said = _said(self._heard)
        if not said or said[-1][0] != "end":
            raise Lost(self._why("it broke off") if whole else "no answer in time")
        return Answer(said=said)

    def _hello(self, until: float) -> float:
        ended = self._listen(until, lambda: _uptime(self._heard) is not None)
        uptime = _uptime(self._heard)
        if uptime is None:
            raise NotReached(self._why("it let us in, but ran nothing") if ended else "no answer in time")
        return uptime

    def _send(self, script: bytes) -> None:
        assert self._process.stdin is not None
        # Where the other side is gone, the answer's absence says so.
        with contextlib.suppress(OSError):
            self._process.stdin.write(script)
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def _listen(self, until: float, enough: Callable[[], bool]) -> bool:
        """Read until `enough`, or the end (True), or the deadline (False)."""
        assert self._process.stdout is not None
        while not enough():
            left = until - self._clock()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                return False
            piece = os.read(self._process.stdout.fileno(), 1 << 16)
            if not piece:
                return True
            self._heard += piece
            if len(self._heard) > _MOST_BYTES:
                return False
        return False

    def _why(self, otherwise: str) -> str:
        """ssh's own last words; it has ended, or is about to."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(2)
        self._errors.seek(0)
        lines = self._errors.read(1 << 14).decode("utf-8", "replace").splitlines()
        told = [clean(line) for line in lines if line.strip()]
        return told[-1] if told else otherwise


def _said(heard: bytes) -> tuple[tuple[str, str], ...]:
    """Lines of ours that are whole; noise of the login's start files is passed over."""
    whole = heard.decode("utf-8", "replace").rpartition("\n")[0]
    ours = (line[len(PREFIX) :] for line in whole.split("\n") if line.startswith(PREFIX))
    return tuple((key, clean(value)) for key, _, value in (line.partition(" ") for line in ours))


def _uptime(heard: bytes) -> float | None:
    told = next((value for key, value in _said(heard) if key == "hello"), "")
    whole, _, rest = told.partition(".")
    known = whole.isascii() and whole.isdigit() and len(whole) < 13 and (rest or "0").isdigit()
    return float(whole) if known else None


def clean(text: str) -> str:
    """`text` as it may be shown: one line, no control characters, not long."""
    return "".join(c for c in text.strip() if c.isprintable())[:2000]
