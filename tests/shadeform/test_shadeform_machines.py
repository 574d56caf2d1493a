"""Machines: states and their limits, addresses, ports, lists, endings, and what is no proof of anything."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import attrs
import pytest
from emulators import faults
from emulators.shadeform.catalog import kind, spot
from gipper_shadeform.instances import machine_of, price_of
from gipper_shadeform.status import build_limit_s, diagnosis, status_of
from hypothesis import given
from hypothesis import strategies as st
from support_bench import START, Bench

from gipper.api import Machine, MachineState, Port, ProviderError
from gipper.lifecycle.proof import Proof
from gipper.plugins.answers import elsewhere

Make = Callable[..., Bench]
UNKNOWN = "d290f1ee-6c54-4b01-90e6-d701748f0851"


def test_a_life_in_simulated_time(bench: Make) -> None:
    """Offered, rented, built, set up, running, listed, deleted, proved gone."""
    b = bench(deleting_s=100)
    machine = b.rent(ports=(Port(inside=8000), Port(inside=5004, protocol="udp")))
    states = []
    for _ in range(12):
        found = b.described(machine.id)
        states.append(found.state.value)
        assert bool(found.addresses) == (b.sim.now() - START >= timedelta(seconds=92))
        b.sim.sleep(10)
    assert list(dict.fromkeys(states)) == ["pending", "starting", "running"]
    assert [(a.host, a.port) for a in found.addresses] == [("8.8.4.4", 22)]
    assert [(p.inside, p.protocol, p.outside, p.host) for p in found.ports] == [
        (8000, "tcp", 8000, "8.8.4.4"), (5004, "udp", 5004, "8.8.4.4")
    ]  # fmt: skip
    assert found.host_id == "massedcompute/desmoines-usa-1" and found.user == "shadeform"
    assert found.created == START and found.disk_gb is None
    assert [m.id for m in b.provider.list_ours()] == [machine.id]
    asked = b.sim.now()
    assert isinstance(b.end(machine), Proof)
    # It bills until its deletion begins, however long that takes.
    (made,) = b.market.instances.values()
    assert made.deleting is not None and made.deleting - asked < timedelta(seconds=1)
    assert b.market.metered(made) == Decimal("0.5") * (made.deleting - made.active).seconds / 3600  # type: ignore[operator]
    assert b.app.leaks == []


@pytest.mark.parametrize("stuck", ["creating", "pending_provider", "pending"])
def test_a_state_that_lasts_too_long(bench: Make, stuck: str) -> None:
    """Each slow state has a limit of its own, told when it is reached, long before the ready limit or not."""
    b = bench(stuck=stuck)
    machine = b.rent()
    limit = {"creating": 600, "pending_provider": 900, "pending": 1200}[stuck]
    b.described(machine.id)
    b.sim.sleep(limit - 1)
    assert b.described(machine.id).state is not MachineState.ERROR
    b.sim.sleep(1)
    found = b.described(machine.id)
    assert found.state is MachineState.ERROR and f"{stuck} for {limit} s" in (found.fault or "")


def test_a_cloud_that_is_slow_by_its_own_word() -> None:
    """Twice the longest boot that the market tells, at least 15 and at most 40 minutes."""
    told = [{}, {"boot_time": None}, {"boot_time": {"min_boot_in_sec": 9}}, *({"boot_time": {"max_boot_in_sec": s}} for s in (300, 800, 9000))]  # fmt: skip
    assert [build_limit_s(row) for row in told] == [900, 900, 900, 900, 1600, 2400]


def test_d_025_d_026_active_is_not_ready(bench: Make) -> None:
    """Active without an address is waited for, five minutes; a private address or a broken one is none."""
    b = bench(address_s=10_000)
    machine = b.rent()
    b.sim.sleep(100)
    assert b.described(machine.id).state is MachineState.RUNNING and b.described(machine.id).addresses == ()
    b.sim.sleep(299)
    assert b.described(machine.id).state is MachineState.RUNNING
    b.sim.sleep(1)
    assert "without an address" in (b.described(machine.id).fault or "")
    for ip in (
        None,
        "",
        "null",
        "10.0.0.1",
        "127.0.0.1",
        "localhost",
        "a b.example.org",
        7,
        {},
        "0.0.0.0",
        "-x.example.org",
    ):
        assert machine_of({"status": "active", "ip": ip}, "x", here=False).addresses == ()


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"ip": "8.8.4.4\n"}, [("8.8.4.4", 22)]),
        ({"ip": "8.8.4.4", "ssh_port": None}, [("8.8.4.4", 22)]),
        ({"ip": "8.8.4.4", "ssh_port": 2222}, [("8.8.4.4", 2222)]),
        ({"ip": "8.8.4.4", "ssh_port": "2222"}, [("8.8.4.4", 2222)]),
        ({"ip": "8.8.4.4", "ssh_port": 0}, [("8.8.4.4", 22)]),
        ({"ip": "8.8.4.4", "port_mappings": [{"internal_port": 22, "external_port": 40122}]}, [("8.8.4.4", 40122)]),
        ({"ip": "8.8.4.4", "ssh_port": 22, "port_mappings": [{"internal_port": 22, "external_port": 40122}]},
         [("8.8.4.4", 22), ("8.8.4.4", 40122)]),
        ({"ip": "Vm1.Cloud.example.org"}, [("vm1.cloud.example.org", 22)]),
        ({"ip": "[2001:4860:4860::8888]"}, [("2001:4860:4860::8888", 22)]),
    ],
)  # fmt: skip
def test_d_029_d_034_which_host_and_port(row: dict[str, Any], expected: list[tuple[str, int]]) -> None:
    """A name or an IP; the port that is told, the gateway's, else 22: null doesn't mean that there is none."""
    found = machine_of({"status": "active", **row}, "x", here=False)
    assert [(a.host, a.port) for a in found.addresses] == expected


def test_ports_behind_a_gateway(bench: Make) -> None:
    """Where ports are mapped, the outside is what the gateway says, and one that it doesn't map has none."""
    b = bench(port_mappings={22: 40122, 8000: 48000})
    machine = b.rent(ports=(Port(inside=8000), Port(inside=9000)))
    b.sim.sleep(100)
    found = b.described(machine.id)
    assert [(p.inside, p.outside, p.host) for p in found.ports] == [
        (8000, 48000, "8.8.4.4"),
        (9000, None, None),
    ]
    assert [a.port for a in found.addresses] == [40122]


@pytest.mark.parametrize(
    ("told", "user"),
    [("hotaisle", "hotaisle"), ("", None), ("root; rm -rf /", None), ("-oProxyCommand=x", None)],
)
def test_who_logs_in(told: str, user: str | None) -> None:
    """The machine's own word, where it is a user's name."""
    assert machine_of({"status": "active", "ssh_user": told}, "x", here=False).user == user


@pytest.mark.parametrize(
    ("row", "usd_h"),
    [
        ({"hourly_price": 57}, "0.57"),
        ({"hourly_price": 57, "rental_terms": {"rental_type": "on_demand", "hourly_price": "0.6"}}, "0.6"),
        ({"hourly_price": 57, "rental_terms": {"rental_type": "spot", "hourly_price": "0.3"}}, "0.3"),
        ({"hourly_price": 57, "rental_terms": {"rental_type": "spot"}}, None),
        ({"hourly_price": 0}, None),
        ({"hourly_price": None, "rental_terms": None}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_d_073_what_it_costs(row: dict[str, Any], usd_h: str | None) -> None:
    """Cents beside dollars; the type's price says nothing of spot; 0 and null are "not said"."""
    assert price_of(row) == (None if usd_h is None else Decimal(usd_h))


def test_d_027_an_error_after_the_create(bench: Make) -> None:
    """Its row stays until it is deleted; told at once, with the market's text, against the host."""
    b = bench(late_error="Provider returned: boot disk is broken")
    machine = b.rent()
    b.sim.sleep(100)
    found = b.described(machine.id)
    assert found.state is MachineState.ERROR and "boot disk is broken" in (found.fault or "")
    told = b.provider.diagnose(machine.id)
    assert told is not None and told.fault == "host" and "boot disk" in told.text
    assert isinstance(b.end(machine), Proof)


@pytest.mark.parametrize("text", ["Out of stock", "OUT_OF_STOCK: none left"])
def test_d_018_sold_out_after_it_was_accepted(bench: Make, text: str) -> None:
    """Told as stopped, which is the next offer, and nobody is blamed."""
    b = bench(late_error=text)
    machine = b.rent()
    b.sim.sleep(100)
    assert b.described(machine.id).state is MachineState.STOPPED
    told = b.provider.diagnose(machine.id)
    assert told is not None and told.fault == "account"


@pytest.mark.parametrize("text", ["Insufficient funds", "quota exceeded for this account"])
def test_an_error_about_the_account_blames_no_host(bench: Make, text: str) -> None:
    """Money and limits are not the cloud's fault."""
    b = bench(late_error=text)
    machine = b.rent()
    b.sim.sleep(100)
    told = b.provider.diagnose(machine.id)
    assert told is not None and told.fault == "account"


def test_a_spot_machine_that_is_taken_back(bench: Make) -> None:
    """Deleting without our asking: over for the run that works on it, and nobody's fault."""
    b = bench(kind("nebius", "L4", places=[spot("oslo-norway-1", "0.2")]), deleting_s=60)
    machine = b.provider.rent(b.offers(spot=True)[0], b.request())
    b.sim.sleep(100)
    b.market.preempt(b.market.alive()[0])
    found = b.described(machine.id)
    assert found.state is MachineState.STOPPED and "preempted" in (found.fault or "")
    assert b.provider.diagnose(machine.id) is not None
    b.sim.sleep(60)
    assert b.provider.describe(machine.id) is None


def test_an_on_demand_machine_that_is_taken_away(bench: Make) -> None:
    """As one cloud was seen to do: told as over, and not by us; one that we end is told as ending."""
    b = bench(deleting_s=60)
    taken, ended = b.rent("gipper-1"), b.rent("gipper-2")
    b.market.over(b.market.instances[taken.id], b.sim.now())
    b.provider.terminate(ended.id)
    found = b.described(taken.id)
    assert found.state is MachineState.STOPPED and "not by this gipper" in (found.fault or "")
    assert b.described(ended.id).state is MachineState.STOPPING
    assert {m.state for m in b.provider.list_ours()} == {MachineState.STOPPING}


@pytest.mark.parametrize("shown", [True, False])
def test_after_the_deletion(bench: Make, shown: bool) -> None:
    """404, or 200 with "deleted": gone both ways, and no longer in the list."""
    b = bench(deleted_shown=shown)
    machine = b.rent()
    b.provider.terminate(machine.id)
    found = b.provider.describe(machine.id)
    assert (found.state if found else None) == (MachineState.GONE if shown else None)
    assert b.provider.list_ours().items == ()
    b.provider.terminate(machine.id)


def test_d_023_the_list_lags(bench: Make) -> None:
    """A new machine is read at once and listed later, within what the market promises to core."""
    b = bench(appear_s=60)
    machine = b.rent()
    assert b.described(machine.id).state is MachineState.PENDING and b.provider.list_ours().items == ()
    b.sim.sleep(60)
    assert [m.id for m in b.provider.list_ours()] == [machine.id]
    assert b.provider.info.appear_s is not None and b.provider.info.appear_s >= 60


def test_d_068_a_list_that_failed_is_not_empty(bench: Make) -> None:
    """Errors, pages, wrong shapes and rows without an id are errors; tags may be null."""
    b = bench()
    machine = b.rent()
    row = {"id": machine.id, "name": "n", "status": "active", "tags": None}
    for body in ({"instances": None}, {}, {"instances": {}}, {"instances": [row, {"name": "x"}]}, {"instances": [row, 7]},
                 {"error": "x"}, []):  # fmt: skip
        b.app.faults.script("list", faults.status(200, body))
        with pytest.raises(ProviderError):
            b.provider.list_ours()
    for status in (401, 403, 404, 500):
        b.app.faults.script("list", faults.status(status, {"message": "x"}))
        with pytest.raises(ProviderError):
            b.provider.list_ours()
    b.app.faults.script("list", faults.status(200, {"instances": [row]}))
    assert [m.id for m in b.provider.list_ours()] == [machine.id]


def test_d_068_verification_waits_for_a_list_that_answers(bench: Make) -> None:
    """500, 500, 500, then the machine still there: nothing is proved before two lists lack it."""
    b = bench(deleting_s=200)
    machine = b.rent()
    b.sim.sleep(150)
    b.app.faults.script("list", *(faults.status(500, "x") for _ in range(3)))
    began = b.sim.now()
    assert isinstance(b.end(machine), Proof)
    assert b.sim.now() - began >= timedelta(seconds=200)


def test_d_064_delete_and_list_are_refused(bench: Make) -> None:
    """Nothing is taken as gone while the market refuses to say so."""
    b = bench()
    machine = b.rent()
    b.sim.sleep(130)
    for endpoint in ("destroy", "list", "read"):
        b.app.faults.always(endpoint, faults.status(401, {"message": "Invalid API key"}))
    assert b.end(machine) is None and len(b.market.alive()) == 1
    b.app.faults.mend()
    assert isinstance(b.end(machine), Proof)


def test_d_066_somebody_deleted_it_already(bench: Make) -> None:
    """404 to a delete is fine, and so is an id that can't be one."""
    b = bench()
    machine = b.rent()
    b.market.vanish(b.market.alive()[0])
    assert isinstance(b.end(machine), Proof)
    for odd in (UNKNOWN, "../instances", "a/b", "", "x" * 65):
        b.provider.terminate(odd)
        assert b.provider.describe(odd) is None
    assert {s.path for s in b.app.seen("destroy")} <= {
        f"/v1/instances/{i}/delete" for i in (machine.id, UNKNOWN)
    }


def test_a_machine_of_another_account_is_not_gone(bench: Make) -> None:
    """403 is an error to every question: the key may have been changed, and the machine bills on."""
    b = bench()
    machine = b.rent()
    b.market.strangers.add(machine.id)
    for ask in (b.provider.describe, b.provider.terminate):
        with pytest.raises(ProviderError, match="not for this key"):
            ask(machine.id)


def test_a_gateway_s_404_is_not_gone(bench: Make) -> None:
    """A web page that says 404 is not the market's word."""
    b = bench()
    machine = b.rent()
    for endpoint in ("read", "destroy"):
        b.app.faults.always(endpoint, faults.status(404, "<html>404</html>"))
    for ask in (b.provider.describe, b.provider.terminate):
        with pytest.raises(ProviderError, match="404"):
            ask(machine.id)


def test_a_delete_that_must_wait(bench: Make) -> None:
    """Refused until active at some clouds: an error, so that core asks again, and in the end it is gone."""
    b = bench(delete_needs_active=True)
    machine = b.rent()
    with pytest.raises(ProviderError, match="once it is active"):
        b.provider.terminate(machine.id)
    assert isinstance(b.end(machine), Proof)


def test_a_delete_that_takes_a_quarter_of_an_hour(bench: Make) -> None:
    """Within the market's patience it is proved; meanwhile nothing claims that it is gone."""
    b = bench(deleting_s=900)
    machine = b.rent()
    b.sim.sleep(130)
    began = b.sim.now()
    assert isinstance(b.end(machine), Proof)
    assert b.sim.now() - began >= timedelta(seconds=900)


def test_told_to_slow_down_while_ending(bench: Make) -> None:
    """The delete waits as it is told and is sent again; a success without a body is one."""
    b = bench()
    machine = b.rent()
    b.app.faults.script("destroy", faults.status(429, "slow down", Retry_After="7"))
    before = b.sim.monotonic()
    b.provider.terminate(machine.id)
    assert b.sim.monotonic() - before >= 7 and b.market.alive() == []


def test_d_070_never_stopped_or_restarted(bench: Make) -> None:
    """The market has no stop, and a restart ends nothing: neither is ever sent."""
    b = bench()
    b.end(b.rent())
    assert {s.endpoint for s in b.app.requests} == {
        "types",
        "keys",
        "add_key",
        "create",
        "read",
        "list",
        "destroy",
    }


def test_d_071_other_people_s_machines(bench: Make) -> None:
    """Listed under their own names, so that core goes by them; ending ours ends no other."""
    b = bench()
    theirs, mine = b.rent("colleague"), b.rent()
    b.market.instances[theirs.id].body = {**b.market.instances[theirs.id].body, "tags": None}
    assert {m.name for m in b.provider.list_ours()} == {"colleague", mine.name}
    b.end(mine)
    assert [i.id for i in b.market.alive()] == [theirs.id]


def test_neither_account_nor_bills(bench: Make) -> None:
    """The market tells of neither: unknown, never 0, and nothing is asked."""
    b = bench()
    assert b.provider.account() is None and b.provider.billed(START, START) is None
    assert not b.provider.implements("gipper_account") and not b.provider.implements("gipper_billed")
    assert b.app.requests == []


def test_the_cost_estimate_lags(bench: Make) -> None:
    """The market's own figure stands still for a minute at a time: nothing here goes by it."""
    b = bench()
    machine = b.rent()
    b.sim.sleep(92 + 59)
    made = b.market.instances[machine.id]
    assert _estimate(b, machine) == "0" and b.market.metered(made) > 0
    b.sim.sleep(30)
    assert Decimal(_estimate(b, machine)) == Decimal("0.0083") and b.described(machine.id).usd_h == Decimal(
        "0.5"
    )


def test_a_wrong_key_is_told_by_every_verb(bench: Make) -> None:
    """Refused as a key, never as an empty list or a machine that is gone."""
    b = bench(key="sf_ANOTHER0123456789")
    asks: tuple[Callable[[], Any], ...] = (
        b.offers, b.provider.list_ours, lambda: b.provider.describe(UNKNOWN), lambda: b.provider.terminate(UNKNOWN),
    )  # fmt: skip
    for ask in asks:
        with pytest.raises(ProviderError, match="key was not accepted"):
            ask()
    check = b.provider.check_key()
    assert check is not None and not check.ok and "not accepted" in (check.problem or "")
    good = bench().provider.check_key()
    assert good is not None and good.ok


def test_a_state_that_nobody_knows() -> None:
    """Unknown, and no fault: polling goes on."""
    for word in ("hibernating", None, 7, "", "ACTIVE "):
        status = status_of({"status": word})
        expected = MachineState.RUNNING if word == "ACTIVE " else MachineState.UNKNOWN
        assert (status.state, status.fault) == (expected, None)
    assert diagnosis({"status": "active", "status_details": "fine"}) is None


def test_the_watchdog_holds_no_key(bench: Make) -> None:
    """It powers off, by sudo where its user isn't root, and reads nothing."""
    b = bench()
    found = b.provider.watchdog(b.rent())
    assert found is not None and found.reads == ()
    assert "sudo -n" in found.command and "poweroff" in found.command and b.market.key not in found.command


def _estimate(b: Bench, machine: Machine) -> str:
    from emulators.shadeform.shapes import instance_row

    return str(instance_row(b.market.instances[machine.id], b.market, info=True)["cost_estimate"])


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8) | st.sampled_from(["active", "8.8.4.4", "spot"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
FIELDS = ("id", "name", "status", "status_details", "ip", "ssh_port", "ssh_user", "port_mappings", "tags", "hourly_price",
          "rental_terms", "created_at", "configuration", "boot_time", "cloud", "region")  # fmt: skip


@given(changed=st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=8))
def test_whatever_the_market_says_of_a_machine(changed: dict[str, Any]) -> None:
    """No JSON makes a machine that core would refuse, or raises."""
    machine = machine_of({"id": "x", "status": "active", "ip": "8.8.4.4", **changed}, "x", here=False)
    assert elsewhere(machine) == machine
    assert attrs.asdict(machine)["provider"] == "shadeform"
    diagnosis(changed)
    assert build_limit_s(changed) >= 900
