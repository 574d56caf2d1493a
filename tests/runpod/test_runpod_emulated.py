"""The driver through core's own handle on the emulated market, in this process and in simulated time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import pytest
from emulators import faults
from emulators.housing import NoHousing
from emulators.runpod.app import NO_CAPACITY, make_runpod
from emulators.runpod.market import gpu
from gipper_runpod import RunpodProvider
from gipper_runpod.catalog import offer_of
from gipper_runpod.logs import blamed, lines
from gipper_runpod.pods import machine_of
from gipper_runpod.tables import Options, RunpodJob, RunpodSettings
from hypothesis import given
from hypothesis import strategies as st
from support_bench import START, Bench, make_bench

from gipper.api import NoCapacity, Offer, OfferQuery, Port, ProviderError, Refused
from gipper.lifecycle.proof import Proof
from gipper.plugins.answers import elsewhere, offers
from gipper.plugins.handle_rent import DoubtfulRent
from gipper.testing import SimRuntime
from gipper.values.offers import Listing

Make = Callable[..., Bench]
FAR = "203.0.113.9"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Make]:
    made: list[Bench] = []

    def make(*gpus: dict[str, Any], key: str | None = None, settings: object = None, **changes: Any) -> Bench:
        sim = SimRuntime(START)
        changes.setdefault("host", "8.8.4.4")
        market, app = make_runpod(sim, NoHousing(), gpus, **changes)
        made.append(
            make_bench(
                tmp_path,
                RunpodProvider,
                "https://api.runpod.io",
                sim,
                market,
                app,
                key=key,
                settings=settings,
            )
        )
        return made[-1]

    yield make
    off = [text for b in made for text in b.app.schema.off]
    assert off == [], "requests or answers that the schema doesn't allow"


def test_a_life_in_simulated_time(bench: Make) -> None:
    """Offered, rented, running, listed, terminated, proved gone."""
    b = bench(starting_s=10, running_s=60, ports_s=90)
    machine = b.rent(ports=(Port(inside=8000),))
    states = []
    for _ in range(12):
        found = b.described(machine.id)
        states.append(found.state.value)
        assert bool(found.addresses) == (b.sim.now() - START >= timedelta(seconds=90))
        b.sim.sleep(10)
    assert list(dict.fromkeys(states)) == ["pending", "starting", "running"]
    assert [p.inside for p in found.ports] == [8000]
    assert found.host_id and found.host_id.startswith("host-")
    assert [m.id for m in b.provider.list_ours()] == [machine.id]
    assert isinstance(b.end(machine), Proof)
    assert b.market.alive() == [] and b.app.leaks == []


def test_no_secret_in_the_create(bench: Make) -> None:
    """The body holds known fields, our public key, and no key of the account (field case D-048)."""
    b = bench()
    b.rent(env={"A": "b"})
    (create,) = b.app.seen("create")
    assert create.json["env"] == {"A": "b", "PUBLIC_KEY": "ssh-ed25519 AAAA me"}
    assert create.json["ports"] == ["22/tcp"] and create.json["disk"] == 40
    assert create.json["gpu"] == {"id": "NVIDIA GeForce RTX 4090", "count": 1}


def test_d_003_the_price_is_per_gpu(bench: Make) -> None:
    """Two GPUs cost twice the price of one, and the disk once."""
    b = bench(gpu("NVIDIA GeForce RTX 4090", price={"secure": 0.5, "community": 0.34}))
    offers_ = {o.cloud: o for o in b.offers(gpu_count=2)}
    assert offers_["COMMUNITY"].usd_h == pytest.approx(
        Decimal("0.68") + Decimal(4) / 730, abs=Decimal("0.000001")
    )


def test_d_004_null_or_zero_is_not_free(bench: Make) -> None:
    """Types without a price are no offers, and are counted."""
    kinds = [
        gpu(f"NVIDIA L{n}", price={"secure": p, "community": p}) for n, p in ((4, None), (40, 0), (41, 0.4))
    ]
    listing = bench(*kinds).listing(cloud="SECURE")
    assert [o.raw["gpu"] for o in listing] == ["NVIDIA L41"]
    assert any("2 offer(s) left out: price not told" in n for n in listing.notes)


def test_d_009_stray_blanks_in_ids(bench: Make) -> None:
    """Both spellings are one card for people, and each is rented by the market's exact id."""
    odd = "NVIDIA  RTX A4500"
    b = bench(gpu("NVIDIA RTX A4500", memory=20), gpu(odd, memory=20))
    found = list(b.offers(cloud="SECURE"))
    assert len({o.gpu for o in found}) == 1
    b.provider.rent(next(o for o in found if o.raw["gpu"] == odd), b.request())
    assert b.app.seen("create")[0].json["gpu"]["id"] == odd


def test_d_010_the_id_not_the_name(bench: Make) -> None:
    """The create carries the id; the display name would look like no capacity."""
    b = bench()
    b.rent()
    assert b.market.creates == 1


def test_places_only_where_asked_for(bench: Make) -> None:
    """A country is shown where the job names it, and the create then names that country's data centres."""
    b = bench()
    assert {o.region for o in b.offers()} == {None}
    found = b.offers(regions=("SE", "NO"))
    assert {o.region for o in found} == {"SE"}
    b.provider.rent(found[0], b.request())
    assert b.app.seen("create")[0].json["dataCenterIds"] == ["EU-SE-1"]


def test_slices_and_strangers(bench: Make) -> None:
    """A slice is a type of its own; AMD's, `unknown`, what the cloud's flag denies and what is out of stock are
    left out with a count."""
    whole = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
    b = bench(
        gpu(whole, memory=96), gpu(f"{whole} MIG 1g.24gb", memory=24), gpu("AMD Instinct MI300X OAM", manufacturer="AMD"),
        gpu("unknown"), gpu("NVIDIA L4", secure=False), gpu("NVIDIA L40S", stock={"EU-SE-1": ("SE", "NONE")}),
    )  # fmt: skip
    listing = b.listing(cloud="SECURE")
    models = {(o.gpu.name, o.gpu.memory_gb) for o in listing if o.gpu}
    assert len(models) == 2 and {m for _, m in models} == {96, 24}
    assert {n.split(": ")[-1] for n in listing.notes} == {
        "no GPU that it names", "not NVIDIA's GPU", "not in the secure cloud", "out of stock"
    }  # fmt: skip


def test_spot_is_not_sold(bench: Make) -> None:
    """A job that may be interrupted gets on-demand offers and a note."""
    listing = bench().listing(spot=True)
    assert listing.items and not any(o.spot for o in listing)
    assert any("no interruptible pods" in n for n in listing.notes)


def test_cuda_in_question_and_create(bench: Make) -> None:
    """A CUDA filter goes into the catalogue and into the create, or they would disagree."""
    b = bench(gpu("NVIDIA L4", cuda=["12.8"]), settings=RunpodSettings(min_cuda="12.4"))
    b.provider.rent(b.offers(cloud="SECURE")[0], b.request())
    assert b.app.seen("create")[0].json["gpu"]["minCudaVersion"] == "12.4"
    (exact,) = b.offers(cloud="SECURE", cuda_versions=("12.8",))
    b.provider.rent(exact, b.request("gipper-b"))
    assert b.app.seen("create")[1].json["gpu"]["allowedCudaVersions"] == ["12.8"]
    assert b.offers(cloud="SECURE", cuda_versions=("13.0",)) == []


def test_a_network_volume_ties_to_its_place(bench: Make) -> None:
    """Secure cloud and the volume's data centre only; mounted; its rent is an adjustment of its own."""
    b = bench()
    job = RunpodJob(volume="vol1example")
    found = b.offers(options=job)
    assert {(o.cloud, tuple(o.raw["centers"])) for o in found} == {("SECURE", ("EU-SE-1",))}
    b.provider.rent(found[0], b.request(options=job))
    assert b.app.seen("create")[0].json["mounts"] == {
        "network": [{"volumeId": "vol1example", "path": "/workspace"}]
    }


def test_d_015_d_019_refusals(bench: Make) -> None:
    """No capacity is the next offer; no money and a bad key are the account's; a bad body is the request's."""
    b = bench()
    offer = b.offers()[0]
    problem = {"title": "x", "status": 400}
    cases: list[tuple[int, Any, type[Exception], str | None]] = [
        (400, {**problem, "detail": NO_CAPACITY}, NoCapacity, None),
        (400, {"error": "create pod: There are no instances currently available"}, NoCapacity, None),
        (400, {**problem, "detail": "mounts are wrong"}, Refused, "request"),
        (422, {**problem, "errors": ["$: additional properties 'x' not allowed"]}, Refused, "request"),
        (402, {**problem, "detail": "insufficient balance"}, Refused, "account"),
        (401, {**problem, "detail": "invalid API key"}, Refused, "account"),
        (403, {**problem, "detail": "access denied"}, Refused, "offer"),
        (429, {**problem, "detail": "rate limit exceeded for the minute window"}, NoCapacity, None),
    ]
    for status, body, kind, what in cases:
        b.app.faults.script("create", faults.status(status, body))
        with pytest.raises(kind) as caught:
            b.provider.rent(offer, b.request())
        assert getattr(caught.value, "kind", None) == what
        assert "req-" in str(caught.value) or status == 401
    assert b.market.creates == 0


@pytest.mark.parametrize("fault", [faults.lost_after(), faults.status(500, "", after=True),
                                   faults.status(502, "<html>", after=True), faults.status(201, "{", after=True),
                                   faults.status(403, "<html>error code: 1010</html>", after=True)])  # fmt: skip
def test_d_016_the_answer_to_create_is_lost(bench: Make, fault: faults.Fault) -> None:
    """Doubtful to core, asked once, and the name finds the pod."""
    b = bench()
    offer = b.offers()[0]
    b.app.faults.script("create", fault)
    with pytest.raises(DoubtfulRent):
        b.provider.rent(offer, b.request("gipper-lost"))
    assert len(b.app.seen("create")) == b.market.creates == 1
    assert [m.name for m in b.provider.list_ours()] == ["gipper-lost"]


def test_d_014_html_instead_of_json(bench: Make) -> None:
    """A gateway's page is told in a line, and is never an empty catalogue or list."""
    b = bench()
    for status, body in ((502, "<html>bad gateway</html>"), (403, "<html>error code: 1010</html>")):
        b.app.faults.always("catalog", faults.status(status, body))
        b.app.faults.always("list", faults.status(status, body))
        for ask in (b.offers, b.provider.list_ours):
            with pytest.raises(ProviderError) as caught:
                ask()
            assert str(status) in caught.value.message and "<html>" not in caught.value.message
            assert "not accepted" not in caught.value.message


def test_d_025_d_026_running_is_not_ready(bench: Make) -> None:
    """RUNNING with nothing mapped has no address; a private or HTTP address is none either."""
    b = bench(ports_s=300, running_s=1)
    machine = b.rent()
    b.sim.sleep(20)
    assert b.described(machine.id).addresses == ()
    for runtime in (None, {}, {"ports": None}, {"ports": []}, {"ports": [{"private": 22, "public": None, "ip": None}]},
                    {"ports": [{"private": 22, "public": 1, "type": "http", "ip": FAR}]},
                    {"ports": [{"private": 22, "public": 1, "type": "tcp", "ip": "10.0.0.1"}]}):  # fmt: skip
        row = {"id": "x", "name": "n", "status": "RUNNING", "runtime": runtime, "ssh": None}
        assert machine_of(row, "x", here=False).addresses == ()


def test_a_community_host_without_an_address(bench: Make) -> None:
    """Given up three minutes after it ran; a secure pod is waited for longer."""
    b = bench(gpu("NVIDIA L4", secure=False), no_public_address=True, running_s=10)
    machine = b.rent()
    b.sim.sleep(60)
    b.described(machine.id)
    b.sim.sleep(170)
    assert b.described(machine.id).state.value == "running"
    b.sim.sleep(30)
    found = b.described(machine.id)
    assert found.state.value == "error" and "no public address" in (found.fault or "")


def test_d_028_a_container_that_starts_again_and_again(bench: Make) -> None:
    """Its uptime falls back time after time: an error, with that word."""
    b = bench(crash_loop=True)
    machine = b.rent()
    for _ in range(12):
        b.sim.sleep(1)
        found = b.described(machine.id)
    assert found.state.value == "error" and "again and again" in (found.fault or "")


def test_d_073_a_cost_of_zero_is_not_said(bench: Make) -> None:
    """cost 0 is unknown, so that the offer's price counts."""
    b = bench(cost_zero=True)
    assert b.rent().usd_h is None


def test_a_log_line_says_who_is_at_fault(bench: Make) -> None:
    """The driver is too old for the image: the host's fault, with the line; a key without the right: nothing."""
    line = "OCI runtime create failed: unsatisfied condition: cuda>=13.0"
    b = bench(log=["image pull: 41%", line])
    machine = b.rent()
    told = b.provider.diagnose(machine.id)
    assert told is not None and (told.fault, told.text) == ("host", line)
    b.market.knobs.scope_denied = frozenset({"logs"})
    assert b.provider.diagnose(machine.id) is None
    assert blamed("secret=hunter2 is set") is None
    assert list(lines('data: {"line": "a"}\ndata: {\nid: 1\ndata: []')) == ["a"]


def test_pages_members_and_stopped_pods(bench: Make) -> None:
    """Every page is read, an answer without pages is the last, stopped pods are listed."""
    b = bench(page=2)
    machines = [b.rent(f"gipper-{n}") for n in range(5)]
    b.market.stop(b.market.pods[machines[0].id])
    found = {m.id: m.state.value for m in b.provider.list_ours()}
    assert set(found) == {m.id for m in machines} and found[machines[0].id] == "stopped"
    assert len(b.app.seen("list")) == 3
    assert all("includeClusterPods=true" in s.query for s in b.app.seen("list"))
    b.market.knobs.no_pages = True
    assert len(b.provider.list_ours()) == 5
    b.market.knobs.no_pages = False
    b.app.faults.script("list", faults.fine(), faults.status(500, ""), faults.status(500, ""))
    with pytest.raises(ProviderError):
        b.provider.list_ours()


def test_terminate_never_stops(bench: Make) -> None:
    """204 without a body, a pod that is gone, a locked one and 429 are dealt with; nothing is ever stopped."""
    b = bench(locked=True)
    machine = b.rent()
    b.app.faults.script("destroy", faults.status(429, {"title": "x", "status": 429}, Retry_After="7"))
    assert isinstance(b.end(machine), Proof)
    b.provider.terminate(machine.id)
    b.provider.terminate("neverseen123")
    assert b.app.seen("action") == []


def test_d_064_terminate_and_list_are_refused(bench: Make) -> None:
    """Nothing is taken as gone while the market refuses to say so."""
    b = bench()
    machine = b.rent()
    b.sim.sleep(100)
    refused = faults.status(401, {"title": "Unauthorized", "status": 401, "detail": "expired"})
    for endpoint in ("destroy", "list", "read"):
        b.app.faults.always(endpoint, refused)
    assert b.end(machine) is None and len(b.market.alive()) == 1
    b.app.faults.mend()
    assert isinstance(b.end(machine), Proof)


def test_an_unknown_balance_is_unknown(bench: Make) -> None:
    """Known to a key with the right; a key without it gets unknown, not 0; a broken answer is an error."""
    b = bench(credit=Decimal("18.42"))
    account = b.provider.account()
    assert account is not None and (account.credit_usd, account.limit_usd) == (Decimal("18.42"), Decimal(80))
    b.market.knobs.scope_denied = frozenset({"graphql"})
    account = b.provider.account()
    assert account is not None and account.credit_usd is None
    b.app.faults.always("graphql", faults.status(200, {"errors": [{"message": "bad"}], "data": None}))
    with pytest.raises(ProviderError, match="bad"):
        b.provider.account()
    assert b.offers()


def test_prices_without_a_key(bench: Make, tmp_path: Path) -> None:
    """The older API lists types with prices and stock to everybody; nothing else is asked."""
    from gipper_runpod.graphql import catalog

    b = bench(gpu("NVIDIA L4"), gpu("NVIDIA L40S", stock={}))
    from gipper_runpod.client import Client

    from gipper.api import KeyMissing

    class Bare:
        runtime = b.sim

        def secret(self, name: str | None = None) -> str:
            raise KeyMissing("RUNPOD_API_KEY is not set")

        def base_url(self, name: str | None = None) -> str:
            return "https://api.runpod.io"

        def http(self) -> Any:
            return b.session

    rows = catalog(Client(Bare()), 1, "COMMUNITY", None)  # type: ignore[arg-type]
    assert [(r["id"], r["availability"]) for r in rows] == [("NVIDIA L4", "High"), ("NVIDIA L40S", None)]
    assert "Authorization" not in b.app.seen("graphql")[0].headers


def test_d_074_bills_grow_and_settle(bench: Make) -> None:
    """Sums over whole hours only grow, and end at the meter's to the micro-dollar a bucket."""
    b = bench(bills_lag_s=1800)
    machine = b.rent()
    since = b.sim.now() - timedelta(minutes=17)
    sums = []
    for _ in range(6):
        b.sim.sleep(1234)
        billed = b.provider.billed(since, b.sim.now())
        assert billed is not None
        sums.append(sum((x.usd for x in billed), Decimal(0)))
    assert sums == sorted(sums) and sums[-1] > 0
    b.end(machine)
    b.sim.sleep(7200)
    billed = b.provider.billed(since, b.sim.now())
    assert billed is not None
    assert {x.kind for x in billed} == {"gpu", "disk"}
    whole = sum((x.usd for x in billed), Decimal(0))
    assert abs(whole - b.market.metered(b.market.pods[machine.id])) < Decimal("0.00001")


def test_a_wrong_key_is_told_by_every_verb(bench: Make) -> None:
    """Refused as a key, never as an empty list or a pod that is gone."""
    b = bench(key="rpa_ANOTHER0123456789")
    machine_id = "k3x9wq2m7tb4ha"
    asks: tuple[Callable[[], Any], ...] = (
        b.offers, b.provider.list_ours, lambda: b.provider.describe(machine_id),
        lambda: b.provider.terminate(machine_id), lambda: b.provider.billed(START, START),
    )  # fmt: skip
    for ask in asks:
        with pytest.raises(ProviderError, match="key was not accepted"):
            ask()
    check = b.provider.check_key()
    assert check is not None and not check.ok


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(["RUNNING", "HIGH"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ("id", "name", "manufacturer", "memory", "secure", "community", "price", "availability", "dataCenters",
          "cudaVersions", "status", "runtime", "ssh", "cost", "createdAt", "gpu", "disk", "cloud")  # fmt: skip


@given(changed=st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=6))
def test_whatever_the_market_sends(changed: dict[str, Any]) -> None:
    """No JSON makes an offer or a machine that core would refuse, or raises."""
    from emulators.runpod.shapes import gpu_row

    asked = {"include": "AVAILABILITY", "product": "POD", "cloud": "SECURE"}
    row = {**(gpu_row(gpu("NVIDIA L4"), asked) or {}), **changed}
    from gipper_runpod.catalog import Place

    made = offer_of(row, OfferQuery(deadline=1.0), Options(), Place(cloud="SECURE"))
    if isinstance(made, Offer):
        assert len(offers(Listing(items=(made,)), "runpod")) == 1
    machine = machine_of({"id": "x", **changed}, "x", here=False)
    assert elsewhere(machine) == machine
    assert attrs.asdict(machine)["provider"] == "runpod"
