"""Types of machines in the catalogue: one to make any from, and a market's worth of odd ones.

kind("massedcompute", "A6000", cents=57, at=[spot("desmoines-usa-1", "0.31")])
"""

from __future__ import annotations

from typing import Any

SHADE = ["ubuntu22.04_cuda12.4_shade_os", "ubuntu22.04_cuda12.8_shade_os", "ubuntu22.04"]


def at(region: str, display: str | None = None, **changes: Any) -> dict[str, Any]:
    """On demand in a region; `changes` replace fields, None takes one away."""
    told = {
        "region": region, "available": True, "display_name": display or region, "rental_type": "on_demand",
    }  # fmt: skip
    return {k: v for k, v in {**told, **changes}.items() if v is not None}


def spot(region: str, usd: str, display: str | None = None, **changes: Any) -> dict[str, Any]:
    """As spot in a region, for dollars as text."""
    return at(region, display, rental_type="spot", hourly_price=usd, **changes)


def kind(
    cloud: str, name: str, *, cents: int | None = 57, gpu: str | None = None, count: int = 1, vram: int = 48,
    link: str = "pcie", places: list[dict[str, Any]] | None = None, boot: dict[str, int] | None = None,
    **changes: Any,
) -> dict[str, Any]:  # fmt: skip
    """One type. `changes` are of the row, or of its configuration where that has the field."""
    configuration = {
        "memory_in_gb": 4, "storage_in_gb": 256, "vcpus": 6, "num_gpus": count, "gpu_type": gpu or name,
        "interconnect": link, "nvlink": link != "pcie", "os_options": SHADE, "vram_per_gpu_in_gb": vram,
        "gpu_manufacturer": "nvidia",
    }  # fmt: skip
    configuration.update({k: changes.pop(k) for k in list(changes) if k in configuration})
    row = {
        "cloud": cloud, "shade_instance_type": name, "cloud_instance_type": f"gpu_{count}x_{name.lower()}",
        "configuration": configuration, "hourly_price": cents, "deployment_type": "vm",
        "availability": [at("desmoines-usa-1", "US, Des Moines, IA")] if places is None else places,
        "boot_time": boot if boot is not None else {"min_boot_in_sec": 180, "max_boot_in_sec": 300},
    }  # fmt: skip
    flat = {k: v for k, v in configuration.items() if k not in ("os_options", "gpu_manufacturer")}
    return {**row, **flat, **changes}


def usual() -> list[dict[str, Any]]:
    """The one type that most tests need: a 4090, as the stub of nvidia-smi tells of it."""
    return [kind("massedcompute", "RTX4090", cents=50, vram=24)]


def odd_market() -> list[dict[str, Any]]:
    """A catalogue with every shape that was seen or described, in no order."""
    bare = kind("crusoe", "L40S", cents=135, places=[at("houston-usa-2", "US, Houston, TX")])
    bare.pop("boot_time")
    return [
        kind("massedcompute", "A6000", cents=57, places=[
            at("desmoines-usa-1", "US, Des Moines, IA"), spot("desmoines-usa-1", "0.31", "US, Des Moines, IA"),
            at("kansascity-usa-1", "US, Kansas City, KS", available=False)]),
        kind("massedcompute", "A6000_plusx2", gpu="A6000", count=2, cents=114),
        kind("hyperstack", "A6000", cents=50, places=[at("canada-1", "CA, Montreal")]),
        kind("hyperstack", "H100", cents=190, vram=80, places=[at("montreal-canada-2", "CA, Montreal"), at("oslo-norway-1", "NO, Oslo")]),
        kind("hyperstack", "H100x8_NVLINK", gpu="H100", count=8, cents=1560, vram=80, places=[at("montreal-canada-2")]),
        kind("voltagepark", "H100_sxm5x8", gpu="H100", count=8, cents=1592, vram=80, link="sxm5", places=[at("dallas-usa-5")]),
        kind("nebius", "H100_sxm5", gpu="H100", cents=295, vram=80, link="sxm5", places=[
            at("helsinki-finland-3", "FI, Helsinki", available=False), spot("helsinki-finland-3", "1.24", "FI, Helsinki"),
            at("paris-france-2", "FR, Paris")]),
        kind("nebius", "H200", cents=350, vram=141, link="sxm5", places=[at("kansascity-usa-3", "US, Kansas City, MO")]),
        kind("verda", "B200x8", gpu="B200", count=8, cents=3490, vram=192, link="sxm6", places=[at("helsinki-finland-5")]),
        kind("verda", "B300", cents=580, vram=288, link="sxm6", places=[at("FIN-01", "FI, Central")]),
        kind("datacrunch", "A100_sxm4_80G", gpu="A100_80G", cents=129, vram=80, link="sxm4", places=[at("helsinki-finland-1")]),
        kind("lambdalabs", "A100", cents=129, vram=40, places=[at("frankfurt-germany-7", "DE, Frankfurt"), at("mumbai-india-1"), at("jerusalem-israel-1"), at("sydney-australia-2")]),
        kind("lambdalabs", "GH200", cents=149, vram=96, places=[at("dulles-usa-1", "US, Dulles, VA")]),
        kind("imwt", "A100_80G", cents=135, vram=80, places=[at("us-central-1", "US, Wilmington, DE")]),
        kind("vultr", "L40S", cents=167, places=[at("london-uk-1", "GB, London"), at("singapore-singapore-1"), at("tokyo-japan-2")]),
        kind("cudo", "V100", cents=39, vram=16, link="sxm2", places=[at("stockholm-sweden-2")]),
        kind("scaleway", "L4", cents=79, vram=24, places=[at("warsaw-poland-1", "PL, Warsaw"), at("paris-france-5")]),
        kind("runpod", "RTX4090", cents=69, vram=24, places=[at("any", "Anywhere")]),
        kind("excesssupply", "H100_nvl", cents=175, vram=94, places=[at("tokyo-japan-5", rental_type=None)]),
        kind("hotaisle", "MI300X", cents=199, vram=192, gpu_manufacturer="amd", places=[at("eu-north1", "Toronto, Canana")]),
        kind("denvr", "Gaudi2x8", gpu="GAUDI2", count=8, cents=1000, vram=96, gpu_manufacturer="intel", places=[at("calgary-canada-1")]),
        kind("azure", "CPU", count=0, cents=12, vram=0, gpu_manufacturer="", places=[at("us-east-1a")]),
        kind("latitude", "H100_sxm5x8_bm", gpu="H100", count=8, cents=1700, vram=80, link="sxm5", deployment_type="baremetal",
             places=[at("dallas-usa-1")], boot={"min_boot_in_sec": 600, "max_boot_in_sec": 1200}),
        kind("runpod", "A40", cents=44, deployment_type="container", places=[at("any", "Anywhere")]),
        kind("digitalocean", "RTX6000Adax4", gpu="RTX6000Ada", count=4, cents=628, places=[at("amsterdam-netherlands-2")], boot={"max_boot_in_sec": 900}),
        kind("paperspace", "RTX6000", cents=51, vram=24, places=[at("newyork-usa-1", "US, New York, NY")], os_options=["ubuntu22.04"]),
        kind("boostrun", "RTXPro6000_vm", gpu="RTXPro6000", cents=165, vram=96, places=[at("charlotte-usa-1")]),
        kind("newcloud2027", "A4000", cents=None, vram=16, places=[at("MON1", "Montreal, CA")]),
        bare,
    ]  # fmt: skip
