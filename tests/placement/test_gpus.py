"""GPU names: one model whatever the spelling, and never another one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gipper.gpu_table import TABLE
from gipper.gpus import (
    canonical,
    capability_of,
    gpu_model,
    known,
    memory_as_sold,
    model_name,
    parse,
    same_model,
)

SPELLINGS = {
    "RTX 4090": [
        "RTX_4090",
        "RTX 4090",
        "RTX4090",
        "NVIDIA GeForce RTX 4090",
        "nvidia-rtx-4090",
        "rtx  4090",
    ],
    "A100 SXM": ["A100 SXM4", "A100_sxm4", "NVIDIA A100-SXM4-80GB", "A100 SXM", "A100_sxm4_80G"],
    "A100 PCIe": ["A100 PCIE", "NVIDIA A100 80GB PCIe", "NVIDIA A100-PCIE-40GB"],
    "H100 SXM": ["H100 SXM", "H100_sxm5", "NVIDIA H100 80GB HBM3"],
    "H100 NVL": ["H100 NVL", "NVIDIA H100 NVL", "H100_nvl"],
    "H200": ["H200", "NVIDIA H200", "H200 SXM", "H200_sxm5"],
    "RTX A6000": ["RTX A6000", "A6000", "NVIDIA RTX A6000"],
    "Quadro RTX 6000": ["Q RTX 6000", "Quadro RTX 6000", "RTX6000"],
    "RTX 6000 Ada": ["RTX 6000Ada", "RTX6000Ada", "NVIDIA RTX 6000 Ada Generation"],
    "RTX PRO 6000 Server": ["RTX PRO 6000 S", "NVIDIA RTX PRO 6000 Blackwell Server Edition"],
    "RTX 4070 Ti SUPER": ["RTX 4070S Ti", "NVIDIA GeForce RTX 4070 Ti SUPER"],
    "RTX 4080 SUPER": ["RTX 4080S", "NVIDIA GeForce RTX 4080 SUPER"],
    "RTX 4090 D": ["RTX 4090D", "RTX 4090 D"],
    "L40S": ["L40S", "NVIDIA L40S", "L40s_vm"],
    "A10G": ["A10g", "NVIDIA A10G"],
    "T4": ["Tesla T4", "NVIDIA Tesla T4", "T4"],
    "V100 SXM": ["Tesla V100-SXM2-16GB", "V100 SXM2"],
    "GTX 1660 SUPER": ["GTX 1660 S", "GTX 1660 SUPER"],
}


@pytest.mark.parametrize(("shown", "name"), [(k, n) for k, names in SPELLINGS.items() for n in names])
def test_every_spelling_is_one_model(shown, name):
    """All spellings of a card are shown alike and match each other."""
    assert canonical(name) == shown
    assert same_model(SPELLINGS[shown][0].split(" 80GB")[0], gpu_model(name))


@pytest.mark.parametrize(
    ("wanted", "other"),
    [
        ("L4", "L40"), ("L40", "L40S"), ("A10", "A100"), ("A10", "A10G"), ("A40", "RTX A4000"),
        ("T4", "T400"),
        ("RTX 4070", "RTX 4070 Ti"), ("RTX 4070 Ti", "RTX 4070 Ti SUPER"), ("RTX 3090", "RTX 3090 Ti"),
        ("RTX 4090", "RTX 4090 D"), ("RTX 6000 Ada", "RTX PRO 6000"), ("RTX A6000", "RTX 6000 Ada"),
        ("RTX 6000", "RTX A6000"), ("H100", "H800"), ("B200", "GB200"), ("RTX 4090", "RTX 4080"), ("", "L4"),
        ("RTX", "RTX 4090"), ("H100 SXM", "H100 PCIe"), ("H100 PCIe", "H100 NVL"), ("H100 SXM", "H100"),
        ("A100 80GB", "A100-40GB"), ("RTX PRO 6000 Server", "RTX PRO 6000 WS"),
    ],
)  # fmt: skip
def test_another_card_never_matches(wanted, other):
    """Parts of a name, and another form factor or size than the one asked for, are not the same card."""
    assert not same_model(wanted, gpu_model(other))


@pytest.mark.parametrize("name", ["H100_sxm5", "H100 PCIE", "NVIDIA H100 NVL", "NVIDIA H100 80GB HBM3"])
def test_a_bare_name_covers_every_form(name):
    """ "H100" takes SXM, PCIe and NVL."""
    assert same_model("H100", gpu_model(name))


def test_d_009_stray_blanks_in_ids():
    """Two ids that differ in blanks are one card, shown alike."""
    assert same_model("RTX A4500", gpu_model("NVIDIA  RTX A4500"))
    assert canonical("NVIDIA  RTX A4500") == canonical("NVIDIA RTX A4500") == "RTX A4500"


def test_d_001_memory_as_sold():
    """What a card reports in MiB becomes the GB on its box."""
    seen = {
        24564: 24,
        24576: 24,
        24000: 24,
        22528: 22,
        81559: 80,
        46068: 48,
        15109: 16,
        143771: 141,
        11264: 11,
    }
    assert {mib: memory_as_sold(mib) for mib in seen} == seen
    assert all(isinstance(memory_as_sold(mib), int) for mib in seen)


@pytest.mark.parametrize("size", [4, 6, 8, 10, 11, 12, 16, 20, 22, 24, 32, 40, 48, 80, 94, 96, 141, 180, 192])
def test_a_size_in_whole_gib_is_itself(size):
    """A card that reports exactly its size keeps it."""
    assert memory_as_sold(size * 1024) == size


@given(st.floats(1, 1e6), st.floats(1, 1e6))
def test_memory_never_shrinks_by_reporting_more(one, other):
    """More reported MiB never mean a smaller card."""
    low, high = sorted((one, other))
    assert memory_as_sold(low) <= memory_as_sold(high)


def test_d_011_a_card_newer_than_the_table():
    """An unknown card keeps its name and memory, its capability is unknown, and it matches itself."""
    model = gpu_model("RTX ZED 9000", memory_as_sold(131072))
    assert (model.name, model.memory_gb, capability_of(model)) == ("RTX ZED 9000", 128, None)
    assert same_model("NVIDIA RTX_ZED-9000", model)
    assert known("RTX ZED 9000") is None


@given(st.text(max_size=60))
def test_any_name_is_taken(name):
    """No text makes the parser fail, and what it shows means the same model again."""
    model = gpu_model(name)
    assert parse(canonical(name)).words == parse(name).words
    assert not parse(name).words or same_model(model_name(name), model)


def test_every_row_of_the_table_can_be_found():
    """Each model's own name leads to its own row, and no two rows share a name."""
    rows = [(cc, name, sizes) for cc, models in TABLE for name, sizes in models]
    for capability, name, sizes in rows:
        row = known(name)
        assert row is not None
        assert (row.display, row.capability, row.sizes_gb) == (name, capability, sizes)
        assert canonical(name) == name


@pytest.mark.parametrize(
    ("name", "capability"),
    [("B300", (10, 3)), ("NVIDIA B200", (10, 0)), ("RTX5090", (12, 0)), ("H100 SXM", (9, 0)), ("L4", (8, 9)),
     ("A100-80GB", (8, 0)), ("A10G", (8, 6)), ("Tesla T4", (7, 5)), ("V100", (7, 0)), ("P100", (6, 0))],
)  # fmt: skip
def test_capabilities(name, capability):
    """The table's capability is found under providers' spellings."""
    assert gpu_model(name).compute_capability == capability
