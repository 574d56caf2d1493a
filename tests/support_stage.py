"""Whole runs on a fake market whose machines are a real sshd, in this process."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
from support_fake import Listener
from support_sshd import Sshd

from gipper.core import Gipper
from gipper.jobfile import LoadedJob, resolved
from gipper.launch import Launch
from gipper.lifecycle.results import RunResult
from gipper.lifecycle.services import Interrupts
from gipper.plugins.registry import Registry
from gipper.remote import Dialer
from gipper.runtime import RealRuntime
from gipper.ssh.remote import SshDialer
from gipper.ssh.settings import Patience
from gipper.testing import FakeMarket
from gipper.values.jobs import GpuWants, Job, Output, RunTable
from gipper.values.plugins import ProviderInfo
from gipper.values.receipts import Receipt
from gipper.values.settings import Settings

ALWAYS_FAST: Mapping[str, float] = {
    "appear_s": 0.3, "settle_s": 0.05, "gone_patience_s": 1.0, "late_s": 0.2,
}  # fmt: skip
LIMITS: Mapping[str, float] = {"gone_patience": 1, "ready_min": 1, "kill_grace": 1}
QUICK = Patience(connect_s=0.5, probe_every_s=0.2, probe_wait_s=0.6, unacked_s=2.0, close_s=0.2)


class Market(FakeMarket):
    """A fake market whose machines log in as the user of this test."""

    def info(self) -> ProviderInfo:
        return attrs.evolve(super().info(), ssh_user=getpass.getuser(), ready_s=0.3)


@attrs.define
class Stage:
    """A market, a job and the gipper that runs it."""

    market: FakeMarket
    launch: Launch
    listener: Listener

    def run(self, interrupts: Interrupts | None = None) -> RunResult:
        return self.launch.run(interrupts or self.interrupts())

    def interrupts(self) -> Interrupts:
        """Nobody asked to stop yet."""
        return Interrupts(self.launch.gipper.runtime)

    def kinds(self) -> list[str]:
        """The kinds of all receipts, in order."""
        return [r.kind for r in self.receipts()]

    def receipts(self, *kinds: str) -> list[Receipt]:
        """All receipts of some kinds, or of all, in order."""
        return list(self.launch.gipper.ledger.read(kinds=set(kinds) or None))

    def calls(self, verb: str) -> list[Any]:
        """What each call of one verb was given, in order."""
        return [given for called, given in self.market.calls if called == verb]

    def blames(self) -> list[str | None]:
        """Whom each ended machine was held against, in order."""
        return [r["blame"] for r in self.receipts("pod.terminate")]

    def warned(self, text: str) -> bool:
        """Whether any warning holds `text`."""
        return any(text in w for w in self.listener.warnings)


def staged(
    tmp_path: Path, sshd: Sshd, command: str = "mkdir out; echo done > out/x", *,
    market_class: type[FakeMarket] = Market, market: Mapping[str, Any] | None = None,
    limits: Mapping[str, float] | None = None, daily_cap_usd: float = 50.0,
    patience: Patience | None = None, through: Callable[[Dialer], Dialer] = lambda dialer: dialer, **job: Any,
) -> Stage:  # fmt: skip
    """A stage; `market` are fields of the fake market, `job` of the job, `limits` of the settings.

    `through` may stand between the run and its connections.
    """
    runtime = RealRuntime()
    fields = {"boot": lambda _m: (sshd.address,), **ALWAYS_FAST, **(market or {})}
    made = market_class(runtime, **fields)
    registry = Registry()
    registry.add_provider(made.provider_class(), distribution="gipper-fake", version="1")
    gipper = Gipper(
        env=_environment(tmp_path, {**LIMITS, **(limits or {})}, daily_cap_usd), runtime=runtime,
        registry=registry, dialer=through(SshDialer(runtime, patience=patience)),
    )  # fmt: skip
    sshd.authorize(gipper.key_pair.public)
    listener = Listener()
    wanted: dict[str, Any] = {
        "name": "job", "folder": tmp_path, "gpu": GpuWants(count=1), "outputs": (Output(src="out"),),
        "run": RunTable(command=command), **job,
    }  # fmt: skip
    loaded = LoadedJob(job=resolved(Job(**wanted), Settings()))
    return Stage(made, Launch(gipper=gipper, loaded=loaded, reporter=listener), listener)


def _environment(tmp_path: Path, limits: Mapping[str, float], daily_cap_usd: float) -> dict[str, str]:
    config = tmp_path / "config.toml"
    lines = "".join(f"{name} = {value}\n" for name, value in limits.items())
    config.write_text(f"daily_cap_usd = {daily_cap_usd}\n[limits]\n{lines}")
    return {
        "HOME": str(tmp_path), "GIPPER_DATA": str(tmp_path / "data"), "GIPPER_KEYS": str(tmp_path / "keys"),
        "GIPPER_CONFIG": str(config),
    }  # fmt: skip
