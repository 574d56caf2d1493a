"""`[provider.vast]` of config.toml and of a job file, and what both together mean for one search."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Final

import attrs

# What the market takes as a bid, by its API description of August 2026.
LEAST_BID: Final = Decimal("0.001")
MOST_BID: Final = Decimal(128)
# Told figures below this are left out where nobody set a floor.
USUAL_RELIABILITY: Final = 0.9
_TEMPLATE: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
_IMAGE_MOST: Final = 1024


def _share(_instance: object, field: Any, value: float | None) -> None:
    if value is not None and not 0 <= value <= 1:
        raise ValueError(f"{field.name} must be from 0 to 1, not {value}")


def _bid(_instance: object, field: Any, value: Decimal | None) -> None:
    if value is not None and not (value.is_finite() and LEAST_BID <= value <= MOST_BID):
        raise ValueError(f"{field.name} must be from {LEAST_BID} to {MOST_BID} dollars an hour, not {value}")


def _template(_instance: object, field: Any, value: str | None) -> None:
    if value is not None and not _TEMPLATE.fullmatch(value):
        raise ValueError(f"{field.name} must be a template's hash id (letters and digits), not {value!r}")


def _image(_instance: object, field: Any, value: str | None) -> None:
    if value is not None and (not value.strip() or len(value) > _IMAGE_MOST or re.search(r"\s", value)):
        raise ValueError(f"{field.name} must be an image's name without blanks, not {value[:60]!r}")


@attrs.frozen(kw_only=True)
class VastSettings:
    """`[provider.vast]` in config.toml."""

    base_url: str | None = None
    verified: bool = True
    datacenter_only: bool = False
    min_reliability: float | None = attrs.field(default=None, validator=_share)
    image: str | None = attrs.field(default=None, validator=_image)


@attrs.frozen(kw_only=True)
class VastJob:
    """`[provider.vast]` in a job file; what is None is as the settings say."""

    template: str | None = attrs.field(default=None, validator=_template)
    bid_usd_h: Decimal | None = attrs.field(default=None, validator=_bid)
    verified: bool | None = None
    datacenter_only: bool | None = None
    min_reliability: float | None = attrs.field(default=None, validator=_share)


@attrs.frozen(kw_only=True)
class Hosts:
    """Which hosts will do. `floor` is the least reliability; `floor_set`: somebody asked for it, so that a
    host which doesn't tell is left out."""

    verified: bool = True
    datacenter: bool = False
    floor: float = USUAL_RELIABILITY
    floor_set: bool = False


def settings_of(table: object) -> VastSettings:
    """The checked settings table, or the defaults."""
    return table if isinstance(table, VastSettings) else VastSettings()


def job_of(table: object) -> VastJob:
    """The checked job table, or the defaults."""
    return table if isinstance(table, VastJob) else VastJob()


def hosts_of(settings: VastSettings, job: VastJob, *, secure: bool) -> Hosts:
    """The job's own word first; `secure` is `gpu.cloud = "SECURE"`."""
    floor = settings.min_reliability if job.min_reliability is None else job.min_reliability
    only = settings.datacenter_only if job.datacenter_only is None else job.datacenter_only
    return Hosts(
        verified=settings.verified if job.verified is None else job.verified,
        datacenter=secure or only,
        floor=USUAL_RELIABILITY if floor is None else floor,
        floor_set=floor is not None,
    )
