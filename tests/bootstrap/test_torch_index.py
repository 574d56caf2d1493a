"""The table of PyTorch wheel indexes: every driver branch, every edge of compute capability."""

from __future__ import annotations

import pytest

from gipper.torch_index import ANY, NO_GPU, TABLE, UNKNOWN, choose, deciding, shell_table, url

BRANCHES = (0, 390, 450, 470, 515, 525, 535, 549, 550, 559, 560, 565, 569, 570, 575, 579, 580, 590, 620)
CAPABILITIES = (UNKNOWN, 30, 37, 49, 50, 61, 70, 74, 75, 80, 86, 89, 90, 99, 100, 103, 120, 121)


@pytest.mark.parametrize("capability", [UNKNOWN, 75, 80, 86, 89, 90])
@pytest.mark.parametrize(
    ("branch", "tag"),
    [
        (620, "cu130"), (590, "cu130"), (580, "cu130"), (579, "cu128"), (570, "cu128"), (569, "cu126"),
        (560, "cu126"), (559, "cu124"), (550, "cu124"), (549, "cu121"), (535, "cu121"), (470, "cu121"),
    ],
)  # fmt: skip
def test_d_042_each_driver_branch_has_its_index(branch: int, tag: str, capability: int) -> None:
    """Where the card sets no bound, the driver's branch alone decides, with its edge in the right place."""
    assert choose(branch, capability).tag == tag


@pytest.mark.parametrize("capability", [50, 52, 60, 61, 70, 74])
@pytest.mark.parametrize(
    ("branch", "tag"), [(590, "cu126"), (580, "cu126"), (525, "cu126"), (524, "cu118"), (450, "cu118")]
)
def test_an_old_card_gets_wheels_that_have_its_kernels(capability: int, branch: int, tag: str) -> None:
    """Maxwell to Volta never get CUDA 13's wheels, however new the driver is."""
    assert choose(branch, capability).tag == tag


@pytest.mark.parametrize("capability", [100, 103, 120, 121])
@pytest.mark.parametrize(
    ("branch", "tag", "told"),
    [
        (590, "cu130", False),
        (580, "cu130", False),
        (570, "cu128", False),
        (569, "cu128", True),
        (550, "cu128", True),
    ],
)
def test_a_new_card_gets_at_least_cu128(capability: int, branch: int, tag: str, told: bool) -> None:
    """Blackwell has no kernels before cu128; a driver that is too old for it is said to be."""
    row = choose(branch, capability)
    assert (row.tag, bool(row.note)) == (tag, told)


@pytest.mark.parametrize("capability", [30, 37, 49])
def test_a_card_without_any_wheel_gets_cpu(capability: int) -> None:
    """Kepler has no kernels anywhere, and that is said."""
    assert (choose(470, capability).tag, bool(choose(470, capability).note)) == (NO_GPU, True)


def test_there_is_an_index_for_everything() -> None:
    """No driver and no capability falls through, and no rule of the cards is broken on any driver."""
    for branch in BRANCHES:
        for capability in CAPABILITIES:
            number = int(choose(branch, capability).tag.removeprefix("cu").replace(NO_GPU, "0"))
            assert capability < 100 or number >= 128
            assert not 0 <= capability < 75 or number <= 126


@pytest.mark.parametrize(
    ("several", "one"),
    [
        ((), UNKNOWN),
        ((UNKNOWN,), UNKNOWN),
        ((89, 89), 89),
        ((86, 120), 120),
        ((120, 70), 70),
        ((UNKNOWN, 80), 80),
    ],
)
def test_several_cards_make_one_choice(several: tuple[int, ...], one: int) -> None:
    """An old card bounds the wheels from above; else the newest card bounds them from below."""
    assert deciding(several) == one


def test_the_shell_gets_the_same_table() -> None:
    """Each row is five words' worth for `read`: three numbers, a tag, and a note without quotes."""
    lines = shell_table().splitlines()
    assert len(lines) == len(TABLE)
    for line, row in zip(lines, TABLE, strict=True):
        from_, below, driver, tag, *note = line.split(" ")
        assert (int(from_), int(below), int(driver), tag) == (row.from_, row.below, row.driver, row.tag)
        assert " ".join(note) == row.note and row.note.isascii() and not set("'\"\\$`") & set(row.note)
    assert TABLE[-1].below == ANY and TABLE[-1].driver == 0


def test_the_address_is_pytorchs_own() -> None:
    """The index is a full address, as pip and uv take it."""
    assert url("cu128") == "https://download.pytorch.org/whl/cu128"
