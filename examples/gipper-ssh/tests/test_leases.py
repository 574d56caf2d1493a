"""Leases: exclusive, outliving their client, ending by the box's clock, and cleaned after."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from gipper_ssh import scripts
from support_box import Box, until
from support_client import NAME, OTHER, PUBLIC, RUN, client, offer, query, request

from gipper.api import Doubtful, Machine, MachineState, NoCapacity, OfferGone, ProviderError, Refused


def _job(box: Box, run: str = RUN) -> None:
    """What a run leaves on the box: its folder, processes in sessions of their own, a handed secret's file."""
    folder = box.home / "gipper" / run
    (folder / "work" / "locked").mkdir(parents=True)
    (folder / "work" / "locked" / "file").write_text("x")
    (folder / "work" / "locked").chmod(0)
    box.run(
        f"GIPPER_RUN_ID={run} setsid -f sh -c 'trap \"\" TERM HUP; sleep 600 & wait' </dev/null >/dev/null 2>&1"
    )
    until(lambda: len(box.processes(f"GIPPER_RUN_ID={run}")) == 2, "the job runs")


def _clean(box: Box, run: str = RUN) -> None:
    assert box.processes(f"GIPPER_RUN_ID={run}") == []
    assert not (box.home / "gipper").exists()
    assert not box.lease.exists()
    assert box.authorized_keys.read_text().rstrip("\n") == f"# mine\n{box.owner}"
    assert box.authorized_keys.stat().st_mode & 0o777 == 0o640
    assert box.alive()


def test_rent_describe_list_end(box: Box, tmp_path: Path) -> None:
    """A lease is a machine under its name until it is ended; then the box is as before, and free."""
    me = client(tmp_path / "me", box.entry())
    machine = me.gipper_rent(offer(), request())
    assert (machine.id, machine.name) == (f"tower.{NAME}", NAME)
    assert machine.state is MachineState.RUNNING
    assert str(machine.addresses[0]) == f"127.0.0.1:{box.port}"
    assert machine.host_key == " ".join(box.host_key.with_suffix(".pub").read_text().split()[:2])
    assert f"\n{PUBLIC} {NAME}\n" in box.authorized_keys.read_text()
    assert me.gipper_describe(machine.id) == machine
    assert list(me.gipper_list_ours()) == [machine]
    _job(box)
    me.gipper_terminate(machine.id)
    _clean(box)
    me.gipper_terminate(machine.id)
    assert me.gipper_describe(machine.id) is None
    assert list(me.gipper_list_ours()) == []
    assert [o.id for o in me.gipper_list_offers(query())] == ["tower"]


def test_eight_clients_race(box: Box, tmp_path: Path) -> None:
    """Of eight clients at once exactly one gets the box, the others hear that it is gone."""
    names = [f"gipper-aaaa{n}-{RUN}-1-0t1xyz" for n in range(8)]
    clients = [client(tmp_path / f"c{n}", box.entry()) for n in range(8)]

    def rent(n: int) -> Machine | None:
        try:
            return clients[n].gipper_rent(offer(), request(names[n]))
        except OfferGone:
            return None

    with ThreadPoolExecutor(8) as pool:
        got = [machine for machine in pool.map(rent, range(8)) if machine is not None]
    assert len(got) == 1
    listings = [list(c.gipper_list_ours()) for c in clients]
    assert listings == [got] * 8
    assert box.authorized_keys.read_text().count(PUBLIC) == 1


def test_a_leased_box_is_no_offer(box: Box, tmp_path: Path) -> None:
    """Others see no offer but a note whose it is; a second rent is refused, the lease untouched."""
    client(tmp_path / "me", box.entry()).gipper_rent(offer(), request())
    before = box.lease.read_text()
    other = client(tmp_path / "other", box.entry())
    listing = other.gipper_list_offers(query())
    assert len(listing) == 0
    assert any(NAME in note and "leased" in note for note in listing.notes)
    with pytest.raises(OfferGone, match=NAME):
        other.gipper_rent(offer(), request(OTHER))
    other.gipper_terminate(f"tower.{OTHER}")
    assert box.lease.read_text() == before


@pytest.mark.parametrize("how", ["its time is over", "the box was restarted since"])
def test_a_stale_lease_is_cleaned_and_taken(box: Box, tmp_path: Path, how: str) -> None:
    """Whoever comes after a lease's time ends its processes, removes what it left, and has the box."""
    gone = client(tmp_path / "gone", box.entry())
    gone.gipper_rent(offer(), request())
    _job(box)
    if how == "its time is over":
        box.shift(end="1")
    else:
        box.shift(boot="another", wall="1")
    assert len(gone.gipper_list_ours()) == 1
    other = client(tmp_path / "other", box.entry())
    assert [o.id for o in other.gipper_list_offers(query())] == ["tower"]
    machine = other.gipper_rent(offer(), request(OTHER))
    assert [m.id for m in gone.gipper_list_ours()] == [machine.id]
    assert NAME not in box.authorized_keys.read_text()
    other.gipper_terminate(machine.id)
    _clean(box)


def test_a_lease_ends_by_the_boxs_own_clock(box: Box, tmp_path: Path) -> None:
    """A lease of two seconds is held for others until they are over, then it is to be had."""
    client(tmp_path / "me", box.entry()).gipper_rent(offer(), request(seconds=2))
    other = client(tmp_path / "other", box.entry())

    def rented() -> Machine | None:
        try:
            return other.gipper_rent(offer(), request(OTHER))
        except OfferGone as gone:
            assert NAME in gone.message
            return None

    assert rented() is None
    assert until(rented, "the box is to be had").name == OTHER


def test_a_wrong_clock_makes_no_lease_longer(box: Box, tmp_path: Path) -> None:
    """After a restart a wall clock far back leaves no more than the lease's whole length."""
    me = client(tmp_path / "me", box.entry())
    me.gipper_rent(offer(), request(seconds=100))
    box.shift(boot="another", wall="9999999999")
    note = " ".join(client(tmp_path / "other", box.entry()).gipper_list_offers(query()).notes)
    up = float(Path("/proc/uptime").read_text().split()[0])
    assert ("leased" in note) == (up < 100), note


def test_d_lost_answer_is_doubtful_and_found(box: Box, tmp_path: Path) -> None:
    """A rent whose answer is lost is in doubt, and the listing afterwards shows the lease."""
    me = client(tmp_path / "me", box.entry())
    # The session dies as soon as the lease is there: the key is added right after it.
    (box.home / ".ssh" / "authorized_keys").rename(box.folder / "keys")
    (box.home / ".ssh" / "authorized_keys").symlink_to(box.folder / "keys")
    (box.bin / "tail").write_text("#!/bin/sh\nkill -9 $PPID\n")
    (box.bin / "tail").chmod(0o755)
    with pytest.raises(Doubtful, match="broke off"):
        me.gipper_rent(offer(), request())
    assert [m.name for m in me.gipper_list_ours()] == [NAME]
    me.gipper_terminate(f"tower.{NAME}")
    assert list(me.gipper_list_ours()) == []
    assert box.authorized_keys.is_symlink()


def test_a_rent_that_comes_late_does_nothing(box: Box, tmp_path: Path) -> None:
    """A script that was stuck on its way until its time was over takes no lease."""
    lease = scripts.Lease(
        name=NAME, box="tower", token="t", life_s=60, key=f"{PUBLIC} {NAME}", created="", usd_h="0"
    )
    script = scripts.rent(lease, hello_s=-100.0)
    done = subprocess.run(
        ["sh"],
        input=script.encode(),
        capture_output=True,
        check=False,
        env={"HOME": str(box.home), "PATH": "/usr/bin:/bin"},
    )
    assert b"@gipper gone it took too long" in done.stdout
    assert not box.lease.exists()


def test_a_script_cut_off_does_nothing(box: Box) -> None:
    """Of a script that arrives in part, no part acts."""
    lease = scripts.Lease(
        name=NAME, box="tower", token="t", life_s=60, key=f"{PUBLIC} {NAME}", created="", usd_h="0"
    )
    script = scripts.rent(lease, hello_s=1e9)
    env = {"HOME": str(box.home), "PATH": "/usr/bin:/bin"}
    subprocess.run(["sh"], input=script[:-30].encode(), capture_output=True, check=False, env=env)
    assert not (box.home / ".gipper-ssh").exists()


def test_unreachable_box(box: Box, tmp_path: Path) -> None:
    """Never leased: skipped with a note, and a rent says that nothing was created. Leased: the list fails."""
    me, other = (client(tmp_path / who, box.entry()) for who in ("me", "other"))
    machine = me.gipper_rent(offer(), request())
    box.stop()
    with pytest.raises(ProviderError, match="tower"):
        me.gipper_list_ours()
    with pytest.raises(ProviderError):
        me.gipper_describe(machine.id)
    with pytest.raises(ProviderError):
        me.gipper_terminate(machine.id)
    listing = other.gipper_list_ours()
    assert list(listing) == [] and "tower" in listing.notes[0]
    assert "tower" in other.gipper_list_offers(query()).notes[0]
    with pytest.raises(NoCapacity):
        other.gipper_rent(offer(), request(OTHER))
    assert list(other.gipper_list_ours()) == []
    box.start()
    me.gipper_terminate(machine.id)
    assert list(me.gipper_list_ours()) == []
    box.stop()
    assert list(me.gipper_list_ours()) == []


def test_a_box_taken_out_of_the_inventory_still_owes(box: Box, tmp_path: Path) -> None:
    """A lease isn't forgotten with the box's entry: the list fails until the box is back."""
    machine = client(tmp_path / "me", box.entry()).gipper_rent(offer(), request())
    for entries in ((), (box.entry(name="other", address="localhost"),)):
        with pytest.raises(ProviderError, match="tower"):
            client(tmp_path / "me", *entries).gipper_list_ours()
    client(tmp_path / "me", box.entry()).gipper_terminate(machine.id)


def test_one_box_twice_in_the_inventory(box: Box, tmp_path: Path) -> None:
    """A box under two addresses shows its lease once, under the name that it was taken by."""
    me = client(tmp_path / "me", box.entry(name="alias", address="localhost"), box.entry())
    machine = me.gipper_rent(offer(), request())
    assert list(me.gipper_list_ours()) == [machine]


def test_what_isnt_the_leases_own_is_left(box: Box, tmp_path: Path) -> None:
    """Ending a lease leaves other runs, other keys, another watchdog, other processes and the rest alone."""
    me = client(tmp_path / "me", box.entry())
    machine = me.gipper_rent(offer(), request())
    other = box.home / "gipper" / "9876543210"
    other.mkdir(parents=True)
    watchdog = box.home / ".gipper-watchdog"
    watchdog.mkdir()
    (watchdog / "name").write_text(OTHER + "\n")
    with box.authorized_keys.open("a") as file:
        file.write(f"{PUBLIC} mine too\n")
    box.run("GIPPER_RUN_ID=9876543210 setsid -f sleep 600 </dev/null >/dev/null 2>&1")
    me.gipper_terminate(machine.id)
    assert other.exists() and (watchdog / "name").exists()
    assert f"{PUBLIC} mine too" in box.authorized_keys.read_text()
    assert len(box.processes("GIPPER_RUN_ID=9876543210")) == 1
    assert box.alive()


def test_the_watchdogs_command_frees_the_box(box: Box, tmp_path: Path) -> None:
    """Run on the box, it does what ending the lease does; run again, nothing."""
    me = client(tmp_path / "me", box.entry())
    machine = me.gipper_rent(offer(), request())
    _job(box)
    watchdog = me.gipper_watchdog(machine)
    assert watchdog is not None
    assert box.run(watchdog.command).returncode == 0
    _clean(box)
    assert box.run(watchdog.command).returncode == 0
    assert list(me.gipper_list_ours()) == []


def test_no_place_for_the_key(box: Box, tmp_path: Path) -> None:
    """Where the job's key can't be put on the box, the rent is refused and leaves nothing."""
    me = client(tmp_path / "me", box.entry())
    (box.bin / "cp").write_text("#!/bin/sh\nexit 1\n")
    (box.bin / "cp").chmod(0o755)
    with pytest.raises(Refused) as refused:
        me.gipper_rent(offer(), request())
    assert refused.value.kind == "offer"
    _clean(box)


@pytest.mark.parametrize(
    "lease", ["", "garbage\n", f"name={NAME}\nlife=x\nend=1\nwall=1\nboot=x\n", "name=gipper-a-../..-1-b\n"]
)
def test_a_damaged_lease_is_told_and_left(box: Box, tmp_path: Path, lease: str) -> None:
    """Nobody takes or cleans a box whose lease makes no sense; its owner is told."""
    me = client(tmp_path / "me", box.entry())
    machine = me.gipper_rent(offer(), request())
    box.lease.write_text(lease)
    assert "lease" in me.gipper_list_offers(query()).notes[0]
    with pytest.raises(OfferGone, match="lease"):
        me.gipper_rent(offer(), request(OTHER))
    for ask in (
        me.gipper_list_ours,
        lambda: me.gipper_describe(machine.id),
        lambda: me.gipper_terminate(machine.id),
    ):
        with pytest.raises(ProviderError, match="lease"):
            ask()
    assert box.lease.read_text() == lease


@pytest.mark.parametrize(
    "changes",
    [{"public_key": "nonsense"}, {"public_key": PUBLIC.replace("ed25519 ", "rsa ")}, {"name": "my box"}],
)
def test_requests_that_no_box_takes(tmp_path: Path, box: Box, changes: dict[str, Any]) -> None:
    """A key that is none and a name that gipper never gives are refused before any box is asked."""
    with pytest.raises(Refused) as refused:
        client(tmp_path / "me", box.entry()).gipper_rent(offer(), request(**changes))
    assert refused.value.kind == "request"
    assert not (box.home / ".gipper-ssh").exists()
