"""A client for tests: the provider with a data folder of its own, and requests for it."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from gipper_ssh import SshProvider
from gipper_ssh.info import SshSettings

from gipper.api import Offer, OfferQuery, RentRequest
from gipper.runtime import RealRuntime

# The type's name with its length before it, then 32 bytes: all that a public key is.
PUBLIC = "ssh-ed25519 " + base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0 " + b"k" * 32).decode()
RUN = "0123456789"
NAME = f"gipper-abcde-{RUN}-1-0t1xyz"
OTHER = "gipper-zzzzz-9876543210-1-0t1xyz"


class Context:
    """What core hands to a provider, as far as this one asks for it."""

    def __init__(self, folder: Path, inventory: Path | None) -> None:
        self.settings = SshSettings(inventory=str(inventory) if inventory else None)
        self.runtime = RealRuntime()
        self.data_folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def secret(self, name: str | None = None) -> str:
        raise AssertionError(f"asked for the key {name}")

    def base_url(self, name: str | None = None) -> str:
        raise AssertionError(f"asked for the URL {name}")

    def http(self) -> Any:
        raise AssertionError("asked for HTTP")


def client(folder: Path, *entries: str) -> SshProvider:
    """A provider whose inventory is `entries`; the same `folder` again is the same installation."""
    folder.mkdir(parents=True, exist_ok=True)
    inventory = folder / "boxes.toml"
    inventory.write_text("\n".join(entries))
    return SshProvider(Context(folder / "data", inventory if entries else None))


def query(**changes: Any) -> OfferQuery:
    """A query that any box will do for."""
    wanted = {"deadline": RealRuntime().monotonic() + 30.0, "gpu_count": 0, **changes}
    return OfferQuery(**wanted)


def offer(box: str = "tower", **changes: Any) -> Offer:
    """The offer of a box, as a listing would have it."""
    return Offer(**{"provider": "ssh", "id": box, "usd_h": Decimal("0.25"), **changes})


def request(name: str = NAME, seconds: float = 600.0, **changes: Any) -> RentRequest:
    """A request for `seconds`."""
    end = datetime.now(UTC) + timedelta(seconds=seconds)
    wanted = {
        "name": name, "public_key": PUBLIC, "end": end, "boot_watchdog_s": seconds,
        "timer_at": end + timedelta(hours=1), **changes,
    }  # fmt: skip
    return RentRequest(**wanted)
