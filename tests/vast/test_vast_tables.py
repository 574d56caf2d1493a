"""`[provider.vast]` of settings and job file, as core checks it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from gipper_vast.tables import VastJob, VastSettings, hosts_of

from gipper.strict_options import provider_tables


def _read(cls: type, **table: Any) -> Any:
    return provider_tables({"provider": {"vast": table}}, {"vast": cls}, "options")


def test_good_tables_become_their_classes() -> None:
    """A bid is dollars, the rest keeps its type."""
    found = _read(VastJob, bid_usd_h=0.2, template="0a1b", verified=False, min_reliability=0.99)
    assert found.mistakes == ()
    assert found.options["vast"] == VastJob(
        bid_usd_h=Decimal("0.2"), template="0a1b", verified=False, min_reliability=0.99
    )
    assert not _read(VastSettings, base_url="https://x.example", image="a/b:1", datacenter_only=True).mistakes


@pytest.mark.parametrize(
    ("cls", "table"),
    [
        (VastJob, {"bid_usd_h": 0}), (VastJob, {"bid_usd_h": 1000}), (VastJob, {"template": "a b"}),
        (VastJob, {"min_reliability": 2}), (VastJob, {"bid": 1}), (VastSettings, {"image": "a b"}),
        (VastSettings, {"verified": "yes"}), (VastSettings, {"min_reliability": -0.1}),
    ],
)  # fmt: skip
def test_wrong_tables_are_told(cls: type, table: dict[str, Any]) -> None:
    """Ranges, types and unknown keys are mistakes before anything is rented."""
    found = _read(cls, **table)
    assert len(found.mistakes) == 1


def test_the_jobs_word_wins_and_secure_means_a_datacentre() -> None:
    """What a job leaves out is as the settings say; `cloud = SECURE` always asks for a datacentre."""
    settings = VastSettings(verified=False, min_reliability=0.5)
    assert hosts_of(settings, VastJob(), secure=False).verified is False
    mixed = hosts_of(settings, VastJob(verified=True, datacenter_only=False), secure=True)
    assert (mixed.verified, mixed.datacenter, mixed.floor, mixed.floor_set) == (True, True, 0.5, True)
