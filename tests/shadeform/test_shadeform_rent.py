"""Renting: what the create holds, our SSH key in the account, and what each answer means."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from emulators import faults
from emulators.shadeform.app import NO_MONEY, NOT_UNIQUE, SOLD_OUT
from emulators.shadeform.catalog import at, kind, spot
from emulators.shadeform.market import PRIVATE, SshKey
from support_bench import START, Bench

from gipper.api import NoCapacity, OfferGone, Port, ProviderError, Refused
from gipper.plugins.handle_rent import DoubtfulRent
from gipper.redact import Redactor

Make = Callable[..., Bench]


def created(b: Bench, number: int = 0) -> Any:
    return b.app.seen("create")[number].json


def ours(b: Bench) -> list[SshKey]:
    """The account's keys but the market's own."""
    return [k for k in b.market.ssh_keys if k.private is None]


def test_what_the_create_holds(bench: Make) -> None:
    """The exact image, our key's id, the market's timer, tags with name and ports; no firewall, no script, no
    variables; and no field without a value (field cases D-019, D-048)."""
    b = bench()
    b.rent(ports=(Port(inside=8000), Port(inside=5004, protocol="udp")))
    body = created(b)
    (key,) = ours(b)
    assert body == {
        "cloud": "massedcompute", "region": "desmoines-usa-1", "shade_instance_type": "RTX4090", "shade_cloud": True,
        "name": "gipper-aaaaa-0000000000-1-000000", "rental_type": "on_demand", "os": "ubuntu22.04_cuda12.8_shade_os",
        "ssh_key_id": key.id, "auto_delete": {"date_threshold": "2026-11-30T14:00:00+00:00"},
        "tags": ["gipper", "gipper-name=gipper-aaaaa-0000000000-1-000000", "gipper-port=8000/tcp", "gipper-port=5004/udp"],
    }  # fmt: skip


def test_spot_is_asked_for_by_name(bench: Make) -> None:
    """A spot offer says so in the create, and costs what the spot place says."""
    b = bench(
        kind(
            "nebius",
            "L40S",
            cents=200,
            places=[at("oslo-norway-1", available=False), spot("oslo-norway-1", "0.62")],
        )
    )
    (offer,) = b.offers(spot=True)
    machine = b.provider.rent(offer, b.request())
    assert created(b)["rental_type"] == "spot"
    assert b.described(machine.id).usd_h == offer.usd_h == Decimal("0.62")


def test_d_009_d_010_the_market_s_own_spelling(bench: Make) -> None:
    """The create carries the row's own words, stray blanks too: another spelling would look sold out, for ever."""
    b = bench(kind("lambdalabs", "A100_80G ", gpu="A100_80G", vram=80, places=[at(" dallas-usa-3")]))
    b.rent()
    assert b.offers()[0].id == "lambdalabs/dallas-usa-3/A100_80G"
    assert (created(b)["shade_instance_type"], created(b)["region"]) == ("A100_80G ", " dallas-usa-3")


def test_an_offer_that_is_gone_or_dearer_is_not_asked_for(bench: Make) -> None:
    """Looked at once more right before the create: another price or none, and it never goes out."""
    b = bench()
    offer = b.offers()[0]
    b.market.kinds[0]["hourly_price"] = 53
    with pytest.raises(OfferGone, match="costs"):
        b.provider.rent(offer, b.request())
    b.market.kinds[0]["hourly_price"] = 51
    b.market.kinds[0]["availability"][0]["available"] = False
    with pytest.raises(OfferGone, match="not free"):
        b.provider.rent(offer, b.request())
    assert b.app.seen("create") == [] and ours(b) == []
    asked = b.app.seen("types")[-1].query
    assert asked == "cloud=massedcompute&shade_instance_type=RTX4090&available=true"


def test_the_price_has_moved(bench: Make) -> None:
    """What the machine says it costs is told at the first look, so that core gives a dearer one back."""
    b = bench(price_factor=Decimal("1.3"))
    machine = b.rent()
    assert machine.usd_h is None and b.described(machine.id).usd_h == Decimal("0.65")


def test_d_020_throttled_right_after_renting(bench: Make) -> None:
    """Three refusals with a time to wait: the fourth look tells of the machine."""
    b = bench()
    machine = b.rent()
    b.app.faults.script("read", *(faults.status(429, "slow down", Retry_After="1") for _ in range(3)))
    before = b.sim.monotonic()
    assert b.described(machine.id).id == machine.id and b.sim.monotonic() - before >= 3


@pytest.mark.parametrize(
    ("status", "body", "error", "what"),
    [
        (409, SOLD_OUT, NoCapacity, None),
        (409, {"error_code": "X", "error": {"message": "Out of stock right now"}}, NoCapacity, None),
        (429, {"message": "too many requests"}, NoCapacity, None),
        (409, NO_MONEY, Refused, "account"),
        (402, {"message": "pay first"}, Refused, "account"),
        (403, {"message": "Your wallet is empty"}, Refused, "account"),
        (400, "insufficient funds", Refused, "account"),
        (401, {"message": "Invalid API key"}, Refused, "account"),
        (403, {"message": "Forbidden"}, Refused, "account"),
        (409, {"error_code": "LIMIT", "error": "instance quota exceeded"}, Refused, "account"),
        (409, {"error_code": "REGION_DISABLED", "error": "region is closed"}, Refused, "offer"),
        (404, {"message": "no such cloud"}, Refused, "offer"),
        (400, {"message": "os is not an option"}, Refused, "request"),
        (422, "bad env", Refused, "request"),
    ],
)  # fmt: skip
def test_d_015_d_019_d_022_refusals(
    bench: Make, status: int, body: Any, error: type[Exception], what: str | None
) -> None:
    """Sold out is the next offer; no money, limits and a bad key are the account's; a bad body is the
    request's; and the market's words are told."""
    b = bench()
    offer = b.offers()[0]
    b.app.faults.script("create", faults.status(status, body))
    with pytest.raises(error) as caught:
        b.provider.rent(offer, b.request())
    assert getattr(caught.value, "kind", None) == what
    words = body if isinstance(body, str) else body.get("message") or body["error"]
    assert (words["message"] if isinstance(words, dict) else words) in str(caught.value)
    assert b.market.creates == 0 and len(b.app.seen("create")) == 1


@pytest.mark.parametrize("fault", [
    faults.lost_after(), faults.status(500, "oops", after=True), faults.status(504, "<html>", after=True),
    faults.status(200, '{"id": "7c2', after=True), faults.status(200, "", after=True), faults.status(200, {}, after=True),
    faults.status(403, "<html>challenge</html>", after=True),
    faults.status(409, {"error_code": "INTERNAL_SERVER_ERROR", "error": "oops"}, after=True),
])  # fmt: skip
def test_d_016_d_017_the_answer_to_create_is_lost(bench: Make, fault: faults.Fault) -> None:
    """Doubtful to core, asked once, and the name finds the machine."""
    b = bench()
    offer = b.offers()[0]
    b.app.faults.script("create", fault)
    with pytest.raises(DoubtfulRent):
        b.provider.rent(offer, b.request("gipper-lost"))
    assert len(b.app.seen("create")) == b.market.creates == 1
    assert [m.name for m in b.provider.list_ours()] == ["gipper-lost"]


def test_d_021_our_key_is_added_once(bench: Make) -> None:
    """Found again by its body, whatever comment the market wrote behind it."""
    b = bench()
    b.rent("gipper-1")
    b.rent("gipper-2")
    (key,) = ours(b)
    assert key.public == "ssh-ed25519 AAAA added-by-api" and key.name.startswith("gipper-")
    assert len(b.app.seen("add_key")) == 1
    assert {created(b, n)["ssh_key_id"] for n in (0, 1)} == {key.id}


_FIRST = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from gipper_shadeform.client import Client
from gipper_shadeform.keys import key_id
from gipper.http import make_session
from gipper.runtime import RealRuntime

class Context:
    runtime, data_folder, session = RealRuntime(), Path(sys.argv[2]), None
    def secret(self, name=None): return "sf_TESTKEY0123456789abcdef"
    def base_url(self, name=None): return sys.argv[1]
    def http(self):
        self.session = self.session or make_session(provider="shadeform", runtime=self.runtime, redact=str)
        return self.session

print(key_id(Context(), Client(Context()), "ssh-ed25519 AAAAC3 me@here"))
"""


def test_d_021_two_first_rents_at_once(tmp_path: Path) -> None:
    """Two processes, a market that takes the same name twice and is slow: one key, which both get."""
    from emulators.housing import NoHousing
    from emulators.shadeform.app import make_shadeform
    from emulators.web import served

    from gipper.runtime import RealRuntime

    market, app = make_shadeform(RealRuntime(), NoHousing(), names_unique=False)
    app.faults.always("add_key", faults.slow(0.5))
    with served(app) as url:
        command = [sys.executable, "-c", _FIRST, url, str(tmp_path), str(tmp_path)]
        both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        told = [process.communicate(timeout=60)[0].strip() for process in both]
    (key,) = [k for k in market.ssh_keys if k.private is None]
    assert told == [key.id, key.id] and len(app.seen("add_key")) == 1


def test_a_name_that_is_taken(bench: Make) -> None:
    """By our own key, added meanwhile: found. By another key: a name with a number. By five: nothing is rented."""
    b = bench()
    b.rent("gipper-1")
    base = ours(b)[0].name
    b.market.ssh_keys[1] = SshKey(id="other", name=base, public="ssh-ed25519 BBBB x")
    b.rent("gipper-2")
    assert [k.name for k in ours(b)] == [base, f"{base}-2"]
    assert created(b, 1)["ssh_key_id"] == ours(b)[1].id
    b.market.ssh_keys[2] = SshKey(id="more", name=f"{base}-2", public="ssh-ed25519 CCCC x")
    b.app.faults.always("add_key", faults.status(400, "key name must be unique"))
    with pytest.raises(ProviderError, match="could not be added"):
        b.rent("gipper-3")
    assert len(b.app.seen("create")) == 2
    b.app.faults.script("add_key", faults.status(409, NOT_UNIQUE, after=True))
    b.app.faults.mend()


@pytest.mark.parametrize(
    ("fault", "error"),
    [(faults.status(200, {"id": ""}), NoCapacity), (faults.status(500, "x"), NoCapacity), (faults.lost_before(), NoCapacity)],
)  # fmt: skip
def test_never_without_a_key_of_ours(bench: Make, fault: faults.Fault, error: type[Exception]) -> None:
    """A key that can't be added, or without an id: no create, as the account's default key would be let in."""
    b = bench()
    b.app.faults.always("add_key", fault)
    with pytest.raises(error):
        b.rent()
    assert b.app.seen("create") == []


def test_no_private_key_is_ever_told(bench: Make) -> None:
    """The list of keys holds private ones: not in errors, whatever becomes of the answer (D-014)."""
    b = bench()
    assert b.market.ssh_keys[0].private == PRIVATE
    rows = [{"id": "k", "name": "n", "public_key": "p", "is_default": True, "private_key": PRIVATE}]
    broken = (
        '{"ssh_keys": [{"private_key": "' + PRIVATE,
        {"ssh_keys": {"private_key": PRIVATE}},
        {"keys": rows},
    )
    for status in (200, 400, 409, 500, 502, 302):
        for body in broken:
            b.app.faults.script("keys", faults.status(status, body))
            with pytest.raises(ProviderError) as caught:
                b.rent()
            told = (
                f"{caught.value} {caught.value.hint} {caught.value.__cause__!r} {caught.value.__context__!r}"
            )
            assert "bm90" not in told and "PRIVATE" not in told
    b.app.faults.mend()
    assert "PRIVATE" not in repr(b.rent())


def test_an_image_for_containers_is_refused(bench: Make) -> None:
    """Core leaves these offers out for such a job; a rent that comes all the same creates nothing."""
    b = bench()
    with pytest.raises(Refused, match="virtual") as caught:
        b.rent(image="ubuntu:24.04")
    assert caught.value.kind == "request" and b.app.seen("create") == []


def test_the_timer_is_an_hour_after_the_end(bench: Make) -> None:
    """What the market got ends the machine then, on its own clock, and not a moment before."""
    b = bench()
    machine = b.rent()
    b.sim.sleep(2 * 3600 - 1)
    assert b.market.alive()
    b.sim.sleep(1)
    assert b.market.alive() == [] and b.market.asked_to_end == []
    (made,) = b.market.instances.values()
    assert made.deleting is not None and (made.deleting - START).total_seconds() == 7200
    assert b.provider.describe(machine.id) is None


def test_d_080_d_081_the_key_stays_in_its_header(bench: Make) -> None:
    """In no path, query or body; and a market that repeats it in an answer finds it masked."""
    b = bench()
    b.end(b.rent())
    assert b.app.leaks == [] and all(s.headers["X-Api-Key"] == b.market.key for s in b.app.requests)
    redactor = Redactor()
    redactor.add(b.market.key, "THE_KEY")
    b.app.faults.always("list", faults.status(401, {"message": f"key {b.market.key} is invalid"}))
    with pytest.raises(ProviderError, match="was not accepted") as caught:
        b.provider.list_ours()
    assert b.market.key not in redactor.text(str(caught.value))


def test_d_082_redirects(bench: Make) -> None:
    """A create isn't sent anywhere else; a read doesn't take the key to another host."""
    b = bench()
    offer = b.offers()[0]
    b.app.faults.script(
        "create", faults.status(307, "", Location="https://api.shadeform.ai/v1/instances/create")
    )
    with pytest.raises(DoubtfulRent):
        b.provider.rent(offer, b.request())
    assert len(b.app.seen("create")) == 1
