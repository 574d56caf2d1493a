"""A job: the classes that a job file's tables become. What may stand in them is checked in `jobfile`.

Sizes that say `_gb` are 10^9 bytes, `_mbps` is 10^6 bits a second, `_s` is seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import attrs

from gipper.values.estimates import Objective
from gipper.values.offers import Cloud


@attrs.frozen(kw_only=True)
class GpuWants:
    """`[gpu]`: which GPUs and offers will do."""

    min_mem_gb: float = 0.0
    count: int = 1
    prefer: tuple[str, ...] = ()
    only: bool = False
    min_compute_capability: str | None = None
    max_usd_per_h: Decimal | None = None
    regions: tuple[str, ...] | None = None
    providers: tuple[str, ...] | None = None
    cloud: Cloud | None = None
    cuda_versions: tuple[str, ...] | None = None
    interruptible: bool = False

    @property
    def capability(self) -> tuple[int, int] | None:
        """The compute capability floor as numbers."""
        if self.min_compute_capability is None:
            return None
        major, minor = self.min_compute_capability.split(".")
        return int(major), int(minor)


@attrs.frozen(kw_only=True)
class Pod:
    """`[pod]`: the machine to rent. `secrets` are names of variables, never values."""

    image: str | None = None
    disk_gb: float | None = None
    ports: tuple[str, ...] = ()
    env: Mapping[str, str] = attrs.field(factory=dict)
    secrets: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Input:
    """`[[inputs]]`: something here (`src`) that is wanted there (`dst`)."""

    src: str
    dst: str | None = None
    exclude: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Output:
    """`[[outputs]]`: something there (`src`) that is wanted here (`dst`)."""

    src: str
    dst: str | None = None


@attrs.frozen(kw_only=True)
class Checkpoint:
    """`run.checkpoint`: a folder inside an output that is brought home every `every_s` seconds."""

    src: str
    every_s: float | None = None


@attrs.frozen(kw_only=True)
class RunTable:
    """`[run]`: what is executed there."""

    command: str
    setup: str | None = None
    checkpoint: Checkpoint | None = None
    stall_minutes: float | None = None
    on_stall: Literal["warn", "stop"] = "warn"


@attrs.frozen(kw_only=True)
class Budget:
    """`[budget]`: dollars for the whole run, hours for the command alone. None = the settings'."""

    max_usd: Decimal | None = None
    max_hours: float | None = None


@attrs.frozen(kw_only=True)
class Units:
    """`[units]`: how much work there is, for ``--throughput``."""

    count: float | None = None


@attrs.frozen(kw_only=True)
class Probe:
    """`placement.probe`: the least measured rates that will do."""

    min_up_mbps: float = 0.0
    min_down_mbps: float = 0.0


@attrs.frozen(kw_only=True)
class Placement:
    """`[placement]`: what the user knows about the run, for the cost model."""

    objective: Objective = "auto"
    profile: Literal["batch", "interactive"] = "batch"
    setup_s: float | None = None
    compute_s: float | None = None
    compute_s_by_gpu: Mapping[str, float] = attrs.field(factory=dict)
    upload_gb: float | None = None
    download_gb: float | None = None
    setup_download_gb: float | None = None
    client_upload_mbps: float | None = None
    client_download_mbps: float | None = None
    transfer_efficiency: float = 0.7
    fallback_mbps: float = 200.0
    latency_target: str | None = None
    client_location: tuple[float, float] | None = None
    probe: Probe | None = None


@attrs.frozen(kw_only=True)
class Job:
    """A checked job. `folder` is where relative paths start (the job file's own folder)."""

    name: str
    run: RunTable
    folder: Path
    workload: str | None = None
    gpu: GpuWants = GpuWants()
    pod: Pod = Pod()
    inputs: tuple[Input, ...] = ()
    outputs: tuple[Output, ...] = ()
    budget: Budget = Budget()
    units: Units = Units()
    placement: Placement = Placement()
    hooks: tuple[str, ...] = ()
    provider: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
