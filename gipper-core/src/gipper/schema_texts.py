"""What each key of a job file means, in one sentence, and its bounds in words of JSON schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Path = tuple[str, ...]

_REGION: Final = {"pattern": "^[A-Za-z]{2}$"}
_CUDA: Final = {"pattern": "^[0-9]{1,2}\\.[0-9]{1,2}$"}
_POSITIVE: Final = {"exclusiveMinimum": 0}
_LEAST: Final = {"minimum": 0}

TEXTS: Final[Mapping[Path, str]] = {
    ("name",): "What the job is called in tables and receipts.",
    ("workload",): "Jobs of one workload share what was learnt about computing times.",
    ("hooks",): "Python files beside the job file with hooks of its own, which run on this computer.",
    ("provider",): "A table per provider with that plugin's own options for this job.",
    ("gpu",): "Which GPUs and offers will do.",
    ("gpu", "min_mem_gb"): "Least memory of each GPU, in GB as sold.",
    ("gpu", "count"): "How many GPUs; 0 for a job that needs none.",
    ("gpu", "prefer"): 'GPU models to try first, in this order, such as "RTX 4090".',
    ("gpu", "only"): "Whether only the preferred models will do.",
    ("gpu", "min_compute_capability"): 'Least compute capability, such as "8.0".',
    ("gpu", "max_usd_per_h"): "Dearest price of an offer, in dollars an hour.",
    ("gpu", "regions"): "ISO country codes to rent in; everywhere if left out.",
    ("gpu", "providers"): "Providers to ask, in this order; all that have a key if left out.",
    ("gpu", "cloud"): "SECURE leaves out the machines of private hosts; COMMUNITY takes both.",
    ("gpu", "cuda_versions"): "Only hosts that tell one of these CUDA versions.",
    ("gpu", "interruptible"): "Whether a machine may be taken away any time, for less: spot offers too.",
    ("pod",): "The machine to rent.",
    ("pod", "image"): "Container image; the provider's default if left out.",
    ("pod", "disk_gb"): "Size of the machine's disk in GB.",
    ("pod", "ports"): 'Ports to reach from outside, such as "8000/tcp" or "5004/udp".',
    ("pod", "env"): "Plain variables of the job's environment.",
    ("pod", "secrets"): "Names of variables set here whose values the job gets inside the SSH session.",
    ("inputs",): "What goes up before the job starts.",
    ("inputs", "src"): "A file or folder here, relative to the job file; ~ works.",
    ("inputs", "dst"): "Where it lands, relative to the work folder; its own name if left out.",
    ("inputs", "exclude"): "gitignore patterns of what stays here.",
    ("outputs",): "What comes home.",
    ("outputs", "src"): "A file or folder there, relative to the work folder.",
    ("outputs", "dst"): "Where it lands here, relative to the job file.",
    ("run",): "What is executed on the machine.",
    ("run", "command"): "The job, as shell text.",
    ("run", "setup"): "The job's own set-up, as shell text; it is timed apart.",
    ("run", "checkpoint"): "A folder that is brought home again and again while the job runs.",
    ("run", "checkpoint", "src"): "The folder, inside an output.",
    ("run", "checkpoint", "every_s"): "Seconds from one copy to the next.",
    ("run", "stall_minutes"): "Minutes without progress that count as a stall (not available yet).",
    ("run", "on_stall"): "What to do about a stall; stopping is not available yet.",
    ("budget",): "The most that a run may cost and last.",
    ("budget", "max_usd"): "Dollars for the whole run.",
    ("budget", "max_hours"): "Hours for the command alone.",
    ("units",): "How much work there is.",
    ("units", "count"): "Units of work, for --throughput.",
    ("placement",): "What you know about the run, for the choice of an offer.",
    ("placement", "objective"): "What to save: cost, time, or both by the settings' hour value (auto).",
    (
        "placement",
        "profile",
    ): "Whether somebody talks to the job while it runs: the nearest machine counts then.",
    ("placement", "setup_s"): "Seconds that the set-up takes.",
    ("placement", "compute_s"): "Seconds that the command takes.",
    ("placement", "compute_s_by_gpu"): "Seconds that the command takes, by GPU model.",
    ("placement", "upload_gb"): "GB that go up; measured if left out.",
    ("placement", "download_gb"): "GB that come home.",
    ("placement", "setup_download_gb"): "GB that the job itself fetches from elsewhere.",
    ("placement", "client_upload_mbps"): "Your own link up, in Mb/s.",
    ("placement", "client_download_mbps"): "Your own link down, in Mb/s.",
    ("placement", "transfer_efficiency"): "Part of an advertised rate that is really reached.",
    ("placement", "fallback_mbps"): "Rate taken for a link that nobody knows, in Mb/s.",
    ("placement", "latency_target"): "A label that is passed through.",
    ("placement", "client_location"): "Where you are: [latitude, longitude] in degrees.",
    ("placement", "probe"): "Least measured rates of a machine; a slower one is replaced.",
    ("placement", "probe", "min_up_mbps"): "Least rate from here to the machine in Mb/s.",
    ("placement", "probe", "min_down_mbps"): "Least rate from the machine to here in Mb/s.",
}

CONSTRAINTS: Final[Mapping[Path, Mapping[str, Any]]] = {
    ("name",): {"minLength": 1},
    ("gpu", "min_mem_gb"): _LEAST,
    ("gpu", "count"): _LEAST,
    ("gpu", "min_compute_capability"): {"pattern": "^[0-9]{1,2}\\.[0-9]$"},
    ("gpu", "max_usd_per_h"): _POSITIVE,
    ("gpu", "regions"): {"items": {"type": "string", **_REGION}},
    ("gpu", "providers"): {"minItems": 1, "uniqueItems": True},
    ("gpu", "cuda_versions"): {"items": {"type": "string", **_CUDA}},
    ("pod", "disk_gb"): _POSITIVE,
    ("pod", "ports"): {"items": {"type": "string", "pattern": "^[1-9][0-9]{0,4}/(tcp|udp)$"}},
    ("pod", "env"): {"propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}},
    ("pod", "secrets"): {"items": {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}},
    ("inputs", "src"): {"minLength": 1},
    ("outputs", "src"): {"minLength": 1},
    ("run", "command"): {"minLength": 1},
    ("budget", "max_usd"): _POSITIVE,
    ("budget", "max_hours"): _POSITIVE,
    ("units", "count"): _POSITIVE,
    ("placement", "transfer_efficiency"): {"exclusiveMinimum": 0, "maximum": 1},
    ("placement", "fallback_mbps"): _POSITIVE,
    ("placement", "client_upload_mbps"): _POSITIVE,
    ("placement", "client_download_mbps"): _POSITIVE,
}
