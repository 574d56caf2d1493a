"""The bootstrap against a fake nvidia-smi: which index it names, and what it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from bootstrap.bare_machine import BareMachine, gpu

from gipper.torch_index import choose, url

GRID = [
    (driver, cap)
    for driver in (
        "595.10",
        "580.65.06",
        "579.9",
        "570.26",
        "560.28.03",
        "550.90",
        "525.60.13",
        "470.82",
        "390.1",
    )
    for cap in ("3.7", "5.0", "7.0", "7.5", "8.9", "9.0", "10.0", "12.1")
]
real_gpu_here = pytest.mark.skipif(
    Path("/usr/bin/nvidia-smi").exists(), reason="this computer has a real GPU"
)


@pytest.mark.parametrize(
    ("driver", "tag"),
    [
        ("580.65.06", "cu130"),
        ("575.51.03", "cu128"),
        ("570.26", "cu128"),
        ("565.57", "cu126"),
        ("550.90", "cu124"),
        ("535.183.06", "cu121"),
    ],
)
def test_d_042_the_driver_decides(machine: BareMachine, driver: str, tag: str) -> None:
    """In each shell each driver branch leads to its index, as a full address and as a tag."""
    machine.gpus(gpu(driver=driver))
    seen = machine.source()
    assert seen.env["GIPPER_TORCH_INDEX"] == url(tag)
    assert seen.env["GIPPER_TORCH_CUDA"] == tag


def test_the_shell_chooses_as_the_table_does(one: BareMachine) -> None:
    """Every driver branch crossed with every edge of capability: shell and table agree, notes too."""
    wrong = []
    for driver, cap in GRID:
        one.gpus(gpu(driver=driver, cap=cap))
        row = choose(int(driver.partition(".")[0]), int(cap.replace(".", "")))
        seen = one.source()
        if (seen.tag, row.note in seen.lines[0]) != (row.tag, True):
            wrong.append((driver, cap, row, seen.lines))
    assert not wrong


def test_d_042_several_cards_one_value(machine: BareMachine) -> None:
    """Two cards repeat the driver: one index, one line of the driver, a line for each card."""
    machine.gpus(gpu(driver="535.183.06"), gpu(driver="535.183.06", mib="49140", name="NVIDIA L40S"))
    seen = machine.source()
    assert seen.tag == "cu121"
    assert seen.lines == [
        "gipper: driver 535.183.06, PyTorch index https://download.pytorch.org/whl/cu121",
        "gipper: GPU 0: NVIDIA GeForce RTX 4090, 24564 MiB",
        "gipper: GPU 1: NVIDIA L40S, 49140 MiB",
    ]
    assert seen.out == ""


@pytest.mark.parametrize(
    ("caps", "driver", "tag"),
    [
        (("8.9", "12.0"), "560.1", "cu128"),
        (("12.0", "8.9"), "560.1", "cu128"),
        (("7.0", "9.0"), "580.1", "cu126"),
        (("9.0", "7.0"), "580.1", "cu126"),
    ],
)
def test_cards_of_several_kinds(machine: BareMachine, caps: tuple[str, ...], driver: str, tag: str) -> None:
    """The order of the cards doesn't matter: an old one bounds the index from above, a new one from below."""
    machine.gpus(*(gpu(driver=driver, cap=cap) for cap in caps))
    assert machine.source().tag == tag


def test_an_nvidia_smi_that_does_not_know_the_capability(machine: BareMachine) -> None:
    """It is asked again without it; the driver alone decides."""
    machine.gpus(gpu(driver="470.82.01", name="Tesla T4", mib="15109"), old=True)
    seen = machine.source()
    assert seen.tag == "cu121"
    assert seen.lines[1] == "gipper: GPU 0: Tesla T4, 15109 MiB"


@pytest.mark.parametrize("cap", ["[N/A]", "", "x.y", "12", "1.2.3"])
def test_a_capability_that_makes_no_sense_is_unknown(one: BareMachine, cap: str) -> None:
    """Then the driver alone decides."""
    one.gpus(gpu(cap=cap))
    assert one.source().tag == "cu130"


def test_a_driver_and_a_memory_that_are_not_told(machine: BareMachine) -> None:
    """An unknown driver leads to the oldest index and is said; unknown memory is said too."""
    machine.gpus(gpu(driver="[N/A]", mib="[N/A]", name="NVIDIA GB10's"))
    seen = machine.source()
    assert seen.tag == "cu121"
    assert seen.lines[0].startswith("gipper: driver unknown, ") and "525" in seen.lines[0]
    assert seen.lines[1] == "gipper: GPU 0: NVIDIA GB10's, memory unknown"


def test_an_empty_answer_is_no_gpu(machine: BareMachine) -> None:
    """A machine whose nvidia-smi names no card has none."""
    machine.program("nvidia-smi", "echo 'No devices were found'")
    seen = machine.source()
    assert (seen.tag, len(seen.lines)) == ("cpu", 1)


@real_gpu_here
def test_no_nvidia_smi_is_cpu(machine: BareMachine) -> None:
    """A machine without a GPU gets PyTorch's index for processors, in one line."""
    seen = machine.source()
    assert seen.lines == [f"gipper: no GPU here (no nvidia-smi), PyTorch index {url('cpu')}"]
    assert seen.env["GIPPER_TORCH_CUDA"] == "cpu"


def test_an_nvidia_smi_that_fails_is_cpu(machine: BareMachine) -> None:
    """A broken driver is one line with the status, and cpu."""
    machine.program("nvidia-smi", "echo 'NVIDIA-SMI has failed'; exit 9")
    seen = machine.source()
    assert seen.lines == [f"gipper: nvidia-smi failed (exit 9), taken as no GPU, PyTorch index {url('cpu')}"]


def test_an_nvidia_smi_that_hangs_is_ended(machine: BareMachine) -> None:
    """It is ended at its limit even where it ignores TERM: one line, cpu, and the job goes on."""
    machine.program("nvidia-smi", "trap '' TERM\nexec sleep 300")
    seen = machine.source()
    assert seen.lines == [
        f"gipper: nvidia-smi gave no answer within 1 s, taken as no GPU, PyTorch index {url('cpu')}"
    ]


@pytest.mark.parametrize(
    ("given", "index", "cuda"),
    [
        (
            {"GIPPER_TORCH_INDEX": "https://mirror.example/whl/cu118"},
            "https://mirror.example/whl/cu118",
            "cu118",
        ),
        ({"GIPPER_TORCH_CUDA": "cu124"}, url("cu124"), "cu124"),
        ({"GIPPER_TORCH_INDEX": "", "GIPPER_TORCH_CUDA": ""}, "", ""),
    ],
)
def test_an_index_that_the_user_set_stays(
    machine: BareMachine, given: dict[str, str], index: str, cuda: str
) -> None:
    """What the job file says is not overridden, and the other variable follows it."""
    machine.gpus(gpu())
    seen = machine.source(env=given)
    assert (seen.env["GIPPER_TORCH_INDEX"], seen.env["GIPPER_TORCH_CUDA"]) == (index, cuda)
