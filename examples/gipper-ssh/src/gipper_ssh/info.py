"""What the provider says of itself, and its settings table."""

from __future__ import annotations

from typing import Final

import attrs

from gipper.api import ProviderInfo

PROVIDER: Final = "ssh"
# Who logs in to a box whose entry names nobody.
USER: Final = "root"


@attrs.frozen(kw_only=True)
class SshSettings:
    """`[provider.ssh]`: the inventory file. `~` is the home folder; there is no default."""

    inventory: str | None = None


def info() -> ProviderInfo:
    """The description for core."""
    return ProviderInfo(
        name=PROVIDER,
        title="own boxes over SSH",
        ssh_user=USER,
        ready_s=5.0,
        cpu=True,
        udp=True,
        tcp=True,
        bootstrap=False,
        appear_s=0.0,
        settle_s=1.0,
        settings_table=SshSettings,
    )
