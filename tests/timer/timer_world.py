"""A user whose PATH holds fake `systemctl`, `loginctl`, `crontab` and `pgrep`, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs

from gipper.core import Gipper
from gipper.plugins.registry import Registry
from gipper.runtime import RealRuntime
from gipper.testing import FakeMarket
from gipper.values.plugins import ProviderInfo

_SYSTEMCTL = """
case "$*" in
"--user show --property=Version")
  if [ -e "$S/no-bus" ]; then echo "Failed to connect to bus: No such file or directory" >&2; exit 1; fi
  echo Version=252 ;;
"--user enable --now "*)
  if [ -e "$S/refuses" ]; then echo "Failed to enable unit: access denied" >&2; exit 1; fi
  : > "$S/active-$4" ;;
"--user disable --now "*) /bin/rm -f "$S/active-$4" ;;
"--user is-active "*) [ -e "$S/active-$3" ] ;;
"--user show "*) echo "LastTriggerUSec=Mon 2026-01-05 10:00:00 UTC"; echo "NextElapseUSecRealtime=later" ;;
esac
"""
_LOGINCTL = """
if [ ! -e "$S/linger" ]; then echo "User is not logged in or lingering" >&2; exit 1; fi
echo "Linger=$(/bin/cat "$S/linger")"
"""
_CRONTAB = """
if [ -e "$S/denied" ]; then echo "You are not allowed to use this program (crontab)" >&2; exit 1; fi
case "$1" in
-l) if [ -e "$S/table" ]; then /bin/cat "$S/table"; else echo "no crontab for user" >&2; exit 1; fi ;;
-) /bin/cat > "$S/table" ;;
esac
"""
_PGREP = '[ ! -e "$S/no-cron" ]'
TOOLS = {"systemctl": _SYSTEMCTL, "loginctl": _LOGINCTL, "crontab": _CRONTAB, "pgrep": _PGREP}


class KeyedMarket(FakeMarket):
    """A market that needs a key."""

    def info(self) -> ProviderInfo:
        return attrs.evolve(super().info(), key_names=("ACME_API_KEY",))


@attrs.define
class User:
    """`tools` are on PATH; the fakes keep their state and their calls in `state`."""

    home: Path

    def __attrs_post_init__(self) -> None:
        self.state.mkdir(parents=True)
        self.bin.mkdir()

    @property
    def state(self) -> Path:
        return self.home / "state"

    @property
    def bin(self) -> Path:
        return self.home / "bin"

    @property
    def units(self) -> Path:
        return self.home / ".config" / "systemd" / "user"

    @property
    def table(self) -> bytes:
        file = self.state / "table"
        return file.read_bytes() if file.exists() else b""

    @property
    def calls(self) -> list[str]:
        file = self.state / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def has(self, *tools: str) -> None:
        """Put fakes on PATH."""
        for tool in tools:
            path = self.bin / tool
            head = f'#!/bin/sh\nS="{self.state}"\necho "{tool} $*" >> "$S/calls"\n/usr/bin/env > "$S/env-{tool}"\n'
            path.write_text(head + TOOLS[tool])
            path.chmod(0o755)

    def flag(self, name: str, text: str = "") -> None:
        """Change how a fake behaves."""
        (self.state / name).write_text(text)

    def env(self, **more: str) -> dict[str, str]:
        """The environment of this user's shell."""
        return {
            "PATH": str(self.bin), "HOME": str(self.home), "GIPPER_DATA": str(self.home / "data"),
            "GIPPER_KEYS": str(self.home / "keys"), "GIPPER_CONFIG": str(self.home / "config" / "config.toml"),
            **more,
        }  # fmt: skip

    def gipper(self, env: Mapping[str, str] | None = None) -> Gipper:
        """gipper with one market that needs ACME_API_KEY."""
        runtime = RealRuntime()
        registry = Registry()
        registry.add_provider(KeyedMarket(runtime).provider_class(), distribution="gipper-acme", version="1")
        return Gipper(env=env or self.env(), runtime=runtime, registry=registry)
