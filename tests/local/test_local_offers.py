"""What the local provider says of itself and of this computer."""

from __future__ import annotations

import os
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import pluggy
import pytest

from gipper import hookspecs
from gipper.api import OfferQuery
from gipper.builtin.local import LocalProvider
from gipper.builtin.local.offers import Facts, Gpus, find_gpus, list_offers, parse_gpus, sold_gb
from gipper.builtin.local.provider import LocalSettings

FACTS = Facts(disk_gb=100.0, memory_gb=16.0, cpus=4.0)
TWO = "NVIDIA GeForce RTX 4090, 24564, 570.86.15, 8.9\nNVIDIA GeForce RTX 4090, 24564, 570.86.15, 8.9\n"


def query(**more: Any) -> OfferQuery:
    return OfferQuery(deadline=time.monotonic() + 30, **more)


def fake_smi(folder: Path, body: str) -> dict[str, str]:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:/usr/bin:/bin"}


def test_the_class_fits_the_hooks() -> None:
    """Every hook of the class fits its specification, and the info is told without building anything."""
    manager = pluggy.PluginManager("gipper")
    manager.add_hookspecs(hookspecs)
    manager.register(LocalProvider(None))  # type: ignore[arg-type]  # building opens nothing
    manager.check_pending()
    info = LocalProvider.gipper_provider()
    assert (info.name, info.appear_s, info.settle_s, info.settings_table) == (
        "local",
        0.0,
        0.2,
        LocalSettings,
    )
    assert (info.cpu, info.tcp, info.udp, info.named_only, info.bootstrap) == (True, True, False, True, False)


def test_the_price_is_a_setting(new_market: Any) -> None:
    """`usd_h` of the settings is on the offer and on the machine."""
    market = new_market(usd_h="1.5")
    (offer,) = market.provider.gipper_list_offers(query(gpu_count=0))
    assert offer.usd_h == Decimal("1.5")
    assert market.rent().usd_h == Decimal("1.5")


def test_a_negative_price_is_refused() -> None:
    """The settings table takes no price below 0."""
    with pytest.raises(ValueError, match="usd_h"):
        LocalSettings(usd_h=Decimal(-1))


def test_a_machine_without_gpus_offers_none() -> None:
    """A job that asks for a GPU gets no offer and the reason."""
    listing = list_offers(query(gpu_count=1), Gpus(problem="no nvidia-smi"), FACTS, Decimal(0))
    assert len(listing) == 0
    assert listing.notes == ("local: this machine has 0 GPU(s), the job asks for 1 (no nvidia-smi)",)


def test_real_gpus_are_offered() -> None:
    """GPUs are offered as sold, as many as the job asks for, the rest hidden from it."""
    (offer,) = list_offers(query(gpu_count=1), parse_gpus(TWO), FACTS, Decimal(0))
    assert offer.gpu is not None
    assert attrs.astuple(offer.gpu) == ("NVIDIA GeForce RTX 4090", 24.0, (8, 9))
    assert (offer.gpu_count, offer.driver, offer.raw["visible"]) == (1, "570.86.15", "0")
    (both,) = list_offers(query(gpu_count=2), parse_gpus(TWO), FACTS, Decimal(0))
    assert (both.gpu_count, both.raw["visible"]) == (2, None)
    assert len(list_offers(query(gpu_count=3), parse_gpus(TWO), FACTS, Decimal(0))) == 0


def test_a_job_without_gpus_is_offered_none(market: Any) -> None:
    """For a job without a GPU the machine is offered without one, with disk and memory."""
    (offer,) = market.provider.gipper_list_offers(query(gpu_count=0, image="x"))
    assert (offer.gpu, offer.gpu_count) == (None, 0)
    assert offer.disk_gb > 0 and offer.memory_gb > 0 and offer.cpus >= 1
    assert not offer.udp


def test_hidden_gpus_are_hidden_from_sessions(market: Any) -> None:
    """A session sees the CUDA devices that were rented and no others."""
    offer = list_offers(query(gpu_count=1), parse_gpus(TWO), FACTS, Decimal(0)).items[0]
    machine = market.running(market.provider.gipper_rent(offer, market.request()).id)
    assert market.ssh(machine, "echo $CUDA_VISIBLE_DEVICES").stdout == b"0\n"


def test_an_image_is_told_to_be_unused(market: Any) -> None:
    """A job's image can't be used here, and a note says so."""
    assert "pod.image" in market.provider.gipper_list_offers(query(gpu_count=0, image="x")).notes[0]


@pytest.mark.parametrize(
    ("mib", "gb"),
    [
        (24564, 24),
        (81559, 80),
        (23034, 24),
        (46068, 48),
        (15360, 16),
        (32607, 32),
        (143771, 141),
        (11264, 11),
        (12288, 12),
        (16384, 16),
        (40960, 40),
        (49140, 48),
        (6144, 6),
        (97887, 96),
        (9216, 9),
        (700000, 684),
    ],
)
def test_memory_is_told_as_sold(mib: float, gb: float) -> None:
    """What drivers show in MiB becomes the GB that cards are sold with."""
    assert sold_gb(mib) == gb


@pytest.mark.parametrize("text", ["", "No devices were found\n", "a,b\n", "RTX, [N/A], 570, 8.9\n"])
def test_answers_without_gpus(text: str) -> None:
    """An answer that names no GPU is no GPU, not an error."""
    assert parse_gpus(text).count == 0


def test_nvidia_smi_is_asked(tmp_path: Path) -> None:
    """What nvidia-smi answers is what is offered, and it sees no key of the environment."""
    env = fake_smi(tmp_path, f'env > {tmp_path}/seen; echo "Tesla T4, 15360, 535.1, 7.5"')
    gpus = find_gpus({**env, "VAST_API_KEY": "secret-key"}, 10.0)
    assert gpus.model is not None
    assert (gpus.model.name, gpus.model.memory_gb, gpus.count) == ("Tesla T4", 16.0, 1)
    assert "secret-key" not in (tmp_path / "seen").read_text()


def test_a_broken_nvidia_smi_is_told(tmp_path: Path) -> None:
    """An nvidia-smi that fails or hangs means no GPUs and a reason, within the time given."""
    assert find_gpus(fake_smi(tmp_path, "exit 9"), 10.0).problem == "nvidia-smi failed"
    assert "in time" in str(find_gpus(fake_smi(tmp_path, "exec sleep 60"), 0.3).problem)
    assert find_gpus({"PATH": str(tmp_path / "empty")}, 10.0).problem == "no nvidia-smi"
