"""Values of keys and secrets by their names: from the environment, else from a dotenv."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Final

from gipper.errors import ConfigError, KeyMissing
from gipper.paths import Paths

_LINE: Final = re.compile(r"(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*(?P<value>.*)")
_QUOTED: Final = re.compile(r"(?P<quote>[\"'])(?P<text>.*?)(?P=quote)[ \t]*(?:#.*)?")
_COMMENT: Final = re.compile(r"(?:^|[ \t]+)#.*")
_LIMIT: Final = 1 << 20


class Keys:
    """Names to values; its repr shows neither. Dotenv files are read at the first name that the
    environment lacks."""

    def __init__(self, env: Mapping[str, str], files: tuple[Path, ...]) -> None:
        self._env = dict(env)
        self._files = files

    def __repr__(self) -> str:
        return f"Keys({len(self._files)} dotenv files)"

    @classmethod
    def from_env(cls, env: Mapping[str, str], paths: Paths, *, editable_checkout: Path | None) -> Keys:
        """`editable_checkout` is the folder of an editable install, whose `.env` comes last."""
        if paths.dotenv is not None:
            return cls(env, (paths.dotenv,))
        checkout = (editable_checkout / ".env",) if editable_checkout else ()
        return cls(env, (*checkout, paths.dotenv_beside_config))

    def get(self, name: str) -> str | None:
        """The value, None where it isn't set or empty. Raises ConfigError for a dotenv that can't be
        read or that others can read."""
        return self._env.get(name) or self._dotenv.get(name)

    def require(self, name: str) -> str:
        """As `get`; raises KeyMissing."""
        value = self.get(name)
        if value is None:
            raise KeyMissing(
                f"{name} is not set (environment or configured .env; see GIPPER_ENV)",
                hint=f"export {name}=..., or write {name}=... into {self._files[-1]} (chmod 600)",
            )
        return value

    def values_of(self, names: Iterable[str]) -> Mapping[str, str]:
        """The values of those `names` that are set."""
        return {name: value for name in names if (value := self.get(name)) is not None}

    @cached_property
    def _dotenv(self) -> Mapping[str, str]:
        merged = dict[str, str]()
        for file in self._files:
            merged.update({n: v for n, v in _read(file).items() if v})
        return merged


def parse_dotenv(text: str) -> dict[str, str]:
    """`NAME=value` lines: quotes stripped, nothing expanded, the last of a name wins. Comments, an
    `export` in front and lines of any other shape are passed over."""
    values = dict[str, str]()
    for line in text.removeprefix("\ufeff").split("\n"):
        match = _LINE.fullmatch(line.strip())
        if match:
            values[match["name"]] = _unquoted(match["value"])
    return values


def _unquoted(value: str) -> str:
    match = _QUOTED.fullmatch(value)
    return match["text"] if match else _COMMENT.sub("", value, count=1)


def _read(file: Path) -> dict[str, str]:
    """A missing file holds nothing."""
    try:
        with file.open("rb") as stream:
            _check_mode(file, os.fstat(stream.fileno()))
            data = stream.read(_LIMIT + 1)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(
            f"{file} can't be read: {error.strerror}", hint=f"look at `ls -l {file}`, or set GIPPER_ENV"
        ) from error
    if len(data) > _LIMIT:
        raise ConfigError(f"{file} is over 1 MiB: that is no dotenv", hint="set GIPPER_ENV to the right file")
    try:
        return parse_dotenv(data.decode("utf-8"))
    except UnicodeDecodeError:
        # From None: the exception's own text would hold the file.
        raise ConfigError(f"{file} is not UTF-8 text", hint="save it as UTF-8") from None


def _check_mode(file: Path, status: os.stat_result) -> None:
    """Checked on the open file, so that it can't be swapped in between. A pipe or /dev/null may pass."""
    if stat.S_ISREG(status.st_mode) and status.st_mode & 0o077:
        mode = stat.S_IMODE(status.st_mode)
        raise ConfigError(
            f"{file} holds keys and others can get at it (mode {mode:03o})", hint=f"chmod 600 {file}"
        )
