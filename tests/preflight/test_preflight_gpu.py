"""The GPUs as nvidia-smi tells of them."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stubs.gpu_stubs import card
from stubs.gpu_world import World

from gipper.builtin.checks.gpu_answer import read
from gipper.builtin.checks.gpu_judging import same_card
from gipper.errors import BadHost, Unsuitable
from gipper.gpus import known, parse
from gipper.values.offers import GpuModel

PAIR = [card(0), card(1)]


def test_an_idle_card_as_offered_passes_with_its_facts(any_shell: World) -> None:
    """One round trip; the receipt tells driver, names, memory, use and capability."""
    any_shell.wants(count=1, min_compute_capability="8.9")
    result = any_shell.check("gpu")
    assert dict(result.facts) == {
        "driver": "580.65.06", "names": ["NVIDIA GeForce RTX 4090"], "memory_mib": [24564.0],
        "used_mib": [1.0], "use_percent": [0.0], "capability": ["8.9"], "processes": [],
    }  # fmt: skip
    assert not result.env
    assert any_shell.remote.asked == 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"memory_used": 18472, "utilization_gpu": 73}, "18472 MiB"),
        ({"memory_used": 18472}, "18472 MiB"),
        ({"utilization_gpu": 73}, "73 %"),
    ],
)
def test_d_040_a_busy_card_without_visible_process_is_bad(
    any_shell: World, change: dict[str, int], says: str
) -> None:
    """Memory or processors in use count, though the process list is empty."""
    any_shell.fast_clock()
    any_shell.stubs.smi(cards=[card(**change)])
    error = any_shell.fails("gpu", BadHost)
    assert "busy" in error.message
    assert says in error.message
    assert error.facts["driver"] == "580.65.06"


def test_d_040_what_the_driver_itself_keeps_is_not_busy(world: World) -> None:
    """400 MiB in use and nothing computing is an idle card."""
    world.stubs.smi(cards=[card(memory_used=400)])
    assert world.check("gpu").facts["used_mib"] == [400.0]


def test_a_card_that_only_woke_up_is_not_busy(any_shell: World) -> None:
    """Use that is gone at the second look was nvidia-smi's own; the third look is the last."""
    any_shell.fast_clock()
    any_shell.stubs.smi(cards=PAIR, samples=[[99, 0], [0, 97], [0, 97]])
    any_shell.offered(gpu_count=2)
    assert any_shell.check("gpu").facts["use_percent"] == [0.0, 0.0]
    assert (any_shell.stubs.bin / "smi.calls").read_text() == "ccc"


def test_a_foreign_process_is_bad(any_shell: World) -> None:
    """Somebody computes on the card that was rented."""
    app = {"pid": 4242, "used_memory": 300, "process_name": "python3 train.py"}
    any_shell.stubs.smi(cards=[card()], apps=[app])
    error = any_shell.fails("gpu", BadHost)
    assert "busy" in error.message
    assert "train.py" in error.message
    assert error.facts["processes"] == ["4242, 300, python3 train.py"]


def test_the_daemon_that_shares_cards_is_no_process(world: World) -> None:
    """The host's multi-process server sits on every card and computes nothing itself."""
    world.stubs.smi(cards=[card()], apps=[{"pid": 9, "process_name": "nvidia-cuda-mps-server"}])
    world.check("gpu")


def test_d_041_another_card_than_offered_is_bad_and_named(world: World) -> None:
    """An RTX 5090 was offered, an RTX 3060 is there: both are in the reason."""
    world.offered(gpu=GpuModel(name="RTX 5090", memory_gb=32))
    world.stubs.smi(cards=[card(name="NVIDIA GeForce RTX 3060", memory_total=12288)])
    error = world.fails("gpu", BadHost)
    assert all(text in error.message for text in ("RTX 5090", "NVIDIA GeForce RTX 3060", "12 GB"))
    assert error.facts["memory_mib"] == [12288.0]


def test_less_memory_than_offered_is_bad(world: World) -> None:
    """A share of a card isn't the card."""
    world.stubs.smi(cards=[card(memory_total=12000)])
    assert "24 GB" in world.fails("gpu", BadHost).message


def test_fewer_cards_than_offered_is_bad(world: World) -> None:
    """Two were offered, one is there."""
    world.offered(gpu_count=2)
    assert "2 GPU(s) were offered, nvidia-smi names 1" in world.fails("gpu", BadHost).message


def test_two_cards_tell_one_driver(any_shell: World) -> None:
    """D-042: a driver text with a line for each card is one value."""
    any_shell.offered(gpu_count=2)
    any_shell.stubs.smi(cards=[card(i, driver_version="535.183.06") for i in range(2)])
    assert any_shell.check("gpu").facts["driver"] == "535.183.06"


def test_d_042_under_the_jobs_floor_is_unsuitable(world: World) -> None:
    """A card that is too old for the job is nobody's fault."""
    world.wants(min_compute_capability="8.0")
    world.offered(gpu=GpuModel(name="T4", memory_gb=16))
    world.stubs.smi(cards=[card(name="Tesla T4", memory_total=15360, compute_cap="7.5")])
    error = world.fails("gpu", Unsuitable)
    assert "7.5" in error.message
    assert "8.0" in error.message
    assert error.facts["capability"] == ["7.5"]


def test_an_old_nvidia_smi_does_not_know_the_capability(any_shell: World) -> None:
    """Without that field all the rest is still told."""
    any_shell.stubs.smi(cards=[card()], unknown=["compute_cap"])
    facts = any_shell.check("gpu").facts
    assert facts["capability"] == [None]
    assert facts["driver"] == "580.65.06"


def test_no_nvidia_smi_is_bad(world: World) -> None:
    """A machine that was offered with a GPU has the driver's tools."""
    world.stubs.no_smi()
    assert "no nvidia-smi" in world.fails("gpu", BadHost).message


def test_an_nvidia_smi_that_fails_is_bad(any_shell: World) -> None:
    """Its own words are in the reason."""
    any_shell.stubs.smi(cards=[], status=9)
    assert "couldn't communicate" in any_shell.fails("gpu", BadHost).message


def test_an_nvidia_smi_that_hangs_is_bad(any_shell: World) -> None:
    """It is ended on the machine after its own limit, and that is the verdict."""
    limits = any_shell.hasty()
    any_shell.stubs.smi(cards=[], hang=True)
    assert "hangs" in any_shell.fails("gpu", BadHost).message
    assert limits() == ["20"]


def test_a_job_without_gpu_asks_nothing(world: World) -> None:
    """Neither a job that wants none nor a machine without any is asked."""
    for count, offered in ((0, 1), (1, 0)):
        world.wants(count=count)
        world.offered(gpu_count=offered)
        for name in ("gpu", "cuda", "kernel"):
            assert "GPU" in world.check(name).facts["skipped"]
    assert world.remote.asked == 0


def test_only_visible_cards_count(world: World) -> None:
    """A session that may use one card of two isn't blamed for the other one's use."""
    world.stubs.smi(cards=[card(0, memory_used=20000), card(1)])
    world.remote.env["CUDA_VISIBLE_DEVICES"] = "1"
    world.check("gpu")
    world.offered(gpu_count=2)
    world.fails("gpu", BadHost)


def test_memory_floor_counts_where_the_offer_told_none(world: World) -> None:
    """A card that is too small for the job is unsuitable if nothing bigger was promised."""
    world.offered(gpu=None)
    world.wants(min_mem_gb=40)
    assert "40 GB" in world.fails("gpu", Unsuitable).message


@pytest.mark.parametrize(
    ("offered", "reported"),
    [
        ("RTX 4090", "NVIDIA GeForce RTX 4090"), ("H100 SXM", "NVIDIA H100 80GB HBM3"),
        ("H100", "NVIDIA H100 PCIe"), ("A100 PCIe", "NVIDIA A100 80GB PCIe"),
        ("A100 SXM4", "NVIDIA A100-SXM4-40GB"), ("GH200 SXM", "NVIDIA GH200 480GB"),
        ("V100", "Tesla V100-FHHL-16GB"), ("A100 SXM4", "NVIDIA A100-PG509-200"),
        ("B300 PC", "NVIDIA B300 SXM6 AC"), ("RTX A6000", "NVIDIA RTX A6000"),
        ("RTX PRO 6000 S", "NVIDIA RTX PRO 6000 Blackwell Server Edition"),
        ("RTX 6000 Ada", "NVIDIA RTX 6000 Ada Generation"), ("A10g", "NVIDIA A10G"),
    ],
)  # fmt: skip
def test_spellings_of_one_card_agree(offered: str, reported: str) -> None:
    """What a market calls a card and what the card calls itself differ, and mean the same."""
    assert _same(offered, reported)


@pytest.mark.parametrize(
    ("offered", "reported"),
    [
        ("RTX 5090", "NVIDIA RTX PRO 6000 Blackwell Server Edition"), ("RTX 4070", "NVIDIA GeForce RTX 4070 Ti"),
        ("L40S", "NVIDIA L40"), ("A10", "NVIDIA A100-SXM4-40GB"), ("H100 SXM", "NVIDIA H100 PCIe"),
        ("RTX 7090", "NVIDIA GeForce RTX 3060"), ("RTX 7090 Ti", "NVIDIA GeForce RTX 7090"),
        ("RTX 3070", "NVIDIA GeForce RTX 3070 Laptop GPU"), ("RTX 6000 Ada", "Quadro RTX 6000"),
    ],
)  # fmt: skip
def test_other_cards_do_not(offered: str, reported: str) -> None:
    """A name that only begins like another one is another card."""
    assert not _same(offered, reported)


def _same(offered: str, reported: str) -> bool:
    both = known(offered) is not None and known(reported) is not None
    return same_card(parse(offered), parse(reported), both_known=both)


@given(st.text(alphabet="=, \n0123456789.[N/A]cardsapifldGPU-%", max_size=300))
def test_any_answer_can_be_read(text: str) -> None:
    """Nonsense is unknown or left out; nothing of it raises."""
    told = read("== cards\n" + text)
    assert told.facts()["names"] == [c.name for c in told.cards]
    assert told.trouble(20) is None or isinstance(told.trouble(20), str)
    assert attrs.asdict(told)
