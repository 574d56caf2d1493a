"""`[provider.runpod]` of config.toml and of a job file."""

from __future__ import annotations

import re
from typing import Any, Final

import attrs

_CUDA: Final = re.compile(r"\d{1,2}\.\d{1,2}")
_IDENT: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_IMAGE_MOST: Final = 1024


def _cuda(_instance: object, field: Any, value: str | None) -> None:
    if value is not None and not _CUDA.fullmatch(value):
        raise ValueError(f'{field.name} must be a version such as "12.8", not {value!r}')


def _ident(_instance: object, field: Any, value: str | None) -> None:
    if value is not None and not _IDENT.fullmatch(value):
        raise ValueError(f"{field.name} must be an id (letters, digits, - and _), not {value!r}")


def _idents(instance: object, field: Any, value: tuple[str, ...] | None) -> None:
    for one in value or ():
        _ident(instance, field, one)


def _image(_instance: object, field: Any, value: str | None) -> None:
    if value is not None and (not value.strip() or len(value) > _IMAGE_MOST or re.search(r"\s", value)):
        raise ValueError(f"{field.name} must be an image's name without blanks, not {value[:60]!r}")


@attrs.frozen(kw_only=True)
class RunpodSettings:
    """`[provider.runpod]` in config.toml."""

    base_url: str | None = None
    image: str | None = attrs.field(default=None, validator=_image)
    min_cuda: str | None = attrs.field(default=None, validator=_cuda)
    data_centers: tuple[str, ...] = attrs.field(default=(), validator=_idents)
    volume: str | None = attrs.field(default=None, validator=_ident)


@attrs.frozen(kw_only=True)
class RunpodJob:
    """`[provider.runpod]` in a job file; what is None is as the settings say."""

    min_cuda: str | None = attrs.field(default=None, validator=_cuda)
    data_centers: tuple[str, ...] | None = attrs.field(default=None, validator=_idents)
    volume: str | None = attrs.field(default=None, validator=_ident)
    registry: str | None = attrs.field(default=None, validator=_ident)


@attrs.frozen(kw_only=True)
class Options:
    """What both together mean for one run."""

    image: str | None = None
    min_cuda: str | None = None
    data_centers: tuple[str, ...] = ()
    volume: str | None = None
    registry: str | None = None


def options_of(settings: object, job: object) -> Options:
    """The job's own word first."""
    general = settings if isinstance(settings, RunpodSettings) else RunpodSettings()
    own = job if isinstance(job, RunpodJob) else RunpodJob()
    return Options(
        image=general.image,
        min_cuda=own.min_cuda or general.min_cuda,
        data_centers=general.data_centers if own.data_centers is None else own.data_centers,
        volume=own.volume or general.volume,
        registry=own.registry,
    )
