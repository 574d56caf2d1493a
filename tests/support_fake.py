"""Building blocks for tests of the lifecycle: a fake market's handle, services over a real ledger."""

from __future__ import annotations

from pathlib import Path

import attrs

from gipper.ledger.store import SqliteLedger
from gipper.lifecycle.services import Interrupts, Services, SilentReporter
from gipper.plugins.context import Context
from gipper.plugins.handle import Provider
from gipper.plugins.registry import Registry
from gipper.runtime import Runtime
from gipper.testing import FakeMarket
from gipper.values.settings import Limits, Settings


class NoKeys:
    """Nobody has a key here."""

    def require(self, name: str) -> str:
        raise AssertionError(f"a test asked for {name}")


class Listener(SilentReporter):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.warnings: list[str] = []
        self.logged = b""

    def step(self, text: str) -> None:
        self.steps.append(text)

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def log(self, data: bytes) -> None:
        self.logged += data


def handle(market: FakeMarket, folder: Path) -> Provider:
    """The handle of a fake market, as core makes it."""
    loaded = Registry().add_provider(market.provider_class(), distribution="gipper-fake", version="1")
    context = Context(loaded.info, None, market.runtime, folder, NoKeys(), lambda: None)  # type: ignore[arg-type]
    return Provider(loaded, context, NoKeys())


def services(folder: Path, runtime: Runtime, **changes: object) -> Services:
    """Services over a ledger in `folder`; `changes` are settings."""
    limits = Limits(gone_patience=1.0)
    settings = attrs.evolve(Settings(limits=limits), **changes)  # type: ignore[arg-type]
    ledger = SqliteLedger.open(folder, runtime)
    return Services(settings=settings, ledger=ledger, runtime=runtime, reporter=Listener(), redact=str)


def kinds(svc: Services) -> list[str]:
    """The kinds of all receipts, in order."""
    return [r.kind for r in svc.ledger.read()]


def unasked(runtime: Runtime) -> Interrupts:
    """Nobody asked to stop."""
    return Interrupts(runtime)
