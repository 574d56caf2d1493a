"""What the market is, for core."""

from __future__ import annotations

from typing import Final

from gipper.api import BaseUrl, ProviderInfo
from gipper_shadeform.tables import ShadeformJob, ShadeformSettings

NAME: Final = "shadeform"
KEY_NAME: Final = "SHADEFORM_API_KEY"
USER: Final = "shadeform"
_DEFAULT_URL: Final = "https://api.shadeform.ai"
# Another client models a list that is moments behind the create; two minutes are far beyond that.
APPEAR_S: Final = 120.0
# Deletions take minutes at some clouds; another client waits this long, too.
GONE_S: Final = 1200.0


def provider_info() -> ProviderInfo:
    """The description that `gipper_provider` gives."""
    return ProviderInfo(
        name=NAME,
        title="Shadeform",
        key_names=(KEY_NAME,),
        ssh_user=USER,
        ready_s=420.0,
        udp=True,
        tcp=True,
        spot=True,
        own_deadline=True,
        keyless_offers=True,
        # Traffic has no price on the wire at all.
        fees_advertised=False,
        regions_known=True,
        appear_s=APPEAR_S,
        settle_s=10.0,
        gone_patience_s=GONE_S,
        settings_table=ShadeformSettings,
        job_table=ShadeformJob,
        base_urls=(BaseUrl(name="SHADEFORM_BASE_URL", default=_DEFAULT_URL, hosts=("shadeform.ai",)),),
    )
