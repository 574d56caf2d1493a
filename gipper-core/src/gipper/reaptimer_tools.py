"""The tools that a timer is made with (`systemctl`, `loginctl`, `crontab`), and what they answer."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from typing import Final, Protocol

import attrs

from gipper.errors import ConfigError

TIMEOUT_S: Final = 20.0
# What these tools need to find this user's session; keys and secrets of the environment stay here.
_PASSED: Final = (
    "HOME", "USER", "LOGNAME", "PATH", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "DBUS_SESSION_BUS_ADDRESS",
)  # fmt: skip
_EMPTY: Final = ("no crontab", "no such file")


@attrs.frozen(kw_only=True)
class Ran:
    """How a tool ended; `code` None = it isn't installed or didn't end in time."""

    code: int | None
    out: str = ""
    err: str = ""

    @property
    def ok(self) -> bool:
        """It ended with 0."""
        return self.code == 0

    @property
    def told(self) -> str:
        """Its complaint in one line."""
        return " ".join((self.err or self.out).split()) or f"exit code {self.code}"


class Runner(Protocol):
    """Runs one tool to its end."""

    def __call__(self, tool: str, *args: str, stdin: str = "") -> Ran:
        """Never raises for the tool's sake."""


def runner(env: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> Runner:
    """Tools from `env`'s PATH, in the C locale, with what they need of `env`."""
    passed = {name: env[name] for name in _PASSED if env.get(name)} | {"LC_ALL": "C"}

    def run(tool: str, *args: str, stdin: str = "") -> Ran:
        path = shutil.which(tool, path=env.get("PATH", os.defpath))
        if path is None:
            return Ran(code=None, err=f"{tool} is not installed")
        try:
            # Bytes that aren't UTF-8 come back as they were: other people's cron lines are not ours.
            done = subprocess.run(
                [path, *args], input=os.fsencode(stdin), env=passed, capture_output=True, check=False,
                timeout=timeout_s,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Ran(code=None, err=f"{tool} did not answer within {timeout_s:.0f} s")
        except OSError as error:
            return Ran(code=None, err=f"{tool} can't be started: {error.strerror}")
        return Ran(code=done.returncode, out=os.fsdecode(done.stdout), err=os.fsdecode(done.stderr))

    return run


def has_systemd(run: Runner) -> bool:
    """Whether this user has a systemd of their own that answers."""
    return run("systemctl", "--user", "show", "--property=Version").ok


def lingers(run: Runner) -> bool | None:
    """Whether this user's systemd runs while they aren't logged in; None where that can't be told."""
    ran = run("loginctl", "show-user", str(os.getuid()), "--property=Linger")
    answer = ran.out.strip().removeprefix("Linger=")
    return {"yes": True, "no": False}.get(answer) if ran.ok else None


def crontab(run: Runner) -> str | None:
    """This user's table, "" where there is none yet; None without cron. Raises ConfigError."""
    ran = run("crontab", "-l")
    if ran.ok:
        return ran.out
    if ran.code is None:
        return None
    if any(text in ran.err.lower() for text in _EMPTY):
        return ""
    raise ConfigError(f"crontab -l failed: {ran.told}", hint="look at `crontab -l` yourself")


def cron_runs(run: Runner) -> bool | None:
    """Whether a cron daemon runs here; None where that can't be told."""
    code = run("pgrep", "-x", "cron|crond|fcron").code
    return {0: True, 1: False}.get(code) if code is not None else None


def write_crontab(run: Runner, table: str) -> None:
    """Replace this user's table. Raises ConfigError."""
    ran = run("crontab", "-", stdin=table)
    if not ran.ok:
        raise ConfigError(f"crontab refused the new table: {ran.told}", hint="type `crontab -e` yourself")
