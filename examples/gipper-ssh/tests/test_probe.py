"""What a listing finds out about boxes, and which it leaves out."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from gipper_ssh.answers import facts
from gipper_ssh.talk import Answer, passed_on
from support_box import Box, key_pair
from support_client import NAME, client, offer, query, request

from gipper.api import GpuModel, ProviderError

CARDS = tuple(f"{n}, NVIDIA GeForce RTX 4090, 24564, 570.86.10, 8.9" for n in range(2))


def test_a_box_with_gpus(box: Box, tmp_path: Path) -> None:
    """The offer is what nvidia-smi, disk and memory say, at the inventory's price and place."""
    box.cards(*CARDS)
    listing = client(tmp_path / "me", box.entry(gpus=2, gpu="RTX 4090")).gipper_list_offers(
        query(gpu_count=2)
    )
    assert listing.notes == ()
    (found,) = listing
    assert found.gpu == GpuModel(name="RTX 4090", memory_gb=24, compute_capability=(8, 9))
    assert (found.gpu_count, found.driver, found.usd_h, found.region) == (
        2,
        "570.86.10",
        Decimal("0.25"),
        "DE",
    )
    assert found.disk_gb and found.memory_gb and found.cpus
    assert found.udp and found.tcp and found.raw["visible"] == ""


def test_some_of_the_gpus(box: Box, tmp_path: Path) -> None:
    """A job that wants fewer gets the first of the kind that there are most of, and sees no other."""
    box.cards("0, NVIDIA GeForce GTX 1080, 8192, 570.1, 6.1", *(f"2{CARDS[0][1:]}", f"3{CARDS[0][1:]}"))
    me = client(tmp_path / "me", box.entry())
    (found,) = me.gipper_list_offers(query(gpu_count=1))
    assert found.gpu is not None and found.gpu.name == "RTX 4090" and found.raw["visible"] == "2"
    me.gipper_rent(found, request())
    assert "\nvisible=2\n" in box.lease.read_text()


@pytest.mark.parametrize(
    ("rows", "entry", "told"),
    [
        ((), {}, "nvidia-smi failed: Unable"),
        (CARDS[:1], {"gpus": 2}, "the inventory says 2 GPU(s), nvidia-smi names 1"),
        (CARDS, {"gpu": "RTX 3090"}, "the inventory says RTX 3090"),
        (CARDS[:1], {}, "it has 1 GPU(s) of a kind, the job asks for 2"),
        (("nonsense", "0, , x, y"), {}, "it has 0 GPU(s)"),
        (CARDS, {"user": "somebody"}, ""),
    ],
)
def test_boxes_that_are_left_out(
    box: Box, tmp_path: Path, rows: tuple[str, ...], entry: dict[str, object], told: str
) -> None:
    """A box that isn't what it should be is no offer, and one note says why."""
    box.cards(*rows)
    listing = client(tmp_path / "me", box.entry(**entry)).gipper_list_offers(query(gpu_count=2))
    assert len(listing) == 0
    (note,) = listing.notes
    assert note.startswith("ssh: box tower left out: ") and told in note


def test_the_user_of_the_entry_logs_in(box: Box, tmp_path: Path) -> None:
    """Who the inventory names is who core is told to log in as."""
    me = client(tmp_path / "me", box.entry())
    machine = me.gipper_rent(offer(), request())
    found = me.gipper_describe(machine.id)
    assert found is not None and found.user == pwd.getpwuid(os.getuid()).pw_name
    me.gipper_terminate(machine.id)


def test_without_gpus(box: Box, tmp_path: Path) -> None:
    """A job without GPUs may have a box without any, and one with GPUs as well."""
    me = client(tmp_path / "me", box.entry())
    for change in (lambda: None, lambda: box.cards(*CARDS)):
        change()
        (found,) = me.gipper_list_offers(query())
        assert (found.gpu, found.gpu_count) == (None, 0)


def test_boxes_are_probed_at_once(box: Box, tmp_path: Path) -> None:
    """Boxes that hang cost one limit together, within the query's deadline; the good one is offered."""
    box.cards(*CARDS)
    dead = tmp_path / "dead"
    dead.mkdir()
    hung = Box(dead, "hung")
    hung.cards(*CARDS)
    (hung.bin / "nvidia-smi").write_text("#!/bin/sh\nsleep 600\n")
    with hung:
        entries = [hung.entry(name=f"hung-{n}", address=f"127.0.0.{n + 1}") for n in range(1)]
        down = [box.entry(name=f"down-{n}", port=1 + n) for n in range(3)]
        me = client(tmp_path / "me", box.entry(), *entries, *down)
        begun = time.monotonic()
        listing = me.gipper_list_offers(query(gpu_count=1, deadline=begun + 8.0))
        assert time.monotonic() - begun < 8.0
    assert [o.id for o in listing] == ["tower"]
    assert [note.split()[2] for note in listing.notes] == ["hung-0", "down-0", "down-1", "down-2"]


def test_a_changed_host_key_is_not_talked_to(box: Box, tmp_path: Path) -> None:
    """The key of the first contact stays: a box with another one is left out, and its lease not believed over."""
    me = client(tmp_path / "me", box.entry())
    me.gipper_rent(offer(), request())
    box.stop()
    for path in (box.host_key, box.host_key.with_suffix(".pub")):
        path.unlink()
    key_pair(box.host_key)
    box.start()
    assert "verification failed" in me.gipper_list_offers(query()).notes[0]
    with pytest.raises(ProviderError, match="tower"):
        me.gipper_list_ours()


def test_the_inventorys_host_key_counts(box: Box, tmp_path: Path) -> None:
    """Where the inventory has a key, only that one is believed, at first contact too."""
    right = " ".join(box.host_key.with_suffix(".pub").read_text().split()[:2])
    wrong = " ".join(key_pair(tmp_path / "other").split()[:2])
    me = client(tmp_path / "me", box.entry(host_key=wrong))
    assert "verification failed" in me.gipper_list_offers(query()).notes[0]
    me = client(tmp_path / "me", box.entry(host_key=right))
    assert len(me.gipper_list_offers(query())) == 1


def test_a_refused_login_is_told(box: Box, tmp_path: Path) -> None:
    """A box that doesn't let its owner in is left out with ssh's own words, and nobody is asked for a password."""
    key_pair(tmp_path / "stranger")
    (note,) = (
        client(tmp_path / "me", box.entry(key=str(tmp_path / "stranger"))).gipper_list_offers(query()).notes
    )
    assert "Permission denied" in note


def test_noise_of_the_login(box: Box, tmp_path: Path) -> None:
    """A banner and a lacking tool disturb nobody but in what they say."""
    (box.bin / "sh").write_text(
        "#!/bin/sh\necho hello there\necho '@gipperish nonsense'\nexec /bin/sh \"$@\"\n"
    )
    (box.bin / "sh").chmod(0o755)
    me = client(tmp_path / "me", box.entry())
    assert len(me.gipper_list_offers(query())) == 1
    assert me.gipper_rent(offer(), request()).name == NAME


HOSTILE: tuple[Callable[[], Answer], ...] = (
    lambda: Answer(said=()),
    lambda: Answer(said=(("disk", "9" * 400), ("memory", "-1"), ("cpus", "NaN"), ("gpu", "0,x,1e999,,"))),
    lambda: Answer(said=(("gpu", "0, A, 10, d, ٣.٣"), ("gpu", ","), ("gpu", ""))),
)


@pytest.mark.parametrize("answer", HOSTILE)
def test_nonsense_is_unknown(answer: Callable[[], Answer]) -> None:
    """What a box says in the wrong shape is unknown, never an error."""
    found = facts(answer())
    assert (found.disk_gb, found.memory_gb, found.cpus) == (None, None, None)


def test_no_keys_for_ssh() -> None:
    """ssh is given no variable that could hold a provider's key."""
    assert passed_on({"VAST_API_KEY": "x", "HOME": "/h", "SSH_AUTH_SOCK": "s"}) == {
        "HOME": "/h",
        "SSH_AUTH_SOCK": "s",
    }
