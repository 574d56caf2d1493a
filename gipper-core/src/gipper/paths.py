"""Where gipper's own files are, from the environment alone; nothing is read or made."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import attrs


@attrs.frozen(kw_only=True)
class Paths:
    """Absolute paths. `dotenv` is GIPPER_ENV's file; where it is set (`exclusive`) no other dotenv counts,
    also when that file is missing."""

    config_file: Path
    keys_folder: Path
    data_folder: Path
    dotenv: Path | None = None

    @property
    def exclusive(self) -> bool:
        """Whether `dotenv` alone counts."""
        return self.dotenv is not None

    @property
    def dotenv_beside_config(self) -> Path:
        """The dotenv that counts where GIPPER_ENV isn't set."""
        return self.config_file.parent / ".env"

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Paths:
        """Paths by GIPPER_CONFIG, GIPPER_KEYS, GIPPER_DATA, GIPPER_ENV, the XDG variables and HOME.

        An empty variable counts as not set; a relative XDG variable too, as its specification says.
        """
        home = _home(env)
        config = _xdg(env, "XDG_CONFIG_HOME", home / ".config") / "gipper"
        data = _xdg(env, "XDG_DATA_HOME", home / ".local" / "share") / "gipper"
        own_dotenv = env.get("GIPPER_ENV")
        return cls(
            config_file=_own(env, "GIPPER_CONFIG", config / "config.toml", home),
            keys_folder=_own(env, "GIPPER_KEYS", config, home),
            data_folder=_own(env, "GIPPER_DATA", data, home),
            dotenv=_absolute(own_dotenv, home) if own_dotenv else None,
        )


def _home(env: Mapping[str, str]) -> Path:
    home = env.get("HOME")
    return Path(home).absolute() if home else Path.home()


def _xdg(env: Mapping[str, str], name: str, default: Path) -> Path:
    value = env.get(name, "")
    return Path(value) if value.startswith("/") else default


def _own(env: Mapping[str, str], name: str, default: Path, home: Path) -> Path:
    value = env.get(name)
    return _absolute(value, home) if value else default


def _absolute(text: str, home: Path) -> Path:
    if text == "~" or text.startswith("~/"):
        return home / text[2:]
    return Path(os.path.normpath(Path(text).absolute()))
