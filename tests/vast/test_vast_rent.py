"""Renting: one create, sent once, and each answer as the one word that it is."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import attrs
import pytest
import requests
from gipper_vast.tables import VastJob, VastSettings

from gipper.api import Doubtful, MachineState, NoCapacity, OfferGone, Refused

ASK = "/api/v0/asks/5000101/"
MADE = {"success": True, "new_contract": 7001001, "instance_api_key": "instance-secret-123"}


def test_the_create_is_whole_and_holds_no_null(vast: Any) -> None:
    """Label, disk, ports and cancel flag are in the create; there is no price on demand and no null."""
    vast.on("PUT", ASK, MADE)
    machine = vast.rent(vast.offer())
    (asked,) = vast.asked("PUT")
    body = asked.body
    assert body["env"] == {"TZ": "UTC", "-p 5004:5004/udp": "1", "-p 8000:8000": "1"}
    assert (body["label"], body["disk"], body["runtype"]) == (machine.name, 40.0, "ssh_direc ssh_proxy")
    assert body["cancel_unavail"] is True and "price" not in body and None not in body.values()
    assert body["image"] == "vastai/base-image:@vastai-automatic-tag"
    assert (machine.id, machine.state, machine.host_id) == ("7001001", MachineState.STARTING, "4242")


def test_the_instances_own_key_is_dropped(vast: Any) -> None:
    """The key in a create's answer is in no field of the machine and in nothing that the driver keeps."""
    vast.on("PUT", ASK, MADE)
    machine = vast.rent(vast.offer())
    assert "instance-secret" not in repr(attrs.asdict(machine)) + repr(vars(vast.driver._memory))
    vast.on("PUT", ASK, (400, {**MADE, "success": False, "msg": "bid too low"}))
    assert "instance-secret" not in repr(vast.rent(vast.offer()))


def test_images_come_from_job_settings_or_template(make_vast: Any) -> None:
    """The job's image wins, then the settings'; a template is not overruled by a default."""
    vast = make_vast(settings=VastSettings(image="a/b:1"))
    vast.on("PUT", ASK, MADE)
    for changes in ({"image": "c/d"}, {}, {"options": VastJob(template="abc123")}):
        vast.rent(vast.offer(), **changes)
    first, second, third = (a.body for a in vast.asked("PUT"))
    assert (first["image"], second["image"]) == ("c/d", "a/b:1")
    assert third["template_hash_id"] == "abc123" and "image" not in third


def test_a_bid_is_sent_for_interruptible_offers_alone(vast: Any) -> None:
    """The price in a create is the bid that the offer was listed with."""
    vast.searches([], [], [vast.row()])
    (offer,) = vast.listed(spot=True, options=VastJob(bid_usd_h=Decimal("0.2"))).items
    vast.on("PUT", ASK, MADE)
    vast.rent(offer)
    assert vast.asked("PUT")[0].body["price"] == 0.2


@pytest.mark.parametrize(
    ("status", "body", "word", "kind"),
    [
        (400, {"error": "invalid_args", "msg": "error 404/3603: no_such_ask  Instance type by id 5 is not available."}, OfferGone, None),
        (404, {"error": "no_such_ask"}, OfferGone, None),
        (410, {"error": "no_such_ask", "msg": "error 410/3907 no longer available"}, OfferGone, None),
        (200, {"success": False, "msg": "error 404/3603: no_such_ask  Instance type is not available."}, OfferGone, None),
        (200, {"success": False, "msg": "Required resources are currently unavailable"}, NoCapacity, None),
        (429, "API requests too frequent", NoCapacity, None),
        (429, {"detail": "API requests too frequent: endpoint threshold=4.5"}, NoCapacity, None),
        (429, {"error": "rate_limit_exceeded"}, NoCapacity, None),
        (400, {"error": "insufficient_credit", "msg": "see the billing page"}, Refused, "account"),
        (400, {"error": "spend_rate_limit", "msg": "x"}, Refused, "account"),
        (404, {"error": "auth_error", "msg": "Invalid user key"}, Refused, "account"),
        (401, {"error": "auth_error", "msg": "not allowed"}, Refused, "account"),
        (401, {"msg": "Two Factor Authentication is needed"}, Refused, "account"),
        (400, {"error": "invalid_args", "msg": "error 400/3467: disk"}, Refused, "request"),
        (483, {"msg": "broken JSON"}, Refused, "request"),
        (400, {"error": "no_ssh_key_for_vm"}, Refused, "offer"),
        (200, {"success": False, "msg": "hm"}, Doubtful, None),
        (200, {"success": True}, Doubtful, None),
        (200, {"success": True, "new_contract": None}, Doubtful, None),
        (200, "<html>hello</html>", Doubtful, None),
        (400, "<html>proxy</html>", Doubtful, None),
        (500, {"msg": "no capacity for this request"}, Doubtful, None),
        (502, "bad gateway", Doubtful, None),
        (504, "gateway timeout", Doubtful, None),
        (302, "elsewhere", Doubtful, None),
    ],
)  # fmt: skip
def test_each_answer_is_one_word(
    vast: Any, status: int, body: Any, word: type[Exception], kind: str | None
) -> None:
    """Refusals say that nothing was made, everything unclear is doubt, and the create went out once."""
    offer = vast.offer()
    vast.on("PUT", ASK, (status, body))
    with pytest.raises(word) as raised:
        vast.rent(offer)
    assert getattr(raised.value, "kind", None) == kind
    assert len(vast.asked("PUT")) == 1


def test_d_015_offers_that_went_away_are_each_asked_once(vast: Any) -> None:
    """A gone offer is told as gone, whatever status says it, and the next one is used."""
    vast.searches([vast.row(n) for n in (1, 2, 3)])
    offers = vast.listed().items
    vast.on("PUT", "/api/v0/asks/1/", (404, {"error": "no_such_ask"}))
    vast.on("PUT", "/api/v0/asks/2/", (410, {"error": "no_such_ask"}))
    vast.on("PUT", "/api/v0/asks/3/", MADE)
    for offer in offers[:2]:
        with pytest.raises(OfferGone):
            vast.rent(offer)
    assert vast.rent(offers[2]).id == "7001001"
    assert len(vast.asked("PUT")) == 3


@pytest.mark.parametrize(
    "lost", [(504, "x"), (502, "x"), requests.ReadTimeout("x"), requests.ConnectionError("reset")]
)
def test_d_017_a_create_is_never_sent_twice(vast: Any, lost: Any) -> None:
    """An answer that is lost after the create leaves a doubt, not a second create."""
    offer = vast.offer()
    vast.on("PUT", ASK, lost, MADE)
    with pytest.raises(Doubtful):
        vast.rent(offer)
    assert len(vast.asked("PUT")) == 1


def test_d_018_the_create_asks_to_be_cancelled_and_a_stopped_machine_shows(vast: Any) -> None:
    """The cancel flag is sent; a market that ignores it gives a machine that is told as stopped."""
    vast.on("PUT", ASK, MADE)
    machine = vast.rent(vast.offer())
    assert vast.asked("PUT")[0].body["cancel_unavail"] is True
    rows = [vast.instance(actual_status=a, intended_status="stopped") for a in (None, "stopped")]
    vast.on("GET", "/api/v0/instances/7001001/", *({"instances": r} for r in rows))
    for _ in rows:
        assert vast.driver.gipper_describe(machine.id).state is MachineState.STOPPED


def test_d_019_a_malformed_request_is_refused_with_the_markets_text(vast: Any) -> None:
    """A refused request names the text; `env` is an object, not text."""
    offer = vast.offer()
    vast.on("PUT", ASK, (400, {"error": "invalid env"}))
    with pytest.raises(Refused, match="invalid env") as raised:
        vast.rent(offer)
    assert raised.value.kind == "request"
    assert isinstance(vast.asked("PUT")[0].body["env"], dict)


def test_d_022_not_enough_credit_is_the_accounts_fault(vast: Any) -> None:
    """A create for want of balance is refused for the account, once."""
    offer = vast.offer()
    vast.on("PUT", ASK, (400, {"msg": "insufficient funds"}))
    with pytest.raises(Refused) as raised:
        vast.rent(offer)
    assert raised.value.kind == "account" and len(vast.asked("PUT")) == 1


def test_an_error_that_made_a_machine_keeps_its_id_and_dooms_it(vast: Any) -> None:
    """A bid under the going price leaves a machine: it is returned, and every look at it says to end it."""
    offer = vast.offer()
    vast.on(
        "PUT", ASK, (400, {"success": False, "error": "bid_too_low", "msg": "bid too low", "new_contract": 9})
    )
    machine = vast.rent(offer)
    assert (machine.id, machine.state) == ("9", MachineState.ERROR)
    vast.on("GET", "/api/v0/instances/9/", {"instances": vast.instance(9)})
    seen = vast.driver.gipper_describe("9")
    assert seen.state is MachineState.ERROR and "bid too low" in seen.fault
    assert vast.driver.gipper_diagnose("9").fault == "account"


def test_a_dearer_or_taken_offer_is_not_asked_for(vast: Any) -> None:
    """The offer is looked at once more, by its ask's number: dearer, taken or absent means gone."""
    offer = vast.offer()
    for row in (vast.row(dph_total=0.36), vast.row(rented=True), None):
        vast.searches([row] if row else [])
        with pytest.raises(OfferGone):
            vast.rent(offer)
    assert vast.asked("POST")[-1].body["ask_contract_id"] == {"eq": 5000101}
    assert not vast.asked("PUT")


def test_a_look_that_fails_does_not_stop_the_rent(vast: Any) -> None:
    """A search quota that is used up is no reason not to rent: core compares the price afterwards."""
    offer = vast.offer()
    vast.searches((429, {"error": "search_quota_exceeded"}))
    vast.on("PUT", ASK, MADE)
    assert vast.rent(offer).id == "7001001"


def test_after_too_often_the_next_create_waits_for_the_penalty(vast: Any) -> None:
    """The market adds 12 s to the wait of a refused create, and so do we."""
    offer = vast.offer()
    vast.on("PUT", ASK, (429, "API requests too frequent"), MADE)
    with pytest.raises(NoCapacity):
        vast.rent(offer)
    vast.rent(offer)
    first, second = vast.asked("PUT")
    assert second.at - first.at >= 12


@pytest.mark.parametrize("changes", [{"env": {"-x": "1"}}, {"env": {"a": "x" * 40000}}, {"ports": "many"}])
def test_what_the_market_would_refuse_is_refused_here(vast: Any, changes: Any) -> None:
    """Too many ports, odd names and too much env are told before anything is asked."""
    from gipper.api import Port

    offer = vast.offer()
    if changes.get("ports"):
        changes = {"ports": tuple(Port(inside=n) for n in range(1000, 1070))}
    with pytest.raises(Refused) as raised:
        vast.rent(offer, **changes)
    assert raised.value.kind == "request" and not vast.asked("PUT")


def test_no_key_is_a_refusal(make_vast: Any) -> None:
    """Without a key nothing was created, and that is what the driver says."""
    vast = make_vast(key=None)
    with pytest.raises(Refused, match="not set") as raised:
        vast.rent(vast.offer())
    assert raised.value.kind == "account"


def test_the_key_is_in_its_header_and_nowhere_else(vast: Any) -> None:
    """No URL, body or other header of any request carries the key."""
    offer = vast.offer()
    vast.on("PUT", ASK, MADE)
    machine = vast.rent(offer)
    vast.on("GET", "/api/v0/instances/7001001/", {"instances": vast.instance()})
    vast.on("POST", "/api/v0/instances/7001001/ssh/", {"success": True})
    vast.on("DELETE", "/api/v0/instances/7001001/", {"success": True})
    vast.on("GET", "/api/v1/instances/", {"instances": [], "next_token": None})
    vast.on("GET", "/api/v0/charges/", {"results": [], "next_token": None})
    vast.on("GET", "/api/v0/users/current", {"credit": 1, "api_key": vast.KEY})
    driver = vast.driver
    driver.gipper_describe(machine.id)
    driver.gipper_authorize(machine, "ssh-ed25519 AAAA me")
    driver.gipper_terminate(machine.id)
    driver.gipper_list_ours()
    driver.gipper_billed(vast.START, vast.START)
    assert vast.KEY not in repr(driver.gipper_account())
    driver.gipper_check_key()
    assert len(vast.market.asked) >= 10
    for asked in vast.market.asked:
        others = {k: v for k, v in asked.headers.items() if k != "Authorization"}
        assert vast.KEY not in asked.url + asked.raw + json.dumps(others)
        assert asked.headers["Authorization"] == f"Bearer {vast.KEY}"
