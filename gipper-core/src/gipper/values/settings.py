"""`config.toml` as classes; what may stand in it is checked in `gipper.settings`."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import attrs

from gipper.values.offers import Cloud


@attrs.frozen(kw_only=True)
class Limits:
    """`[limits]`: seconds, so that tests can set them small."""

    ready_min: float = 600.0
    checks: float = 600.0
    setup_min: float = 900.0
    upload_min: float = 900.0
    collect_min: float = 1800.0
    watchdog_grace: float = 600.0
    provider_grace: float = 3600.0
    kill_grace: float = 30.0
    gone_patience: float = 300.0
    recheck_after: float = 300.0
    host_lost: float = 600.0


@attrs.frozen(kw_only=True)
class PluginChoices:
    """`[plugins]`: which distribution wins where several claim a name."""

    prefer: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class CustodySettings:
    """`[custody]`: whether flagged inputs are refused."""

    refuse_sensitive: bool = False


@attrs.frozen(kw_only=True)
class SafetySettings:
    """`[safety]`: whether a machine without a watchdog is refused."""

    require_watchdog: bool = False


@attrs.frozen(kw_only=True)
class Settings:
    """All settings with their defaults."""

    daily_cap_usd: Decimal = Decimal("5.0")
    default_job_cap_usd: Decimal = Decimal("2.0")
    default_max_hours: float = 3.0
    providers: tuple[str, ...] | None = None
    regions: tuple[str, ...] = ()
    cuda_versions: tuple[str, ...] = ()
    cloud: Cloud = "COMMUNITY"
    container_disk_gb: float = 40.0
    checkpoint_every_s: float = 300.0
    hour_value_usd: float = 3.0
    failure_cost_usd: float = 1.0
    history_days: float = 90.0
    plugins: PluginChoices = PluginChoices()
    custody: CustodySettings = CustodySettings()
    safety: SafetySettings = SafetySettings()
    limits: Limits = Limits()
    provider: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
