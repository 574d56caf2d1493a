"""Rents one local machine in a process of its own: ``renter.py DATA PUBLIC_KEY_FILE NAME LIFE_S``.

Prints "go" before the rent and the machine's id after it, then waits for the end of its input.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from gipper.api import Offer, RentRequest
from gipper.builtin.local.provider import LocalProvider, LocalSettings
from gipper.runtime import RealRuntime


class Context:
    """What a provider is built with, without the rest of gipper."""

    def __init__(self, data_folder: Path, usd_h: str = "0") -> None:
        self.settings = LocalSettings(usd_h=Decimal(usd_h))
        self.runtime = RealRuntime()
        self.data_folder = data_folder

    def secret(self, name: str | None = None) -> str:
        raise AssertionError(f"the local provider asked for a key: {name}")

    def http(self) -> Any:
        raise AssertionError("the local provider asked for HTTP")


def offer() -> Offer:
    """The offer of a machine without a GPU."""
    return Offer(provider="local", id="this-machine", usd_h=Decimal(0), kind="process")


def request(name: str, public_key: str, life_s: float, **more: Any) -> RentRequest:
    """A request for a machine that ends itself after `life_s` seconds."""
    now = RealRuntime().now()
    end = now + timedelta(seconds=life_s)
    return RentRequest(
        name=name, public_key=public_key, end=end, boot_watchdog_s=life_s, timer_at=end, **more
    )


def main(data: str, key: str, name: str, life_s: str) -> None:
    provider = LocalProvider(Context(Path(data)))
    print("go", flush=True)
    machine = provider.gipper_rent(offer(), request(name, Path(key).read_text(), float(life_s)))
    print(machine.id, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
