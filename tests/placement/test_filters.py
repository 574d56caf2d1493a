"""Which offers are left out, and under which reason."""

from __future__ import annotations

from decimal import Decimal

import pytest

from gipper.filters import WORDS, Filter, Wants, affordable, money_reason, protocols
from gipper.gpus import gpu_model, memory_as_sold
from gipper.values.jobs import GpuWants, Pod
from gipper.values.settings import Settings


def reasons(job, *offers, settings=None, gpu=None):
    """The reason for each offer, None where it fits."""
    checks = Filter(Wants.of(job, settings or Settings(), gpu))
    return [checks.judge(o)[0] for o in offers]


def test_d_001_a_24_gb_floor(want, offer):
    """24564, 24576 and 24000 MiB are 24 GB cards, 22528 is not."""
    cards = [offer(gpu="X", memory_gb=memory_as_sold(m)) for m in (24564, 24576, 22528, 24000)]
    assert reasons(want(min_mem_gb=24), *cards) == [None, None, "memory", None]


def test_d_002_a_price_ceiling_in_dollars(want, offer):
    """An offer at exactly the ceiling fits, a micro-dollar more doesn't."""
    found = reasons(
        want(max_usd_per_h=Decimal(2)), offer(usd_h="1.25"), offer(usd_h="2"), offer(usd_h="2.000001")
    )
    assert found == [None, None, "price"]


def test_d_003_the_price_of_all_gpus_counts(want, offer):
    """Two GPUs at 0.34 each are 0.68 an hour, above a ceiling of 0.5."""
    job = want(count=2, max_usd_per_h=Decimal("0.5"))
    assert reasons(job, offer(usd_h="0.68", gpu_count=2), offer(usd_h="0.34", gpu_count=1)) == [
        "price",
        "count",
    ]


def test_d_006_the_hosts_free_disk_is_only_a_limit(job, offer):
    """A host with less disk than asked is left out, one that doesn't tell isn't."""
    wanted = job(pod=Pod(disk_gb=100))
    assert reasons(wanted, offer(disk_gb=713.4), offer(disk_gb=80), offer(disk_gb=None)) == [
        None,
        "disk",
        None,
    ]


def test_d_007_a_cuda_floor(want, offer):
    """Newer drivers run older CUDA; what isn't told can't be promised."""
    job = want(cuda_versions=("12.0", "12.4"))
    hosts = [offer(cuda=c) for c in ("12.4", "12.8", "11.2", "13.0", None, "n/a")]
    assert reasons(job, *hosts) == [None, None, "cuda", None, "cuda", "cuda"]


def test_d_012_places(want, offer):
    """Unknown places are left out where regions are asked for, and only there."""
    places = [offer(region=r) for r in ("US", "us", "NO", None)]
    assert reasons(want(regions=("us",)), *places) == [None, None, "region", "region"]
    assert reasons(want(), *places) == [None] * 4


def test_the_settings_stand_in_for_the_job(want, offer):
    """Regions and cloud of the settings hold where the job says nothing, an empty list frees it."""
    settings = Settings(regions=("CA",), cloud="SECURE")
    secure = offer(cloud="SECURE", region="US")
    assert reasons(want(), secure, settings=settings) == ["region"]
    assert reasons(want(regions=()), secure, offer(), settings=settings) == [None, "cloud"]
    assert reasons(want(regions=(), cloud="COMMUNITY"), offer(), settings=settings) == [None]


def test_gpus_rank_by_preference_and_only_excludes(want, offer):
    """Preferred cards come first, the others share the last rank, unless `only`."""
    cards = [offer(gpu="H100 PCIe"), offer(gpu="RTX 4090"), offer(gpu="L40")]
    checks = Filter(Wants.of(want(prefer=("RTX 4090", "H100")), Settings()))
    assert [checks.judge(o)[1] for o in cards] == [1, 0, 2]
    assert reasons(want(prefer=("L4", "H100"), only=True), *cards) == [None, "gpu", "gpu"]


def test_a_gpu_from_the_command_line_stands_alone(want, offer):
    """`--gpu` replaces the job's preferences and excludes the rest."""
    cards = [offer(gpu="H100 PCIe"), offer(gpu="RTX 4090")]
    assert reasons(want(prefer=("H100",)), *cards, gpu="rtx_4090") == ["gpu", None]


def test_capability_floor(want, offer):
    """A card below the floor is out; one that nobody knows is left to the check on the machine."""
    cards = [offer(gpu="H100 SXM"), offer(gpu="A100"), offer(gpu="RTX ZED 9000")]
    assert reasons(want(min_compute_capability="8.9"), *cards) == [None, "capability", None]


def test_versions_compare_as_numbers(want, offer):
    """10.0 is above 8.9, and 12.10 above 12.9."""
    assert reasons(want(min_compute_capability="8.9"), offer(gpu="B200")) == [None]
    assert reasons(want(cuda_versions=("12.9",)), offer(cuda="12.10")) == [None]


def test_ports(job, offer):
    """UDP rules out what can't publish it; a bare number is TCP."""
    tcp, udp = offer(), offer(udp=True, tcp=False)
    assert reasons(job(pod=Pod(ports=("5004/udp",))), tcp, udp) == ["ports", None]
    assert reasons(job(pod=Pod(ports=("8000/tcp",))), tcp, udp) == [None, "ports"]
    assert protocols(("8000", "1/UDP")) == {"tcp", "udp"}


def test_an_image_rules_out_virtual_machines(job, offer):
    """A VM can't be told which image to run; a local process ignores it."""
    wanted = job(pod=Pod(image="x"))
    kinds = [offer(kind=k) for k in ("container", "vm", "process")]
    assert reasons(wanted, *kinds) == [None, "image", None]


def test_spot_needs_leave(want, offer):
    """Interruptible capacity only where the job allows it."""
    assert reasons(want(), offer(spot=True)) == ["spot"]
    assert reasons(want(interruptible=True), offer(spot=True), offer()) == [None, None]


def test_a_job_without_a_gpu_takes_machines_without_one(want, offer):
    """count = 0 is exact too."""
    assert reasons(want(count=0, min_mem_gb=24), offer(gpu=None), offer()) == [None, "count"]
    assert reasons(want(), offer(gpu=None)) == ["count"]


def test_what_an_expected_cost_may_be():
    """The cap is inclusive, a known balance must hold 1.2 times, an unknown one limits nothing."""
    assert affordable(2.0, None) == pytest.approx(2.0)
    assert affordable(2.0, 1.2) == pytest.approx(1.0)
    assert affordable(2.0, 0.0) == pytest.approx(0.0, abs=1e-6)
    assert (money_reason(2.1, 2.0), money_reason(1.5, 2.0)) == ("expected", "credit")


def test_every_reason_has_words():
    """No reason is shown as a bare key."""
    import gipper.filters as module

    keys = {v for k, v in vars(module).items() if k.isupper() and isinstance(v, str)}
    assert keys == set(WORDS)


def test_memory_counts_per_gpu(want, offer):
    """Two cards of 24 GB are not one of 48."""
    pair = offer(gpu_count=2, gpu="RTX 4090")
    assert reasons(want(count=2, min_mem_gb=48), pair) == ["memory"]
    assert GpuWants(min_mem_gb=48).min_mem_gb > gpu_model("RTX 4090").memory_gb
