"""What this computer has to offer: its GPUs through nvidia-smi, its disk and its memory."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Final

import attrs

from gipper.api import GpuModel, Listing, Offer, OfferQuery
from gipper.builtin.local.launch import allowed

PROVIDER: Final = "local"
OFFER_ID: Final = "this-machine"
_QUERY: Final = "name,memory.total,driver_version,compute_cap"
_MOST_WAIT_S: Final = 20.0
_GB: Final = 10**9
# Sizes that cards are sold with. The driver shows some MiB less, with error correction up to 1/16 less.
_SOLD_GB: Final = (4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 94, 96, 128, 141, 192, 288)
_SHOWN_AT_LEAST: Final = 0.93


@attrs.frozen(kw_only=True)
class Gpus:
    """The GPUs of one model that this computer has. `problem` says why there is nothing to tell."""

    model: GpuModel | None = None
    count: int = 0
    driver: str | None = None
    problem: str | None = None


@attrs.frozen(kw_only=True)
class Facts:
    """What the computer has beside GPUs; `_gb` are 10^9 bytes."""

    disk_gb: float
    memory_gb: float
    cpus: float


def list_offers(query: OfferQuery, gpus: Gpus, facts: Facts, usd_h: Decimal) -> Listing[Offer]:
    """The one offer of this computer, or none and the reason."""
    if query.gpu_count > gpus.count:
        why = f" ({gpus.problem})" if gpus.problem else ""
        note = f"local: this machine has {gpus.count} GPU(s), the job asks for {query.gpu_count}{why}"
        return Listing(items=(), notes=(note,))
    notes = ("local: pod.image is not used, a job runs on this machine as it is",) if query.image else ()
    return Listing(items=(_offer(query.gpu_count, gpus, facts, usd_h),), notes=notes)


def find_gpus(environ: Mapping[str, str], timeout_s: float) -> Gpus:
    """Ask nvidia-smi, which sees only allow-listed variables, for at most `timeout_s` seconds."""
    env = allowed(environ)
    program = shutil.which("nvidia-smi", path=env["PATH"])
    if program is None:
        return Gpus(problem="no nvidia-smi")
    try:
        answer = subprocess.run(
            [program, f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=max(0.1, min(timeout_s, _MOST_WAIT_S)),
            env=env,
            check=True,
        )
    except subprocess.TimeoutExpired:
        return Gpus(problem="nvidia-smi did not answer in time")
    except (OSError, subprocess.CalledProcessError):
        return Gpus(problem="nvidia-smi failed")
    return parse_gpus(answer.stdout.decode("utf-8", "replace"))


def parse_gpus(text: str) -> Gpus:
    """nvidia-smi's lines as GPUs; the first one's model counts, others of the same model with it."""
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]
    found = [(model, row[2]) for row in rows if len(row) == 4 and (model := _model(row))]
    if not found:
        return Gpus(problem="nvidia-smi names no GPU")
    model, driver = found[0]
    same = sum(1 for other, _ in found if other == model)
    return Gpus(model=model, count=same, driver=driver)


def sold_gb(mib: float) -> float:
    """GB as sold for what the driver shows in MiB: 24 for 24,564."""
    shown = mib / 1024
    for size in _SOLD_GB:
        if size * _SHOWN_AT_LEAST <= shown <= size * 1.01:
            return float(size)
    return float(round(shown))


def find_facts(folder: Path) -> Facts:
    """Room on `folder`'s disk (or that of its nearest existing parent), memory and processors."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Facts(
        disk_gb=shutil.disk_usage(folder).free / _GB,
        memory_gb=memory / _GB,
        cpus=float(len(os.sched_getaffinity(0))),
    )


def _offer(wanted: int, gpus: Gpus, facts: Facts, usd_h: Decimal) -> Offer:
    return Offer(
        provider=PROVIDER,
        id=OFFER_ID,
        usd_h=usd_h,
        gpu=gpus.model if wanted else None,
        gpu_count=wanted,
        kind="process",
        cloud="SECURE",
        where="this machine",
        host_id=OFFER_ID,
        disk_gb=facts.disk_gb,
        memory_gb=facts.memory_gb,
        cpus=facts.cpus,
        driver=gpus.driver if wanted else None,
        download_usd_per_gb=Decimal(0),
        upload_usd_per_gb=Decimal(0),
        raw={"visible": _visible(wanted, gpus.count)},
    )


def _visible(wanted: int, count: int) -> str | None:
    """The value of CUDA_VISIBLE_DEVICES where the job shall not see all GPUs."""
    return ",".join(str(n) for n in range(wanted)) if wanted < count else None


def _model(row: list[str]) -> GpuModel | None:
    try:
        memory = sold_gb(float(row[1]))
    except ValueError:
        return None
    major, _, minor = row[3].partition(".")
    known = major.isdigit() and minor.isdigit()
    capability = (int(major), int(minor)) if known else None
    return GpuModel(name=row[0], memory_gb=memory, compute_capability=capability)
