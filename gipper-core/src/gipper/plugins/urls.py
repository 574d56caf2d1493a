"""Where a provider's API is, and which hosts may be told its key."""

from __future__ import annotations

from collections.abc import Mapping

from gipper.http_urls import check_base_url, is_loopback, origin
from gipper.values.plugins import BaseUrl, ProviderInfo


def base_url(provider: str, base: BaseUrl, settings: object, env: Mapping[str, str]) -> str:
    """The settings' value, else the environment's, else the default. Raises ConfigError.

    The environment is set by many hands (a shell's start file, a job runner): it can only name loopback
    and the market's own hosts, the settings any host.
    """
    chosen = getattr(settings, base.setting, None)
    if chosen:
        return check_base_url(chosen, source=f"`{base.setting}` of [provider.{provider}]")
    told = env.get(base.name, "").strip()
    if told:
        return check_base_url(told, source=base.name, allowed_hosts=own_hosts(base))
    return base.default


def own_hosts(base: BaseUrl) -> frozenset[str]:
    """The market's hosts for one API."""
    return frozenset((origin(base.default)[1], *(host.casefold() for host in base.hosts)))


def key_hosts(info: ProviderInfo, settings: object) -> frozenset[str] | None:
    """Hosts that may be told the provider's key, loopback apart; None where the provider declares none."""
    if not info.base_urls:
        return None
    chosen = (getattr(settings, base.setting, None) for base in info.base_urls)
    moved = frozenset(origin(url)[1] for url in chosen if url)
    return moved.union(*(own_hosts(base) for base in info.base_urls))


def on_loopback(info: ProviderInfo, settings: object, env: Mapping[str, str]) -> bool:
    """Whether every API of the provider is on this computer (a test's, or a tunnel of the user's)."""
    urls = [base_url(info.name, base, settings, env) for base in info.base_urls]
    return bool(urls) and all(is_loopback(origin(url)[1]) for url in urls)
