"""`gipper pod account`: a line for each account, unknown figures unknown, failures told and not fatal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support_cli import World, distribution, world

MARKETS = """
from decimal import Decimal

import attrs

from gipper.api import Account, ProviderError, hookimpl
from gipper.runtime import RealRuntime
from gipper.testing import FakeMarket


def market(name, key=None, answer=None):
    class Keyed(FakeMarket):
        def info(self):
            return attrs.evolve(super().info(), key_names=(key,) if key else ())

    base = Keyed(RealRuntime(), name=name).provider_class()
    if answer is None:
        return base

    class Told(base):
        @hookimpl
        def gipper_account(self):
            if isinstance(answer, Exception):
                raise answer
            return answer

    return Told


Full = market("full", "FULL_API_KEY", Account(credit_usd=Decimal("12.346"), usd_h=Decimal("0.4")))
Broken = market("broken", "BROKEN_API_KEY", ProviderError("broken: HTTP 500 for key broken-key-value"))
Keyless = market("keyless", "KEYLESS_API_KEY", Account())
Silent = market("silent", "SILENT_API_KEY")
Free = market("free")
"""
NAMES = ("full", "broken", "keyless", "silent", "free")


@pytest.fixture
def user(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path / "user") as made:
        site = tmp_path / "site"
        site.mkdir()
        entries = {name: f"invented_markets:{name.title()}" for name in NAMES}
        distribution(site, "gipper-invented", {"invented_markets": MARKETS}, {"gipper.providers": entries})
        made.env.update(PYTHONPATH=str(site), FULL_API_KEY="full-key-value", SILENT_API_KEY="silent-key-value",
                        BROKEN_API_KEY="broken-key-value")  # fmt: skip
        yield made


def test_a_line_for_each_account(user: World) -> None:
    """Credit is shown, what isn't told is unknown, a missing key is named, an error is told without the key."""
    done = user.gipper("pod", "account")
    assert done.code == 0, done.all
    told = dict(line.split(None, 1) for line in done.lines[1:] if line.strip())
    assert told["full"].strip() == "credit $12.35, spending $0.40/h, limit unknown"
    assert told["keyless"].strip() == "no KEYLESS_API_KEY"
    assert told["silent"].strip() == "this market tells nothing of accounts"
    assert told["broken"].startswith("error: ") and "broken-key-value" not in done.all
    assert "free" not in told and "local" not in told


def test_as_json(user: World) -> None:
    """Numbers as numbers, unknown as null."""
    rows = {r["provider"]: r for r in json.loads(user.gipper("pod", "account", "--json").out)}
    assert (rows["full"]["credit_usd"], rows["full"]["limit_usd"]) == (12.346, None)
    assert rows["keyless"]["missing_key"] == "KEYLESS_API_KEY"
    assert "HTTP 500" in rows["broken"]["error"]


def test_only_if_all_fail_it_is_an_error(user: World) -> None:
    """Exit 4 where every market that could be asked failed."""
    user.env["GIPPER_DISABLED_PLUGINS"] = ",".join([user.env["GIPPER_DISABLED_PLUGINS"], "full", "silent"])
    assert user.gipper("pod", "account").code == 4
