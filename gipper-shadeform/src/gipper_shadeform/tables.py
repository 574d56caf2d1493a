"""`[provider.shadeform]` of config.toml and of a job file."""

from __future__ import annotations

import re
from typing import Any, Final

import attrs

_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def _word(_instance: object, field: Any, value: str | None) -> None:
    if value is not None and not _WORD.fullmatch(value):
        raise ValueError(f"{field.name} must be letters, digits, '.', '_' and '-', not {value[:60]!r}")


def _words(instance: object, field: Any, value: tuple[str, ...] | None) -> None:
    for one in value or ():
        _word(instance, field, one)


@attrs.frozen(kw_only=True)
class ShadeformSettings:
    """`[provider.shadeform]` in config.toml."""

    base_url: str | None = None
    os: str | None = attrs.field(default=None, validator=_word)
    clouds: tuple[str, ...] = attrs.field(default=(), validator=_words)
    avoid_clouds: tuple[str, ...] = attrs.field(default=(), validator=_words)
    arm: bool = False


@attrs.frozen(kw_only=True)
class ShadeformJob:
    """`[provider.shadeform]` in a job file; what is None is as the settings say."""

    os: str | None = attrs.field(default=None, validator=_word)
    clouds: tuple[str, ...] | None = attrs.field(default=None, validator=_words)
    avoid_clouds: tuple[str, ...] | None = attrs.field(default=None, validator=_words)
    arm: bool | None = None


@attrs.frozen(kw_only=True)
class Options:
    """What both together mean for one run. Names of clouds are in small letters."""

    os: str | None = None
    clouds: frozenset[str] = frozenset()
    avoid_clouds: frozenset[str] = frozenset()
    arm: bool = False

    def takes(self, cloud: str) -> bool:
        """Whether the user wants machines of this cloud."""
        name = cloud.casefold()
        return name not in self.avoid_clouds and (not self.clouds or name in self.clouds)


def options_of(settings: object, job: object) -> Options:
    """The job's own word first."""
    general = settings if isinstance(settings, ShadeformSettings) else ShadeformSettings()
    own = job if isinstance(job, ShadeformJob) else ShadeformJob()
    return Options(
        os=own.os or general.os,
        clouds=_small(general.clouds if own.clouds is None else own.clouds),
        avoid_clouds=_small(general.avoid_clouds if own.avoid_clouds is None else own.avoid_clouds),
        arm=general.arm if own.arm is None else own.arm,
    )


def _small(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(name.casefold() for name in names)
