"""What the market is, for core."""

from __future__ import annotations

from typing import Final

from gipper.api import BaseUrl, ProviderInfo
from gipper_runpod.tables import RunpodJob, RunpodSettings

NAME: Final = "runpod"
KEY_NAME: Final = "RUNPOD_API_KEY"
IMAGE: Final = "runpod/base:1.4.1-ubuntu2404"
_DEFAULT_URL: Final = "https://api.runpod.io"
# A new pod was reported missing from the list for seconds; a minute and a half is far beyond all reports.
APPEAR_S: Final = 90.0


def provider_info() -> ProviderInfo:
    """The description that `gipper_provider` gives."""
    return ProviderInfo(
        name=NAME,
        title="Runpod",
        key_names=(KEY_NAME,),
        image=IMAGE,
        ready_s=90.0,
        udp=False,
        tcp=True,
        spot=False,
        keyless_offers=True,
        fees_advertised=True,
        regions_known=True,
        appear_s=APPEAR_S,
        settle_s=10.0,
        gone_patience_s=300.0,
        settings_table=RunpodSettings,
        job_table=RunpodJob,
        base_urls=(BaseUrl(name="RUNPOD_API_BASE_URL", default=_DEFAULT_URL, hosts=("runpod.io",)),),
    )
