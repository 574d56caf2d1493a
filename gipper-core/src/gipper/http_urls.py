"""Which addresses a provider's session may talk to, and through which proxy."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import SplitResult, urlsplit

from gipper.errors import ConfigError

_PORTS: Final = {"https": 443, "http": 80}


def is_loopback(host: str | None) -> bool:
    """True for `localhost` and loopback addresses; no name is looked up."""
    if host is None:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_this_computer(host: str) -> bool:
    """True where a connection to `host` would end on this very computer; no name is looked up."""
    if is_loopback(host):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return address.is_unspecified or (mapped is not None and (mapped.is_loopback or mapped.is_unspecified))


def origin(url: str) -> tuple[str, str, int]:
    """(scheme, host, port): what a key may not leave."""
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").casefold(), parts.port or _PORTS.get(parts.scheme, 0)


def refusal(url: str, allowed_hosts: Collection[str] | None = None) -> str | None:
    """Why `url` may not be asked, or None. https only, but for loopback; no user or password in it.

    `allowed_hosts` narrows which hosts (and their subdomains) may be asked; loopback always may.
    """
    parts = _split(url)
    if parts is None or not parts.hostname:
        return "it isn't a URL with a host"
    host = parts.hostname.casefold()
    if parts.username is not None or parts.password is not None:
        return "a URL may not carry a user or a password"
    if is_loopback(host):
        return None if parts.scheme in _PORTS else f"it is {parts.scheme}, not http or https"
    if parts.scheme != "https":
        return "only https is used, except for loopback"
    if allowed_hosts is None or any(host == h or host.endswith(f".{h}") for h in allowed_hosts):
        return None
    return f"{host} is not a host of this market"


def check_base_url(url: str, *, source: str, allowed_hosts: Collection[str] | None = None) -> str:
    """`url` without its last slash. `source` says where it was set. Raises ConfigError.

    For a base URL from the environment give the market's own hosts; for one from the settings, None.
    """
    why = refusal(url, allowed_hosts)
    if why is None:
        return url.rstrip("/")
    raise ConfigError(
        f"the base URL in {source} can't be used: {why}",
        hint="for another host of your own, set base_url in the provider's table of config.toml",
    )


def proxies_for(url: str) -> Mapping[str, str]:
    """The environment's proxies for `url` (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, less NO_PROXY), for requests.

    Loopback never goes through one: a proxy's loopback is another machine's.
    """
    from requests.utils import get_environ_proxies

    if is_loopback(urlsplit(url).hostname):
        return {}
    return dict(get_environ_proxies(url, no_proxy=None))


def ca_bundle() -> str | bool:
    """What certificates are checked against: the environment's bundle, else the usual one. Never False."""
    return os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or True


def shown(url: str) -> str:
    """`url` for messages: host and path, no query."""
    parts = _split(url)
    if parts is None:
        return "(not a URL)"
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.hostname or ''}{port}{parts.path}"


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts
