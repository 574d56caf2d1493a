"""Machines: status, addresses, lists, ends, logs."""

from __future__ import annotations

import itertools
import json
from decimal import Decimal
from typing import Any

import pytest

from gipper.api import Address, MachineState, Port, ProviderError

ONE = "/api/v0/instances/7001001/"
LIST = "/api/v1/instances/"
S = MachineState


def _seen(vast: Any, **changes: Any) -> Any:
    vast.on("GET", ONE, {"instances": vast.instance(**changes)})
    return vast.driver.gipper_describe("7001001")


def test_a_running_machine_is_told_whole(vast: Any) -> None:
    """Name, price, host, ports and both addresses come from one read."""
    machine = _seen(vast)
    assert (machine.state, machine.usd_h, machine.host_id) == (S.RUNNING, Decimal("0.30833"), "4242")
    assert machine.name.startswith("gipper-") and machine.created is not None
    assert machine.ports == (Port(inside=5004, protocol="udp", host="203.0.113.5", outside=41235),)
    assert (machine.gpu.name, machine.gpu_count, machine.disk_gb) == ("RTX 4090", 1, 40)


def test_d_029_the_direct_address_comes_first_and_the_proxy_is_what_it_says(vast: Any) -> None:
    """A line end is cut off, HostPort is used as text, no port is off by one; without ports, the proxy."""
    proxy = Address(host="ssh5.example", port=31000)
    assert _seen(vast, public_ipaddr="127.0.0.1\n").addresses == (
        Address(host="127.0.0.1", port=40122),
        proxy,
    )
    for ports in (None, ..., {}, [22], {"22/tcp": None}, {"22/tcp": []}, {"22/tcp": [{"HostPort": "x"}]}):
        assert _seen(vast, ports=ports).addresses == (proxy,)
    assert _seen(vast, public_ipaddr=None).addresses == (proxy,)
    assert _seen(vast, ssh_host="0.0.0.0; rm", ports=None).addresses == ()


def test_d_026_holes_in_the_description_are_no_crash(vast: Any) -> None:
    """A machine of which nothing is told yet is pending, without addresses."""
    vast.on("GET", ONE, {"instances": {"id": 7001001}})
    machine = vast.driver.gipper_describe("7001001")
    assert (machine.state, machine.name, machine.addresses, machine.usd_h) == (S.PENDING, "", (), None)
    assert _seen(vast, label=None, start_date=None).name == ""


CDI = "Error response from daemon: failed to inject CDI devices: unresolvable CDI devices"


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"actual_status": None}, S.PENDING),
        ({"actual_status": "created"}, S.STARTING),
        ({"actual_status": "loading", "status_msg": "a1b2: Downloading"}, S.STARTING),
        ({"actual_status": "loading", "status_msg": CDI}, S.STARTING),
        ({"actual_status": "created", "cur_state": "stopped", "status_msg": None}, S.STARTING),
        ({"actual_status": "created", "cur_state": "stopped", "status_msg": CDI}, S.ERROR),
        ({"actual_status": "loading", "cur_state": "stopped", "status_msg": CDI + " Retrying in 5 seconds"}, S.STARTING),
        ({"actual_status": "loading", "status_msg": "manifest unknown"}, S.ERROR),
        ({"actual_status": "running", "status_msg": CDI}, S.RUNNING),
        ({"actual_status": "running", "intended_status": "stopped"}, S.STOPPING),
        ({"actual_status": "stopped"}, S.STOPPED),
        ({"actual_status": "frozen"}, S.STOPPED),
        ({"actual_status": "exited"}, S.ERROR),
        ({"actual_status": "rebooting"}, S.STARTING),
        ({"actual_status": "offline"}, S.UNKNOWN),
        ({"actual_status": "hibernating"}, S.UNKNOWN),
        ({"cur_state": "unloaded"}, S.STOPPING),
        (dict.fromkeys(("cur_state", "next_state", "intended_status"), "stopped"), S.STOPPED),
    ],
)  # fmt: skip
def test_states(vast: Any, changes: dict[str, Any], state: MachineState) -> None:
    """Each combination that people met has its state; a new word is unknown, not a crash."""
    assert _seen(vast, **changes).state is state


def test_d_027_a_state_that_never_recovers_is_an_error_with_its_text(vast: Any) -> None:
    """A container that exited with an OCI error is told at once, and the host is at fault."""
    text = "OCI runtime create failed: x"
    rows = [vast.instance(actual_status=a, status_msg=text) for a in (None, "created", "loading", "exited")]
    vast.on("GET", ONE, *({"instances": r} for r in rows))
    states = [vast.driver.gipper_describe("7001001") for _ in rows]
    assert states[-1].state is S.ERROR and text in states[-1].fault
    diagnosis = vast.driver.gipper_diagnose("7001001")
    assert (diagnosis.fault, text in diagnosis.text) == ("host", True)


def test_a_host_silent_at_first_start_is_given_up_after_a_minute(vast: Any) -> None:
    """Offline is unknown for a while, then an error; for a machine that ran it stays unknown."""
    assert _seen(vast, actual_status="offline").state is S.UNKNOWN
    vast.clock.sleep(61)
    assert _seen(vast, actual_status="offline").state is S.ERROR
    assert _seen(vast).state is S.RUNNING
    vast.clock.sleep(300)
    assert _seen(vast, actual_status="offline").state is S.UNKNOWN
    vast.clock.sleep(300)
    assert _seen(vast, actual_status="offline").state is S.UNKNOWN


@pytest.mark.parametrize("spot", [False, True])
def test_a_machine_of_the_other_kind_is_an_error(vast: Any, spot: bool) -> None:
    """A bid where on demand was rented, or the reverse, is to be ended; unknown after a restart."""
    vast.searches([], [], [vast.row()]) if spot else vast.searches([vast.row()])
    (offer,) = vast.listed(spot=spot).items
    vast.on("PUT", "/api/v0/asks/5000101/", {"success": True, "new_contract": 7001001})
    assert _seen(vast, is_bid=not spot).state is S.RUNNING
    vast.rent(offer)
    assert _seen(vast, is_bid=spot).state is S.RUNNING
    assert _seen(vast, is_bid=None).state is S.RUNNING
    wrong = _seen(vast, is_bid=not spot)
    assert wrong.state is S.ERROR and "rented was" in wrong.fault


def test_d_065_null_is_gone_and_nothing_else_is(vast: Any) -> None:
    """`{"instances": null}` after a destroy means gone, quietly; a wrong key's 404 and garbage are errors."""
    vast.on("DELETE", ONE, {"success": True})
    vast.driver.gipper_terminate("7001001")
    vast.on("GET", ONE, {"instances": None})
    vast.on("GET", LIST, {"success": True, "instances": [], "total_instances": 0, "next_token": None})
    assert vast.driver.gipper_describe("7001001") is None
    assert vast.driver.gipper_list_ours().items == ()
    vast.on("GET", ONE, (404, {"error": "no_such_instance", "msg": "no_such_instance"}))
    assert vast.driver.gipper_describe("7001001") is None


@pytest.mark.parametrize(
    "answer",
    [
        (404, {"success": False, "error": "auth_error", "msg": "Invalid user key"}), (404, "not found"), (404, {}),
        (401, {"error": "auth_error"}), (403, "no"), (200, {}), (200, []), (200, "null"), (200, {"instances": {}}),
        (200, {"instances": []}), (200, {"instances": {"id": 5}}), (200, {"success": False, "msg": "x"}), (500, {}),
    ],
)  # fmt: skip
def test_what_is_not_the_markets_not_found_is_an_error(vast: Any, answer: Any) -> None:
    """No failure, page of a proxy or odd answer is ever taken for "gone"."""
    vast.on("GET", ONE, answer)
    with pytest.raises(ProviderError):
        vast.driver.gipper_describe("7001001")


def test_d_070_stopped_is_not_ended(vast: Any) -> None:
    """A container that exited is still a machine: described, listed, and ended by a DELETE."""
    assert _seen(vast, actual_status="exited").state is S.ERROR
    rows = [vast.instance(1, actual_status="exited"), vast.instance(2, actual_status="stopped")]
    vast.on("GET", LIST, {"instances": rows, "total_instances": 2, "next_token": None})
    assert [(m.id, m.state) for m in vast.driver.gipper_list_ours()] == [("1", S.ERROR), ("2", S.STOPPED)]
    vast.on("DELETE", ONE, {"success": True})
    vast.driver.gipper_terminate("7001001")
    assert len(vast.asked("DELETE", ONE)) == 1


def _pages(vast: Any, **more: Any) -> list[Any]:
    return [
        {"instances": [vast.instance(n) for n in range(25 * p + 1, min(25 * p + 26, 32))],
         "total_instances": 31, "next_token": "t1" if p == 0 else None, **more}
        for p in range(2)
    ]  # fmt: skip


def test_the_list_follows_every_page(vast: Any) -> None:
    """31 machines on two pages are 31 machines; foreign and nameless ones are among them."""
    vast.on("GET", LIST, *_pages(vast))
    assert len(vast.driver.gipper_list_ours()) == 31
    first, second = vast.asked("GET")
    assert second.query["after_token"] == "t1" and "after_token" not in first.query
    assert json.loads(first.query["order_by"]) == [{"col": "id", "dir": "asc"}]
    assert second.at - first.at >= 1


@pytest.mark.parametrize(
    "answers",
    [
        [{"instances": None, "next_token": None}], [{}], [[]], [(200, {"success": False, "instances": []})],
        [{"instances": [{"label": "x"}], "next_token": None}], [{"instances": ["x"], "next_token": None}],
        [{"instances": [], "total_instances": 3, "next_token": None}], [{"instances": [], "next_token": "t"}],
        [{"instances": [], "next_token": 7}], [(404, {"error": "auth_error"})], [(502, "x")], [(429, "too frequent")],
        [{"instances": [], "next_token": "t"}, (500, {})],
    ],
)  # fmt: skip
def test_a_list_that_is_not_whole_is_an_error(vast: Any, answers: list[Any]) -> None:
    """A page that fails, lacks its list, repeats, or shows fewer machines than there are raises."""
    vast.on("GET", LIST, *answers)
    with pytest.raises(ProviderError):
        vast.driver.gipper_list_ours()


def test_ending_one_that_is_gone_is_fine_and_a_bad_key_is_not(vast: Any) -> None:
    """Not found is success, a 404 of a wrong key raises, and so does a refusal under status 200."""
    vast.on("DELETE", ONE, (404, {"error": "no_such_instance"}))
    vast.driver.gipper_terminate("7001001")
    for answer in (
        (404, {"error": "auth_error"}),
        (200, {"success": False, "msg": "busy"}),
        (500, {}),
        (404, "x"),
    ):
        vast.on("DELETE", ONE, answer)
        with pytest.raises(ProviderError):
            vast.driver.gipper_terminate("7001001")


def test_ending_several_keeps_the_markets_pace_and_outlives_too_often(vast: Any) -> None:
    """Destroys go out at least 3 s apart; "too often" is waited for, a few times, and then told."""
    for n in (1, 2, 3):
        vast.on("DELETE", f"/api/v0/instances/{n}/", {"success": True})
        vast.driver.gipper_terminate(str(n))
    vast.on("DELETE", ONE, (429, "API requests too frequent"), {"success": True})
    vast.driver.gipper_terminate("7001001")
    times = [a.at for a in vast.asked("DELETE")]
    assert all(b - a >= 3 for a, b in itertools.pairwise(times))
    vast.on("DELETE", ONE, (429, "API requests too frequent"))
    with pytest.raises(ProviderError, match="too often"):
        vast.driver.gipper_terminate("7001001")


def test_ids_that_the_market_never_gave_reach_no_url(vast: Any) -> None:
    """What isn't a number is not there, and nothing is asked."""
    for odd in ("../users", "", "7?x=1", "abc"):
        assert vast.driver.gipper_describe(odd) is None
        vast.driver.gipper_terminate(odd)
    assert vast.market.asked == []


def test_letting_a_key_in_is_idempotent(vast: Any) -> None:
    """The key is attached through the market's list; one that is there already is fine."""
    machine = _seen(vast)
    vast.on("POST", f"{ONE}ssh/", {"success": True}, (400, {"msg": "key already attached"}), (500, {}))
    for _ in range(2):
        vast.driver.gipper_authorize(machine, "ssh-ed25519 AAAA me")
    assert vast.asked("POST")[0].body == {"ssh_key": "ssh-ed25519 AAAA me"}
    with pytest.raises(ProviderError):
        vast.driver.gipper_authorize(machine, "ssh-ed25519 AAAA me")


LOGS = "/api/v0/instances/request_logs/7001001/"
STORE = "https://store.example/log"


def test_the_log_is_waited_for_without_the_key_and_not_for_long(vast: Any) -> None:
    """The log's own host gets no key; a line that blames the image is told, others are not shown."""
    vast.on("GET", ONE, {"instances": vast.instance(status_msg="hm")})
    vast.on("PUT", LOGS, {"success": True, "result_url": STORE})
    log = "TOKEN=abc\n/run/sshd must be owned by root and not group or world-writable.\nbye TOKEN"
    vast.on("GET", "/log", (404, "x"), (403, "x"), (200, log))
    found = vast.driver.gipper_diagnose("7001001")
    assert found.fault == "image" and "TOKEN" not in found.text
    assert all("Authorization" not in a.headers for a in vast.asked("GET", "/log"))
    vast.on("GET", "/log", (404, "x"))
    before = vast.clock.time
    assert vast.driver.gipper_diagnose("7001001").text == "hm"
    assert vast.clock.time - before < 40


def test_a_log_that_cannot_be_had_leaves_the_status_text(vast: Any) -> None:
    """No failure of the log keeps a diagnosis from being told, and a vanished machine has none."""
    vast.on("GET", ONE, {"instances": vast.instance(status_msg="odd")})
    for answer in (
        (500, {}),
        (200, {"success": False}),
        (200, {"result_url": "http://127.0.0.1/x"}),
        (429, "x"),
    ):
        vast.on("PUT", LOGS, answer)
        assert vast.driver.gipper_diagnose("7001001").text == "odd"
    vast.on("GET", ONE, {"instances": None})
    assert vast.driver.gipper_diagnose("7001001") is None
