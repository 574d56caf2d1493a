"""What a plugin says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

API_VERSION: Final = 1


@attrs.frozen(kw_only=True)
class BaseUrl:
    """Where a market's API answers.

    `name` is the environment variable that may move it, to loopback or to the market's own `hosts` (their
    subdomains too; the default's host always is one). The provider's settings table may move it anywhere,
    by the key `setting`, which that table must then have.
    """

    name: str
    default: str
    setting: str = "base_url"
    hosts: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class ProviderInfo:
    """A provider's own description, read from its class before it is built.

    `appear_s`: a created machine is in the list by then; None = not promised. `settle_s`: least time
    between the two listings of a proof. `gone_patience_s`: how long a teardown is retried. `ready_s`:
    usual seconds until SSH answers. `settings_table` and `job_table` are attrs classes or None.
    `base_urls`: what `ProviderContext.base_url` knows; requests that carry a key go nowhere else.
    `secret_headers`: names of headers that hold a key, beside the usual ones.
    """

    name: str
    title: str
    key_names: tuple[str, ...] = ()
    ssh_user: str = "root"
    image: str | None = None
    ready_s: float = 180.0
    udp: bool = False
    tcp: bool = True
    cpu: bool = False
    spot: bool = False
    own_deadline: bool = False
    keyless_offers: bool = False
    fees_advertised: bool = True
    regions_known: bool = True
    named_only: bool = False
    bootstrap: bool = True
    appear_s: float | None = None
    settle_s: float = 10.0
    gone_patience_s: float = 300.0
    settings_table: type | None = None
    job_table: type | None = None
    base_urls: tuple[BaseUrl, ...] = ()
    secret_headers: tuple[str, ...] = ()
    api: int = API_VERSION

    @property
    def key_name(self) -> str | None:
        """The name of the provider's main key, or None where it needs none."""
        return self.key_names[0] if self.key_names else None


@attrs.frozen(kw_only=True)
class CheckResult:
    """A preflight check that passed: facts for the receipt, environment for the job."""

    facts: Mapping[str, Any] = attrs.field(factory=dict)
    env: Mapping[str, str] = attrs.field(factory=dict)
