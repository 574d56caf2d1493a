"""Offers: what the market's rows become, which filters are sent, and how pages are followed."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from gipper_vast.tables import VastJob, VastSettings

from gipper.api import ProviderError


def test_a_row_becomes_an_offer_with_every_figure_converted_once(vast: Any) -> None:
    """Memory is as sold, the share of memory is this slice's, fees and rates keep their direction."""
    offer = vast.offer(inet_down_cost=0.002, inet_up_cost=0.009)
    assert (offer.id, offer.usd_h, offer.host_id) == ("5000101", Decimal("0.308330"), "4242")
    assert (offer.gpu.name, offer.gpu.memory_gb, offer.gpu.compute_capability) == ("RTX 4090", 24, (8, 9))
    assert (offer.region, offer.where, offer.cloud, offer.kind) == (
        "US",
        "Utah, US",
        "COMMUNITY",
        "container",
    )
    assert (offer.cuda, offer.driver, offer.cpus, offer.memory_gb) == ("12.8", "570.10.01", 16, 64.375)
    assert (offer.down_mbps, offer.up_mbps, offer.dlperf) == (744.9, 610.2, 96.2)
    assert (offer.download_usd_per_gb, offer.upload_usd_per_gb) == (Decimal("0.002"), Decimal("0.009"))
    assert offer.udp and offer.tcp and not offer.spot and offer.address == "203.0.113.5"


def test_d_001_memory_is_as_sold(vast: Any) -> None:
    """Cards that report a few MiB less than 24 GiB are 24 GB cards, a 22 GB one isn't."""
    sizes = [24564, 24576, 22528, 24000]
    vast.searches([vast.row(n, gpu_ram=size) for n, size in enumerate(sizes, 1)])
    assert [o.gpu.memory_gb for o in vast.listed(min_mem_gb=24.0)] == [24, 24, 22, 24]
    assert vast.asked("POST")[0].body["gpu_ram"]["gte"] <= 24000


def test_d_005_numbers_as_text_and_missing_fields(vast: Any) -> None:
    """Text that is a number counts, what is missing becomes unknown, a price that is none drops the offer."""
    good = vast.row(
        1,
        dph_total="0.421",
        gpu_ram="24576",
        reliability2=None,
        reliability=...,
        inet_down=None,
        geolocation=...,
    )
    vast.searches([good, vast.row(2, dph_total="n/a")])
    listing = vast.listed()
    (offer,) = listing.items
    assert (offer.usd_h, offer.gpu.memory_gb) == (Decimal("0.421"), 24)
    assert (offer.reliability, offer.down_mbps, offer.region) == (None, None, None)
    assert listing.notes == ("vast: 1 offer(s) left out: price not told",)


def test_d_006_the_disk_is_the_jobs_not_the_hosts(vast: Any) -> None:
    """A host's free disk is told as it is, and the machine is asked for with the job's."""
    vast.searches([vast.row(1, disk_space=713.4), vast.row(2, disk_space=80)])
    offers = vast.listed(disk_gb=100.0).items
    assert [o.disk_gb for o in offers] == [713.4, 80]
    assert vast.asked("POST")[0].body["allocated_storage"] == 100.0
    vast.on("PUT", "/api/v0/asks/1/", {"success": True, "new_contract": 7})
    vast.rent(offers[0], disk_gb=100.0)
    assert vast.asked("PUT")[0].body["disk"] == 100.0


def test_d_007_one_filter_does_not_empty_the_market(vast: Any) -> None:
    """CUDA's floor is never sent; where other filters leave nothing, they are left out and named."""
    rows = [vast.row(n, cuda_max_good=c) for n, c in enumerate((12.4, 12.8, 11.2), 1)]
    vast.searches(lambda a: {"offers": [] if {"cuda_max_good", "disk_space"} & set(a.body) else rows})
    listing = vast.listed(cuda_versions=("12.0",), regions=("US",))
    assert [o.cuda for o in listing] == ["12.4", "12.8", "11.2"]
    assert "disk_space, geolocation" in listing.notes[0]
    assert all("cuda_max_good" not in a.body for a in vast.asked("POST"))


def test_d_011_a_card_newer_than_the_tool_keeps_its_name(vast: Any) -> None:
    """An unknown GPU is offered under the market's name with its memory."""
    offer = vast.offer(gpu_name="RTX ZED 9000", gpu_ram=131072, compute_cap=1300)
    assert (offer.gpu.name, offer.gpu.memory_gb, offer.gpu.compute_capability) == (
        "RTX ZED 9000",
        128,
        (13, 0),
    )


def test_d_012_places_may_be_missing_or_odd(vast: Any) -> None:
    """A place that can't be told is unknown, and no place makes an offer disappear."""
    places: list[Any] = [None, "", ", NO", "Utah, US", "Sweden", "Quebec, CA", "a, b, c", 7]
    vast.searches([vast.row(n, geolocation=place) for n, place in enumerate(places, 1)])
    assert [o.region for o in vast.listed()] == [None, None, "NO", "US", "SE", "CA", None, None]


def test_d_013_told_to_slow_down_it_waits_and_asks_once_more(vast: Any) -> None:
    """Retry-After is obeyed, and one repetition is enough."""
    vast.searches((429, "slow down", {"Retry-After": "9"}), [vast.row()])
    assert len(vast.listed()) == 1
    first, second = vast.asked("POST")
    assert second.at - first.at >= 9


@pytest.mark.parametrize(
    "body",
    [
        "API requests too frequent: endpoint threshold=7.0",
        {"detail": "API requests too frequent: endpoint threshold=7.0"},
        {"error": "rate_limit_exceeded", "retry_after": 7.5},
    ],
    ids=["text", "detail", "json"],
)
def test_every_form_of_too_often_says_how_long_to_wait(vast: Any, body: Any) -> None:
    """Plain text, text under detail and a number in the body are all understood."""
    vast.on("GET", "/api/v0/users/current", (429, body), {"credit": 12.5})
    assert vast.driver.gipper_account().credit_usd == Decimal("12.5")
    first, second = vast.asked("GET")
    assert second.at - first.at >= 7


def test_d_013_a_used_up_day_is_not_repeated(vast: Any) -> None:
    """The daily quota is told with its end, after one request."""
    headers = {"X-RateLimit-Reset": "1796083200"}
    vast.searches((429, {"error": "search_quota_exceeded"}, headers))
    with pytest.raises(ProviderError, match=r"used up; they begin anew at 2026-12-01 00:00 UTC"):
        vast.listed()
    assert len(vast.asked("POST")) == 1


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("rentable", False, "taken"), ("rented", True, "taken"), ("external", True, "another market's"),
        ("gpu_display_active", True, "somebody's screen"), ("resource_type", "vm", "not a container"),
        ("gpu_arch", "amd", "not NVIDIA"), ("verification", "deverified", "not verified"),
        ("reliability2", 0.4, "reliability under 0.9"), ("duration", 3600, "ends too early"),
        ("dph_total", -1, "price not told"), ("ask_contract_id", "x", "no id"),
    ],
)  # fmt: skip
def test_every_condition_is_looked_at_again(vast: Any, field: str, value: Any, why: str) -> None:
    """An offer that the market should not have shown is left out and counted."""
    row = vast.row(**{field: value}) | ({"id": None} if field == "ask_contract_id" else {})
    vast.searches([row, vast.row(2)])
    listing = vast.listed()
    assert [o.id for o in listing] == ["2"]
    assert why in listing.notes[0]


def test_settings_and_job_decide_on_hosts(make_vast: Any) -> None:
    """The job's word on hosts wins over the settings'; a floor that is set needs a figure."""
    vast = make_vast(settings=VastSettings(verified=False, min_reliability=0.99))
    vast.searches([vast.row(1, verification="unverified"), vast.row(2, reliability2=None, reliability=None)])
    assert [o.id for o in vast.listed()] == ["1"]
    assert "verified" not in vast.asked("POST")[0].body
    datacentre = VastJob(datacenter_only=True, verified=True, min_reliability=0.5)
    vast.searches([vast.row(1), vast.row(2, hosting_type=1)])
    assert [(o.id, o.cloud) for o in vast.listed(options=datacentre)] == [("2", "SECURE")]


def test_bids_are_offers_of_their_own_at_the_price_of_the_bid(vast: Any) -> None:
    """An interruptible offer costs its bid and the disk; one whose least bid is above ours is left out."""
    vast.searches([vast.row(1)], [vast.row(1, min_bid=0.16), vast.row(2, min_bid=0.25)])
    listing = vast.listed(spot=True, options=VastJob(bid_usd_h=Decimal("0.2")))
    assert [(o.id, o.spot, o.usd_h) for o in listing] == [
        ("1", False, Decimal("0.308330")), ("1-bid", True, Decimal("0.208333")),
    ]  # fmt: skip
    assert [a.body["type"] for a in vast.asked("POST")] == ["on-demand", "bid"]


def test_a_price_for_another_disk_is_not_believed(vast: Any) -> None:
    """Where the market priced a smaller disk than was asked for, the disk is added here."""
    assert vast.offer(storage_cost=9.0).usd_h == Decimal("0.8")


def _market(rows: list[dict[str, Any]]) -> Any:
    """Answers as the market does: 64 at most, ordered by the whole price, filtered by the GPUs' alone."""

    def answer(asked: Any) -> dict[str, Any]:
        floor = asked.body.get("dph_total", {}).get("gte", 0)
        hidden = asked.body.get("machine_id", {}).get("notin", [])
        shown = [r for r in rows if r["dph_base"] >= floor and r["machine_id"] not in hidden]
        return {"offers": sorted(shown, key=lambda r: r["dph_total"])[:64]}

    return answer


def test_more_offers_than_the_market_shows_are_paged_by_price(vast: Any) -> None:
    """All of 150 offers are found, also those whose GPUs alone are cheaper than the last page's price."""
    rows = [
        vast.row(
            n,
            machine_id=n,
            dph_base=0.2 + n / 1000,
            dph_total=0.2 + n / 1000 + (0.04 if n % 7 == 0 else 0.005),
            storage_cost=...,
        )
        for n in range(1, 151)
    ]
    vast.searches(_market(rows))
    listing = vast.listed()
    assert len(listing) == 150
    assert listing.notes == ()


def test_more_equal_prices_than_a_page_holds_do_not_stall(vast: Any) -> None:
    """Where a page repeats itself, the machines on it are left out of the next."""
    vast.searches(_market([vast.row(n, machine_id=n) for n in range(1, 101)]))
    assert len(vast.listed()) == 100


def test_a_search_that_is_cut_says_so(vast: Any) -> None:
    """A market too big for the pages that may be asked for gives what it gave, and a note."""
    vast.searches(
        _market(
            [
                vast.row(n, machine_id=n, dph_base=n / 10, dph_total=n / 10, storage_cost=0)
                for n in range(1, 900)
            ]
        )
    )
    listing = vast.listed()
    assert len(listing) >= 200
    assert "only the cheapest" in listing.notes[0]
    assert len(vast.asked("POST")) <= 6


def test_searches_stay_under_ten_a_minute(vast: Any) -> None:
    """Whoever asks more often is made to wait, and told so where there is no time."""
    vast.searches([vast.row()])
    for _ in range(12):
        vast.listed()
    times = [a.at for a in vast.asked("POST")]
    assert all(late - early >= 60 for early, late in zip(times, times[9:], strict=False))
    with pytest.raises(ProviderError, match="too late here"):
        for _ in range(12):
            vast.listed(deadline=vast.clock.time + 1)


def test_offers_are_listed_without_a_key(make_vast: Any) -> None:
    """Without a key the search goes out without the header."""
    vast = make_vast(key=None)
    assert vast.offer().id == "5000101"
    assert "Authorization" not in vast.asked("POST")[0].headers


@pytest.mark.parametrize("answer", [{"offers": None}, {}, [1], "text", {"success": False, "msg": "no"}])
def test_a_search_without_a_list_is_an_error(vast: Any, answer: Any) -> None:
    """Nothing but a list of offers counts as an answer: an empty market is not made up."""
    vast.searches(answer) if not isinstance(answer, list) else vast.on("POST", "/api/v0/bundles/", [1])
    with pytest.raises(ProviderError):
        vast.listed()
