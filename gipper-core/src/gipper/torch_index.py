"""Which PyTorch wheels a machine can use: by the branch of its driver, and by what its GPUs can run.

The driver's own version decides. What nvidia-smi prints as "CUDA Version" doesn't: libraries for forward
compatibility inside an image make it larger than what the driver can do.

Sources of `TABLE`: NVIDIA's CUDA release notes for the first driver of each CUDA release and for its promise
of minor-version compatibility (any CUDA 12 program runs from 525 on, any 11 from 450, any 13 from 580);
PyTorch's release matrix for the indexes; `torch.cuda.get_arch_list()` of published wheels for the kernels.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

BASE: Final = "https://download.pytorch.org/whl"
NO_GPU: Final = "cpu"
# Capabilities as tenths (8.6 is 86), so that a shell can compare them.
UNKNOWN: Final = -1
ANY: Final = 9999
OLD_BELOW: Final = 75
NEW_FROM: Final = 100


@attrs.frozen(kw_only=True)
class Row:
    """`tag` is right for capabilities from `from_` to under `below` (tenths), drivers from branch `driver`.

    `note` is what a person should be told, in ASCII without quotes.
    """

    from_: int
    below: int
    driver: int
    tag: str
    note: str = ""


# The first row that fits wins.
TABLE: Final[tuple[Row, ...]] = (
    # Before Maxwell (5.0): no index that is still there has kernels.
    Row(from_=0, below=50, driver=0, tag=NO_GPU, note="no wheel has kernels for a GPU this old"),
    # Maxwell, Pascal, Volta: CUDA 13 can't build for them and cu128 left them out, on any driver. cu126 has
    # 5.0 to 9.0, and CUDA 12's minor-version compatibility takes it down to 525; cu118 goes down to 450.
    Row(from_=50, below=OLD_BELOW, driver=525, tag="cu126"),
    Row(from_=50, below=OLD_BELOW, driver=450, tag="cu118"),
    Row(from_=50, below=OLD_BELOW, driver=0, tag="cu118", note="these wheels need a driver of 450 or newer"),
    # Blackwell: first kernels in cu128, first driver 570. Code built for 9.0 doesn't run on it.
    Row(from_=NEW_FROM, below=ANY, driver=580, tag="cu130"),
    Row(from_=NEW_FROM, below=ANY, driver=570, tag="cu128"),
    Row(from_=NEW_FROM, below=ANY, driver=0, tag="cu128", note="this GPU needs a driver of 570 or newer"),
    # All others, and those whose capability isn't known: the CUDA release that is the driver's own.
    Row(from_=UNKNOWN, below=ANY, driver=580, tag="cu130"),
    Row(from_=UNKNOWN, below=ANY, driver=570, tag="cu128"),
    Row(from_=UNKNOWN, below=ANY, driver=560, tag="cu126"),
    Row(from_=UNKNOWN, below=ANY, driver=550, tag="cu124"),
    Row(from_=UNKNOWN, below=ANY, driver=525, tag="cu121"),
    Row(from_=UNKNOWN, below=ANY, driver=0, tag="cu121", note="these wheels need a driver of 525 or newer"),
)


def choose(driver: int, capability: int = UNKNOWN) -> Row:
    """The row for a driver branch (580; 0 = unknown) and a capability in tenths."""
    return next(r for r in TABLE if r.from_ <= capability < r.below and driver >= r.driver)


def deciding(capabilities: Iterable[int]) -> int:
    """Of several GPUs' capabilities (tenths) the one to choose by, so that all can run where possible.

    An old GPU limits the wheels from above, so the lowest counts where it is old; else the highest.
    """
    known = [c for c in capabilities if c != UNKNOWN]
    if not known:
        return UNKNOWN
    return min(known) if min(known) < OLD_BELOW else max(known)


def url(tag: str) -> str:
    """The index's address."""
    return f"{BASE}/{tag}"


def shell_table() -> str:
    """`TABLE` for a shell's `read`: from, below, driver, tag, note; a row a line."""
    return "\n".join(f"{r.from_} {r.below} {r.driver} {r.tag} {r.note}".rstrip() for r in TABLE)
