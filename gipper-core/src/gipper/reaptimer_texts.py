"""What the reap timer installs, as text: systemd units and a cron line. Pure but for the templates.

Everything that comes from this user's paths is quoted for whoever reads it: systemd expands `%` (and, in
a command, `$`) and undoes backslashes; cron ends a command at `%`; its shell knows single quotes.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from importlib.resources import files
from typing import Final

import attrs

from gipper.errors import ConfigError

EVERY: Final = "*/15 * * * *"
_MARK: Final = "# gipper-reap"
_PLAIN: Final = re.compile(r"[\w./+@: -]+")
# `-m` alone would look in the folder that it is started in first, and that may be anybody's.
_WORDS: Final = ("-P", "-m", "gipper", "pod", "reap")


@attrs.frozen(kw_only=True)
class TimerSpec:
    """One timer: the installation that it reaps for, the interpreter, and the variables that it needs.

    No key and no secret is in it: the reaper reads those from the dotenv, as every command does.
    """

    inst: str
    python: str
    variables: Mapping[str, str]

    def __attrs_post_init__(self) -> None:
        for text in (self.python, *self.variables.values()):
            if not text.startswith("/") or not text.isprintable():
                raise ConfigError(
                    f"a timer can't be given the path {text!r}: it is not absolute, or not printable",
                    hint="move the folder, or set the GIPPER_ variable to another one",
                )

    @property
    def unit(self) -> str:
        """The units' name; two data folders of one user have two."""
        return f"gipper-reap-{self.inst}"

    @property
    def mark(self) -> str:
        """What the cron line ends with, and no other line does."""
        return f"{_MARK} {self.inst}"

    @property
    def words(self) -> tuple[str, ...]:
        """The command that is run."""
        return (self.python, *_WORDS)


def service(spec: TimerSpec) -> str:
    """The .service unit."""
    # systemd takes no program whose name holds quotes, backslashes or `$`: a shell then starts it.
    plain = _PLAIN.fullmatch(spec.python) is not None
    words = spec.words if plain else ("/bin/sh", "-c", 'exec "$0" "$@"', *spec.words)
    command = " ".join(_systemd(word).replace("$", "$$") for word in words)
    environment = "\n".join(_environment(n, v) for n, v in spec.variables.items())
    data = spec.variables.get("GIPPER_DATA", "").replace("%", "%%").rstrip("\\")
    return _filled("gipper-reap.service", DATA=data, COMMAND=command, ENVIRONMENT=environment)


def timer(spec: TimerSpec) -> str:
    """The .timer unit."""
    return _filled("gipper-reap.timer", UNIT=spec.unit)


def cron_line(spec: TimerSpec) -> str:
    """The line for crontab, without its end."""
    variables = " ".join(f"{n}={_shell(v)}" for n, v in spec.variables.items())
    command = " ".join(_shell(word) for word in spec.words)
    return f"{EVERY} {variables} {command} >/dev/null {spec.mark}"


def serves(unit: str, data: str) -> bool:
    """Whether the text of a .service reaps for the data folder `data`."""
    return _environment("GIPPER_DATA", data) in unit.splitlines()


def with_line(table: str, spec: TimerSpec) -> str:
    """`table` with this timer's line, once, last; every other line as it was."""
    others = without_line(table, spec.variables["GIPPER_DATA"])
    end = "" if not others or others.endswith("\n") else "\n"
    return f"{others}{end}{cron_line(spec)}\n"


def without_line(table: str, data: str) -> str:
    """`table` without the line that reaps for the data folder `data`."""
    return "".join(line for line in table.splitlines(keepends=True) if not _is_ours(line, data))


def line_for(table: str, data: str) -> str | None:
    """The line of `table` that reaps for the data folder `data`."""
    ours = (line for line in table.splitlines() if _is_ours(line, data))
    return next((line for line in ours if not line.lstrip().startswith("#")), None)


def _is_ours(line: str, data: str) -> bool:
    return f"{_MARK} " in line and f" GIPPER_DATA={_shell(data)} " in line


def _environment(name: str, value: str) -> str:
    return f"Environment={_systemd(f'{name}={value}')}"


def _filled(template: str, **values: str) -> str:
    # All at once: a path may hold what looks like the next place.
    parts = files("gipper").joinpath("units", template).read_text(encoding="utf-8").split("@")
    return "".join(values[p] if i % 2 else p for i, p in enumerate(parts))


def _systemd(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def _shell(word: str) -> str:
    # `\%` is right for some crons and wrong for others; no `%` at all is right for all.
    return "\"$(printf '\\045')\"".join(shlex.quote(part) if part else "" for part in word.split("%"))
