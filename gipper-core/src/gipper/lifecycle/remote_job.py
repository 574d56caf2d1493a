"""The detached job on the machine: its folder, its start (at most once) and what is known of it.

The run folder on the machine is ``gipper/<run>`` under the login's home; ``work`` in it is where the
job runs. State is files that `runner.sh` renames into place: nothing depends on a connection.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from importlib import resources
from signal import Signals
from typing import Final, Literal

import attrs

from gipper.errors import RemoteError
from gipper.remote import Completed, Remote

State = Literal["absent", "running", "done", "lost", "restarted"]
_POLL_BYTES: Final = 1 << 20
_LONG: Final = 60_000
_STATES: Final[Mapping[str, State]] = {
    "absent": "absent",
    "running": "running",
    "done": "done",
    "lost": "lost",
    "restarted": "restarted",
}
_SIGNALS: Final = frozenset(s.value for s in Signals)


@attrs.frozen(kw_only=True)
class JobPlan:
    """What the runner is given. Seconds; `env` holds no secrets, `secrets` go over stdin.

    `bootstrap` is the script that the shells of setup and command source first, or None.
    """

    run: str
    command: str
    setup: str | None
    setup_s: float
    command_s: float
    kill_grace_s: float
    env: Mapping[str, str] = attrs.field(factory=dict)
    secrets: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    bootstrap: str | None = None


@attrs.frozen(kw_only=True)
class JobEnded:
    """How the job ended. `phase` is "setup" or "command"; `code` as the shell tells it (128 + n).

    `seconds` are those of `phase`; `setup_s` those of a setup that succeeded before it, else None.
    """

    phase: Literal["setup", "command"]
    code: int
    timed_out: bool
    seconds: float
    setup_s: float | None = None

    @property
    def signal(self) -> str | None:
        """The name of the signal that `code` stands for, where it is one and not the limit's own."""
        if self.timed_out or self.code - 128 not in _SIGNALS:
            return None
        return Signals(self.code - 128).name

    @property
    def text(self) -> str:
        """One phrase for a person."""
        what = "setup" if self.phase == "setup" else "the command"
        if self.timed_out:
            return f"{what} was ended at its time limit after {self.seconds:.0f} s"
        if self.signal is not None:
            hint = ", perhaps out of memory" if self.signal == "SIGKILL" else ""
            return f"{what} was killed by {self.signal} (or exit {self.code}){hint}"
        return f"{what} exited with {self.code}"


@attrs.frozen(kw_only=True)
class Poll:
    """One look at the job: its state, the log's size then, and log bytes from the offset asked for."""

    state: State
    log_size: int
    data: bytes
    ended: JobEnded | None = None
    started: bool = False


def home_folder(remote: Remote) -> str:
    """The login's home as an absolute path."""
    home = _checked(remote.ask("cd && pwd"), "find the home folder").text
    if not home.startswith("/"):
        raise RemoteError(f"the machine's home folder is {home!r}, which is no path")
    return home


def run_folder(home: str, run: str) -> str:
    """Where the run lives on the machine."""
    return f"{home.rstrip('/')}/gipper/{run}"


def prepare(remote: Remote, folder: str) -> None:
    """Make the run folder and its work folder, 0700."""
    quoted = shlex.quote(f"{folder}/work")
    _checked(remote.ask(f"umask 077 && mkdir -p {quoted}"), "make the run folder")


def start(remote: Remote, folder: str, plan: JobPlan) -> None:
    """Start the job detached, at most once however often this is called. Raises RemoteError.

    Secrets travel over the session's stdin into a file that only the user can read, and are removed
    by the runner before the command starts.
    """
    if plan.secrets:
        _hand_over(remote, folder, plan)
    script = _start_script(folder, plan)
    # The control shell takes short scripts in one round trip; a long command goes over a stdin of its own.
    if len(script.encode()) < _LONG:
        answer = remote.ask(script, timeout_s=30.0)
    else:
        answer = remote.run("sh", stdin=script.encode(), timeout_s=60.0)
    _checked(answer, "start the job")


def poll(remote: Remote, folder: str, offset: int) -> Poll:
    """Look at the job and read its log from `offset` (bytes); at most 1 MiB at a time."""
    answer = _checked(remote.ask(_poll_script(folder, offset), timeout_s=30.0), "look at the job")
    head, _, data = answer.stdout.partition(b"\n")
    fields = head.decode("ascii", "replace").split()
    if len(fields) < 3:
        raise RemoteError(f"the machine's answer about the job makes no sense: {head[:80]!r}")
    state, size, started = fields[0], int(fields[1]), fields[2] == "1"
    ended = _ended(fields[3:]) if state == "done" else None
    return Poll(state=_state(state), log_size=size, data=data, ended=ended, started=started)


def ask_to_end(remote: Remote, folder: str, run: str) -> None:
    """Send TERM to everything that carries the run's id."""
    remote.ask(f"{_marked(folder, run)}kill -TERM $(marked) 2>/dev/null\nexit 0\n", timeout_s=30.0)


def has_ended(remote: Remote, folder: str, run: str) -> bool:
    """True where the runner wrote its end, or nothing carries the run's id any more."""
    script = f'{_marked(folder, run)}[ -f rc ] || [ -z "$(marked)" ] && echo ended\nexit 0\n'
    return remote.ask(script, timeout_s=30.0).text.strip() == "ended"


def kill(remote: Remote, folder: str, run: str) -> None:
    """Send KILL to everything that carries the run's id; returns once the runner wrote its end, or in 5 s."""
    script = f"""{_marked(folder, run)}kill -KILL $(marked) 2>/dev/null
n=0
while [ ! -f rc ] && [ "$n" -lt 25 ]; do n=$((n+1)); sleep 0.2; done
exit 0
"""
    remote.ask(script, timeout_s=30.0)


def _marked(folder: str, run: str) -> str:
    return f"""
cd {shlex.quote(folder)} || exit 0
marked() {{ for e in /proc/[0-9]*/environ; do
  tr '\\0' '\\n' 2>/dev/null <"$e" | grep -qx GIPPER_RUN_ID={run} || continue
  e=${{e#/proc/}} && echo "${{e%/environ}}"
done; }}
"""


def _hand_over(remote: Remote, folder: str, plan: JobPlan) -> None:
    lines = "".join(f"{name}={shlex.quote(value)}\n" for name, value in plan.secrets.items())
    quoted = shlex.quote(folder)
    command = (
        f"umask 077; d={quoted}; f=$d/.secrets; [ ! -w /dev/shm ] || f=/dev/shm/.gipper-{plan.run}; "
        'rm -f "$f" && cat >"$f" && printf "%s\\n" "$f" >"$d/secrets.path"'
    )
    _checked(remote.run(command, stdin=lines.encode(), timeout_s=60.0), "hand over the secrets")


def _start_script(folder: str, plan: JobPlan) -> str:
    runner = resources.files("gipper.lifecycle").joinpath("runner.sh").read_text(encoding="utf-8")
    env = {**plan.env, "GIPPER_RUN_ID": plan.run}
    files = {
        "runner.sh": runner,
        "job.sh": plan.command + "\n",
        "env.sh": "".join(f"{k}={shlex.quote(v)}\n" for k, v in env.items()),
        "run_id": plan.run + "\n",
    }
    if plan.setup is not None:
        files["setup.sh"] = plan.setup + "\n"
    if plan.bootstrap is not None:
        files["bootstrap.sh"] = plan.bootstrap
    writes = "\n".join(f"printf '%s' {shlex.quote(text)} >{name} || exit 1" for name, text in files.items())
    limits = f"{_whole(plan.setup_s)} {_whole(plan.command_s)} {_whole(plan.kill_grace_s)}"
    return f"""
umask 077
cd {shlex.quote(folder)} || exit 1
if mkdir start.lock 2>/dev/null; then
{writes}
setsid sh runner.sh {shlex.quote(folder)} {limits} </dev/null >runner.err 2>&1 &
fi
n=0
while [ ! -f pid ] && [ "$n" -lt 100 ]; do n=$((n+1)); sleep 0.1 2>/dev/null || sleep 1; done
[ -f pid ] || {{ cat runner.err >&2; exit 1; }}
"""


def _poll_script(folder: str, offset: int) -> str:
    # Size and rc are read before the bytes: "rc is there and offset >= size" proves that all was read.
    return f"""
cd {shlex.quote(folder)} 2>/dev/null || {{ echo absent 0 0; exit 0; }}
ticks() {{ s=$(cat "/proc/$1/stat" 2>/dev/null) || return; s=${{s##*) }}; set -- $s; echo "${{20}}"; }}
rc=$(cat rc 2>/dev/null)
size=$(wc -c <log 2>/dev/null || echo 0)
started=0; [ -f started ] && started=1
if [ -n "$rc" ]; then echo done $size $started $rc $(cat setup_s 2>/dev/null)
elif [ ! -f pid ]; then echo absent $size $started
else
  read -r p t b <pid
  if [ "$b" != "$(cat /proc/sys/kernel/random/boot_id)" ]; then echo restarted $size $started
  elif [ "$(ticks $p)" = "$t" ]; then echo running $size $started
  elif [ -f rc ]; then echo done $size $started $(cat rc) $(cat setup_s 2>/dev/null)
  else echo lost $size $started; fi
fi
[ ! -f log ] || tail -c +{offset + 1} log | head -c {_POLL_BYTES}
"""


def _state(text: str) -> State:
    if text not in _STATES:
        raise RemoteError(f"the machine says that the job is {text!r}")
    return _STATES[text]


def _ended(fields: list[str]) -> JobEnded:
    # The runner of an earlier gipper tells nothing of setup, nor does a job without one.
    if len(fields) not in (4, 5) or fields[0] not in ("setup", "command"):
        raise RemoteError(f"the machine's account of the job's end makes no sense: {' '.join(fields)!r}")
    phase: Literal["setup", "command"] = "setup" if fields[0] == "setup" else "command"
    setup_s = int(fields[4]) / 100 if fields[4:] and fields[4].isdecimal() else None
    return JobEnded(
        phase=phase, code=int(fields[1]), timed_out=fields[2] == "1", seconds=int(fields[3]) / 100,
        setup_s=setup_s,
    )  # fmt: skip


def _whole(seconds: float) -> int:
    return max(1, round(seconds))


def _checked(answer: Completed, what: str) -> Completed:
    if answer.status != 0:
        text = answer.stderr.decode("utf-8", "replace").strip() or answer.text or "no text"
        raise RemoteError(f"could not {what} on the machine (exit {answer.status}): {text[:300]}")
    return answer
