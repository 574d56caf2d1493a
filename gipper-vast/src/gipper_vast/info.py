"""What the market is, for core."""

from __future__ import annotations

from typing import Final

from gipper.api import BaseUrl, ProviderInfo
from gipper_vast.tables import VastJob, VastSettings

NAME: Final = "vast"
KEY_NAME: Final = "VAST_API_KEY"
# The market picks the newest tag that the machine's driver can run.
IMAGE: Final = "vastai/base-image:@vastai-automatic-tag"
_DEFAULT_URL: Final = "https://console.vast.ai"
# The vendor's guide for agents asks to look within a minute; half as much again for a slow list.
APPEAR_S: Final = 90.0


def provider_info() -> ProviderInfo:
    """The description that `gipper_provider` gives."""
    return ProviderInfo(
        name=NAME,
        title="Vast.ai",
        key_names=(KEY_NAME,),
        image=IMAGE,
        ready_s=120.0,
        udp=True,
        tcp=True,
        spot=True,
        keyless_offers=True,
        fees_advertised=True,
        appear_s=APPEAR_S,
        settle_s=10.0,
        gone_patience_s=300.0,
        settings_table=VastSettings,
        job_table=VastJob,
        base_urls=(BaseUrl(name="VAST_URL", default=_DEFAULT_URL, hosts=("vast.ai",)),),
    )
