"""The inventory file: strict, every mistake at once, nothing guessed."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from gipper_ssh.inventory import Box, load, parse
from support_client import client, query

from gipper.api import ConfigError

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHUUw3Vm8uWJ4Oj0kBsqaKEUb1ZbxUGXyQlA4DQiO4wJ"


def test_a_whole_box() -> None:
    """Every key is read as what it means; dollars stay exact."""
    text = f"""
[[box]]
name = "tower-2"
address = "2001:db8::7"
port = 2222
user = "me"
key = "/home/me/.ssh/id_box"
host_key = "{KEY} root@tower"
gpus = 2
gpu = "RTX 4090"
usd_h = 0.1
country = "de"
where = "Köln, cellar"
down_mbps = 900
up_mbps = 450.5
"""
    assert parse(text, "boxes.toml") == (
        Box(
            name="tower-2", address="2001:db8::7", port=2222, user="me", key=Path("/home/me/.ssh/id_box"),
            host_key=KEY, gpus=2, gpu="RTX 4090", usd_h=Decimal("0.1"), country="DE", where="Köln, cellar",
            down_mbps=900.0, up_mbps=450.5,
        ),
    )  # fmt: skip


def test_the_least_box() -> None:
    """A name and an address are enough."""
    assert parse('[[box]]\nname = "a"\naddress = "a.lan"', "x") == (Box(name="a", address="a.lan"),)


def test_all_mistakes_at_once() -> None:
    """One error names every mistake of every box, and what was meant by a key that is misspelt."""
    text = """
boxes = 1
[[box]]
name = "Tower"
address = "me@tower:22"
port = 0
usd_h = "0.1"
[[box]]
adress = "10.0.0.1"
name = "a"
gpus = 1.5
country = "Germany"
key = "id_rsa"
host_key = "ssh-rsa nonsense"
up_mbps = 0
[[box]]
name = "b"
address = "10.0.0.2"
[[box]]
name = "b"
address = "10.0.0.3"
[[box]]
name = "c"
address = "10.0.0.2"
"""
    with pytest.raises(ConfigError) as wrong:
        parse(text, "boxes.toml")
    lines = wrong.value.message.splitlines()
    assert lines[0] == "boxes.toml: 14 mistakes"
    expected = (
        "boxes: unknown key", "box Tower: name:", "box Tower: address:", "box Tower: port:", "box Tower: usd_h:",
        "box a: address is missing", "box a: adress: unknown key; did you mean address?", "box a: gpus:",
        "box a: country:", "box a: key:", "box a: host_key:", "box a: up_mbps:",
        "box b: the name is given twice", "box c: it has the address and port of b",
    )  # fmt: skip
    for start in expected:
        assert any(line.strip().startswith(start) for line in lines), start


@pytest.mark.parametrize(
    "line",
    [
        'address = "-oProxyCommand=x"', 'address = "a b"', 'address = ""', "address = 1", 'name = "a.b"', 'name = "-a"',
        'name = "a/../b"', 'user = "-l"', 'user = "a b"', "usd_h = -1", "usd_h = nan", "usd_h = inf", "usd_h = true",
        "port = 65536", "port = true", "gpus = -1", 'where = "a\\nb"', 'key = "/a\\"b"', "down_mbps = -5",
    ],
)  # fmt: skip
def test_values_that_are_refused(line: str) -> None:
    """Nothing that ssh could read as an option, no file name in a name, no number that is none."""
    keys = {"name": 'name = "a"', "address": 'address = "a.lan"'} | {line.split(maxsplit=1)[0]: line}
    with pytest.raises(ConfigError, match="1 mistake"):
        parse("\n".join(["[[box]]", *keys.values()]), "x")


@pytest.mark.parametrize("text", ["", "box = 1", "box = []", "[box]\nname='a'\naddress='b'", "[[box]", "\0"])
def test_files_without_boxes(text: str) -> None:
    """A file without a box, or that is no TOML, is a mistake too."""
    with pytest.raises(ConfigError):
        parse(text, "x")


def test_files_that_cant_be_read(tmp_path: Path) -> None:
    """A missing file, a folder, bytes and a relative path are each told by name."""
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    for name in ("missing", ".", "bytes"):
        with pytest.raises(ConfigError, match=str(tmp_path)):
            load(str(tmp_path / name))
    with pytest.raises(ConfigError, match="absolute"):
        load("boxes.toml")


def test_no_inventory(tmp_path: Path) -> None:
    """Without one there are no offers and no machines, and the note says how to get some."""
    me = client(tmp_path / "me")
    for listing in (me.gipper_list_offers(query()), me.gipper_list_ours()):
        assert len(listing) == 0
        assert "[provider.ssh]" in listing.notes[0] and "inventory" in listing.notes[0]
