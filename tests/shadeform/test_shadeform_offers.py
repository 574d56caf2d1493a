"""The catalogue as offers: prices, places, GPUs, images, and what is left out with a reason."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import attrs
import pytest
from emulators import faults
from emulators.shadeform.catalog import at, kind, odd_market, spot
from gipper_shadeform.catalog import offers_of
from gipper_shadeform.images import chosen
from gipper_shadeform.places import country_of
from gipper_shadeform.tables import Options, ShadeformJob, ShadeformSettings, options_of
from hypothesis import given
from hypothesis import strategies as st
from support_bench import Bench

from gipper.api import Offer, OfferQuery, ProviderError
from gipper.filters import Filter, Wants
from gipper.plugins.answers import offers
from gipper.values.jobs import GpuWants, Job, Pod, RunTable
from gipper.values.offers import Listing
from gipper.values.settings import Settings

Make = Callable[..., Bench]


def by_id(b: Bench, **wishes: Any) -> dict[str, Offer]:
    return {o.id: o for o in b.offers(**wishes)}


def test_d_002_cents_per_hour(bench: Make) -> None:
    """125 cents are $1.25 for the whole machine, and only the region that is free is offered; what the row
    leaves out is unknown."""
    row = {
        "cloud": "alpha", "shade_instance_type": "A6000", "hourly_price": 125,
        "configuration": {"gpu_type": "A6000", "num_gpus": 1, "vram_per_gpu_in_gb": 48, "vcpus": 14, "memory_in_gb": 50},
        "availability": [{"region": "r1", "available": True}, {"region": "r2", "available": False}],
    }  # fmt: skip
    b = bench()
    b.app.faults.always("types", faults.status(200, {"instance_types": [row]}))
    (offer,) = b.offers(max_usd_h=Decimal(2))
    assert (offer.usd_h, offer.raw["region"], offer.region, offer.disk_gb) == (
        Decimal("1.25"),
        "r1",
        None,
        None,
    )


def test_d_003_the_price_is_the_whole_machine_s(bench: Make) -> None:
    """Two GPUs for 114 cents cost $1.14, not twice that."""
    (offer,) = bench(kind("massedcompute", "A6000_plusx2", gpu="A6000", count=2, cents=114)).offers(
        gpu_count=2
    )
    assert (offer.usd_h, offer.gpu_count) == (Decimal("1.14"), 2)


def outside_the_schema(b: Bench) -> None:
    """This market's answers break its own description, on purpose."""
    assert b.app.schema.off  # type: ignore[attr-defined]
    b.app.schema.off.clear()  # type: ignore[attr-defined]


def test_d_004_null_or_zero_is_not_free(bench: Make) -> None:
    """Types without a price are no offers, and are counted; a spot place without one is none either."""
    kinds = [kind("vultr", f"L{n}", cents=c) for n, c in ((4, None), (40, 0), (41, 40))]
    b = bench(*kinds, kind("nebius", "A40", places=[spot("oslo-norway-1", None)]))  # type: ignore[arg-type]
    listing = b.listing(spot=True)
    outside_the_schema(b)
    assert [o.raw["type"] for o in listing] == ["L41"]
    assert any("3 offer(s) left out: price not told" in n for n in listing.notes)


def test_d_005_numbers_as_text(bench: Make) -> None:
    """Figures that come as text count; words and nulls are unknown."""
    row = kind("vultr", "L40S", cents="167", memory_in_gb="many", vcpus=None, num_gpus="1", vram="48")  # type: ignore[arg-type]
    b = bench(row)
    (offer,) = b.offers()
    outside_the_schema(b)
    assert (offer.usd_h, offer.memory_gb, offer.cpus, offer.gpu_count) == (Decimal("1.67"), None, None, 1)
    assert offer.gpu is not None and offer.gpu.memory_gb == 48


def test_d_006_the_disk_is_what_the_type_has(bench: Make) -> None:
    """256 GB come with it at its price, however few are asked for; a job that needs more goes without it."""
    (offer,) = bench().offers(disk_gb=40.0)
    assert offer.disk_gb == 256
    assert left_out(offer, Pod(disk_gb=300)) == "disk" and left_out(offer, Pod(disk_gb=200)) is None
    assert left_out(offer, Pod(image="ubuntu:24.04")) == "image"


def test_d_011_a_card_newer_than_the_table(bench: Make) -> None:
    """An unknown name is shown as it is, with the memory that was told."""
    (offer,) = bench(kind("nebius", "X", gpu="RTX ZED 9000", vram=128)).offers()
    assert offer.gpu is not None and (offer.gpu.name, offer.gpu.memory_gb) == ("RTX ZED 9000", 128)


def test_d_013_told_to_slow_down(bench: Make) -> None:
    """A read waits as long as it is told, once, and goes on."""
    b = bench()
    b.app.faults.script("types", faults.status(429, "slow down", Retry_After="2"))
    before = b.sim.monotonic()
    assert b.offers() and b.sim.monotonic() - before >= 2
    assert len(b.app.seen("types")) == 2


def test_d_014_html_instead_of_json(bench: Make) -> None:
    """A gateway's page is told in a line; it is never an empty catalogue or list, and no word on the key."""
    b = bench()
    for status in (502, 403, 404, 401):
        for endpoint in ("types", "list"):
            b.app.faults.always(endpoint, faults.status(status, "<html>\n<b>bad gateway</b></html>"))
        for ask in (b.offers, b.provider.list_ours):
            with pytest.raises(ProviderError) as caught:
                ask()
            assert str(status) in caught.value.message and "<" not in caught.value.message
            assert "not accepted" not in caught.value.message


def test_spot_and_on_demand_in_one_region(bench: Make) -> None:
    """Two offers where the job may be interrupted, one where not; a spot entry never stands for on demand."""
    b = bench(*odd_market())
    id_, sold_out = "massedcompute/desmoines-usa-1/A6000", "nebius/helsinki-finland-3/H100_sxm5"
    both = by_id(b, spot=True)
    assert (both[id_].usd_h, both[id_].spot) == (Decimal("0.57"), False)
    assert (both[f"{id_}/spot"].usd_h, both[f"{id_}/spot"].spot) == (Decimal("0.31"), True)
    # Sold out on demand, there as spot only.
    assert f"{sold_out}/spot" in both and sold_out not in both
    assert not [o for o in b.offers() if o.spot]


def test_what_is_no_virtual_machine_with_an_nvidia_gpu(bench: Make) -> None:
    """Other makers, none at all, containers, bare metal, ARM, no driver in any image: each told with a count."""
    listing = bench(*odd_market()).listing()
    told = {n.split("left out: ")[-1]: int(n.split()[1]) for n in listing.notes if "left out" in n}
    assert told == {
        "no NVIDIA GPU": 3, "not a virtual machine (baremetal)": 1, "not a virtual machine (container)": 1,
        "an ARM processor (arm = true in [provider.shadeform] takes it in)": 1,
        "no image that brings a driver": 1, "price not told": 1,
    }  # fmt: skip
    assert len({o.id for o in listing}) == len(listing.items) == 28
    assert {o.kind for o in listing} == {"vm"} and all(o.udp and o.tcp for o in listing)


def test_the_layers_are_told(bench: Make) -> None:
    """A user reads what the watchdog doesn't stop; where nothing is offered there is nothing to say."""
    assert any("powers it off" in n and "not the bill" in n for n in bench().listing().notes)
    b = bench()
    b.market.kinds.clear()
    assert b.listing().notes == ()


def test_settings_and_job_choose(bench: Make) -> None:
    """Clouds, ARM hosts and the image: the job's word before the settings'."""
    b = bench(*odd_market(), settings=ShadeformSettings(clouds=("Lambdalabs", "vultr"), arm=True))
    assert {o.raw["cloud"] for o in b.offers()} == {"lambdalabs", "vultr"}
    assert "lambdalabs/dulles-usa-1/GH200" in by_id(b)
    job = ShadeformJob(clouds=(), avoid_clouds=("vultr",), arm=False, os="ubuntu22.04_cuda12.4_shade_os")
    found = b.offers(options=job)
    assert "vultr" not in {o.raw["cloud"] for o in found} and len({o.raw["cloud"] for o in found}) > 8
    assert {o.raw["os"] for o in found} == {"ubuntu22.04_cuda12.4_shade_os"}
    assert "lambdalabs/dulles-usa-1/GH200" not in {o.id for o in found}
    with pytest.raises(ValueError, match="os must be"):
        ShadeformJob(os="a b")
    assert options_of(None, None) == Options()


@pytest.mark.parametrize(
    ("names", "wanted", "name", "cuda"),
    [
        (["ubuntu22.04_cuda12.4_shade_os", "ubuntu22.04_cuda12.10_shade_os"], None, "ubuntu22.04_cuda12.10_shade_os", "12.10"),
        (["ubuntu20.04_cuda12.8_shade_os", "ubuntu22.04_cuda12.8_shade_os"], None, "ubuntu22.04_cuda12.8_shade_os", "12.8"),
        (["ubuntu24.04", "ubuntu_22_shade_os"], None, "ubuntu_22_shade_os", None),
        (["ubuntu24.04", "ubuntu22.04_cuda12.4_shade_os"], "ubuntu24.04", "ubuntu24.04", None),
    ],
)  # fmt: skip
def test_the_newest_image_with_a_driver(
    names: list[str], wanted: str | None, name: str, cuda: str | None
) -> None:
    """By number, not by letters; a bare system only where the user names it."""
    found = chosen(names, wanted)
    assert found is not None and (found.name, found.cuda) == (name, cuda)


def test_no_image_is_none() -> None:
    """Neither a bare system nor another than the wanted one will do."""
    assert chosen(["ubuntu22.04"], None) is None
    assert chosen(["ubuntu22.04_cuda12.4_shade_os"], "ubuntu24.04_cuda12.8_shade_os") is None
    assert chosen([], None) is None


@pytest.mark.parametrize(
    ("cloud", "name", "shown", "memory", "capability"),
    [
        ("massedcompute", "A6000", "RTX A6000", 48, (8, 6)),
        ("hyperstack", "H100", "H100 PCIe", 80, (9, 0)),
        ("nebius", "H100_sxm5", "H100 SXM", 80, (9, 0)),
        ("excesssupply", "H100_nvl", "H100 NVL", 94, (9, 0)),
        ("datacrunch", "A100_sxm4_80G", "A100 SXM", 80, (8, 0)),
        ("lambdalabs", "A100", "A100 PCIe", 40, (8, 0)),
        ("cudo", "V100", "V100 SXM", 16, (7, 0)),
        ("nebius", "H200", "H200", 141, (9, 0)),
        ("verda", "B300", "B300", 288, (10, 3)),
        ("vultr", "L40S", "L40S", 48, (8, 9)),
        ("boostrun", "RTXPro6000_vm", "RTX PRO 6000", 96, (12, 0)),
    ],
)
def test_what_card_it_is(
    bench: Make, cloud: str, name: str, shown: str, memory: int, capability: tuple[int, int]
) -> None:
    """From the configuration, never from the type's name; SXM against PCIe from how it is connected."""
    found = next(
        o for o in bench(*odd_market()).offers(spot=True) if (o.raw["cloud"], o.raw["type"]) == (cloud, name)
    )
    assert found.gpu is not None
    assert (found.gpu.name, found.gpu.memory_gb, found.gpu.compute_capability) == (shown, memory, capability)


@pytest.mark.parametrize(
    ("region", "display", "code"),
    [
        ("desmoines-usa-1", None, "US"), ("london-uk-1", None, "GB"), ("stockholm-sweden-2", "", "SE"),
        ("singapore-singapore-1", None, "SG"), ("blonduos-iceland-3", None, "IS"), ("seoul-southkorea-1", None, "KR"),
        ("seoul-korea-2", None, "KR"), ("capetown-southafrica-1", None, "ZA"), ("dubai-uae-1", None, "AE"),
        ("hongkong-hongkong-2", None, "HK"), ("jerusalem-israel-1", None, "IL"), ("sydney-australia-2", None, "AU"),
        ("warsaw-poland-1", None, "PL"), ("amsterdam-netherlands-2", None, "NL"), ("kristiansand-norway-2", None, "NO"),
        ("mumbai-india-1", None, "IN"), ("tokyo-japan-5", None, "JP"), ("taipei-taiwan-1", None, "TW"),
        ("hanoi-vietnam-1", None, "VN"), ("prague-czechia-1", None, "CZ"), ("montreal-canada-2", "CA, Montreal", "CA"),
        ("canada-1", None, "CA"), ("tor1", None, "CA"), ("MON1", "Montreal, CA", "CA"), ("FIN-01", "FI, Central", "FI"),
        ("us-central-1", None, "US"), ("us-east-1a", None, "US"), ("na-us-bos-1", None, "US"),
        ("eu-north1", None, None), ("any", "Anywhere", None), ("r1", None, None), ("", None, None),
        ("eu-fra-1", None, None), ("x-de-1", None, None), ("nowhere-atlantis-1", None, None),
        ("x", "US, Wilmington, DE", "US"), ("x", "DE, Frankfurt", "DE"), ("x", "Toronto, Canada", "CA"),
        ("x", "Toronto, Canana", None), ("x", "Montreal, CA", None), ("x", "Norway", "NO"),
        # Name and text differ: nobody knows.
        ("oslo-norway-1", "SE, Stockholm", None),
    ],
)  # fmt: skip
def test_d_012_where_a_region_lies(region: str, display: str | None, code: str | None) -> None:
    """New and old names, texts for people with states behind; what isn't clear is unknown."""
    assert country_of(region, display) == code


def test_a_job_that_names_countries(bench: Make) -> None:
    """Only offers whose place is known to be there stay; an unknown place is out."""
    found = {o.id: left_out(o, Pod(), regions=("US",)) for o in bench(*odd_market()).offers()}
    assert found["imwt/us-central-1/A100_80G"] is None
    assert found["runpod/any/RTX4090"] == "region"


def test_clouds_of_unknown_kind_are_not_secure(bench: Make) -> None:
    """Unnamed partners, marketplaces and new names aren't known to be data centres."""
    kinds = {o.raw["cloud"]: o.cloud for o in bench(*odd_market(), kind("brandnew", "L4")).offers()}
    assert {c for c, k in kinds.items() if k is None} == {"excesssupply", "runpod", "cudo", "brandnew"}


def test_a_type_that_was_just_sold_out_is_not_offered(bench: Make) -> None:
    """For ten minutes, with a note, and in that region alone."""
    b = bench(kind("vultr", "L4", places=[at("london-uk-1"), at("tokyo-japan-2")]))
    b.market.knobs.stale = True
    first = b.offers()[0]
    with pytest.raises(ProviderError, match="Out of stock"):
        b.provider.rent(first, b.request())
    assert first.id not in by_id(b) and len(by_id(b)) == 1
    assert any("found empty" in n for n in b.listing().notes)
    b.sim.sleep(601)
    assert first.id in by_id(b)


def test_offers_without_a_key(bench: Make) -> None:
    """Listed where the market lets everybody look; where it doesn't, the missing key is what is told."""
    b = keyless(bench)
    assert b.offers()
    assert all("X-Api-Key" not in s.headers for s in b.app.seen("types"))
    b.market.knobs.anonymous_types = False
    with pytest.raises(ProviderError, match="SHADEFORM_API_KEY is not set"):
        b.offers()


def test_one_question_in_order_of_price(bench: Make) -> None:
    """The catalogue is asked for once, with the two filters that take nothing away that we want."""
    b = bench()
    b.offers(gpu_count=8, regions=("US",), spot=True)
    assert [s.query for s in b.app.seen("types")] == ["available=true&sort=price"]


def keyless(make: Make) -> Bench:
    """A bench whose user has no key."""
    from gipper.errors import KeyMissing

    class NoKey:
        def require(self, name: str) -> str:
            raise KeyMissing(f"{name} is not set")

    b = make()
    b.provider._context._keys = NoKey()  # type: ignore[attr-defined]
    return b


def left_out(offer: Offer, pod: Pod, regions: tuple[str, ...] = ()) -> str | None:
    """Why core would leave it out for a job, GPU counts apart."""
    from pathlib import Path

    from gipper.jobfile import resolved

    job = Job(
        name="j",
        folder=Path("/"),
        pod=pod,
        run=RunTable(command="true"),
        gpu=GpuWants(count=offer.gpu_count, regions=regions),
    )
    return Filter(Wants.of(resolved(job, Settings()), Settings())).judge(offer)[0]


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8) | st.sampled_from(["spot", "vm", "1.5"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
FIELDS = (
    "cloud",
    "shade_instance_type",
    "configuration",
    "hourly_price",
    "deployment_type",
    "availability",
    "boot_time",
    "gpu_type",
)


@given(changed=st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=5), inner=st.dictionaries(st.sampled_from(
    ("memory_in_gb", "storage_in_gb", "num_gpus", "gpu_type", "interconnect", "os_options", "vram_per_gpu_in_gb", "gpu_manufacturer")), JSON, max_size=4))  # fmt: skip
def test_whatever_the_catalogue_sends(changed: dict[str, Any], inner: dict[str, Any]) -> None:
    """No JSON makes an offer that core would refuse, or raises."""
    row = kind("vultr", "L4", places=[at("london-uk-1"), spot("london-uk-1", "0.2")])
    row["configuration"] |= inner
    made = [
        o
        for o in offers_of({**row, **changed}, OfferQuery(deadline=1.0, spot=True), Options())
        if isinstance(o, Offer)
    ]
    unique = {o.id: o for o in made}
    assert len(offers(Listing(items=tuple(unique.values())), "shadeform")) == len(unique)
    assert all(attrs.asdict(o)["provider"] == "shadeform" for o in made)
