"""Host keys: pinned per machine at first contact, checked before our key is offered."""

from __future__ import annotations

import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support_sshd import Sshd

from gipper.errors import ConnectFailed
from gipper.runtime import RealRuntime
from gipper.ssh.pins import HostKey, check_pin, host_alias, read_pin
from gipper.ssh.remote import SshRemote

Dial = Callable[..., SshRemote]
KEY = HostKey(type="ssh-ed25519", blob=b"one")
OTHER = HostKey(type="ssh-ed25519", blob=b"two")


def refused(dial: Dial, target: object) -> ConnectFailed:
    with pytest.raises(ConnectFailed) as caught:
        dial(target)
    return caught.value


def test_first_contact_is_recorded(sshd: Sshd, dial: Dial) -> None:
    """The first key seen is in the pins file, 0600, as one known_hosts line under the machine's alias."""
    target = sshd.target(machine_id="Pod/7")
    dial(target)
    assert target.pins.read_text() == f"{host_alias('Pod/7')} {sshd.host_key}\n"
    assert stat.S_IMODE(target.pins.stat().st_mode) == 0o600


def test_changed_key_is_refused_before_ours_is_offered(sshd: Sshd, dial: Dial) -> None:
    """Another key on the same machine is host_key, and the server never saw which user key we have."""
    dial(sshd.target())
    sshd.stop()
    sshd.new_host_key()
    sshd.log_file.write_text("")
    sshd.start()
    error = refused(dial, sshd.target())
    assert error.kind == "host_key"
    assert str(sshd.port) in error.message
    assert "publickey" not in sshd.log


def test_changed_key_of_another_type_is_refused(sshd: Sshd, dial: Dial) -> None:
    """A machine that suddenly has a key of another type only is another machine."""
    dial(sshd.target())
    sshd.stop()
    sshd.new_host_key("rsa")
    sshd.start()
    assert refused(dial, sshd.target()).kind == "host_key"


def test_same_key_among_several(tmp_path: Path, dial: Dial) -> None:
    """A pinned RSA key is asked for although the server has an ed25519 key, too."""
    with Sshd(tmp_path / "sshd", host_key_type="rsa") as sshd:
        first = dial(sshd.target()).fingerprint
        sshd.stop()
        extra = tmp_path / "second_key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(extra)], check=True)
        sshd._extra = (f"HostKey {extra}",)
        sshd.start()
        assert dial(sshd.target()).fingerprint == first


@pytest.mark.parametrize("type_", ["ed25519", "rsa", "ecdsa"])
def test_providers_word_is_kept(tmp_path: Path, dial: Dial, type_: str) -> None:
    """A host key that the provider told is the only one that is let pass."""
    with Sshd(tmp_path / "sshd", host_key_type=type_) as sshd:
        assert dial(sshd.target(host_key=sshd.host_key)).run("true").status == 0
        wrong = Sshd(tmp_path / "other").host_key
        pins = tmp_path / "fresh"
        assert refused(dial, sshd.target(host_key=wrong, pins=pins)).kind == "host_key"
        assert refused(dial, sshd.target(host_key="nonsense", pins=pins)).kind == "host_key"
        assert not pins.exists()


def test_d_032_address_used_before(sshd: Sshd, dial: Dial, own_folders: Path) -> None:
    """Another machine at an address with another key works, and the user's files stay as they are."""
    folder = own_folders / ".ssh"
    folder.mkdir(mode=0o700)
    known = folder / "known_hosts"
    known.write_text(f"[127.0.0.1]:{sshd.port} ssh-ed25519 {'A' * 68}\n")
    before = known.read_bytes()
    dial(sshd.target(machine_id="first"))
    sshd.stop()
    sshd.new_host_key()
    sshd.start()
    assert dial(sshd.target(machine_id="second")).run("echo in").text == "in"
    assert known.read_bytes() == before
    assert [p.name for p in folder.iterdir()] == ["known_hosts"]


def test_openssh_reads_the_pins(sshd: Sshd, dial: Dial) -> None:
    """OpenSSH's own client accepts the machine by our file and alias, strictly."""
    target = sshd.target(machine_id="Machine A,*[1]")
    dial(target)
    options = [o for o in sshd.ssh_options() if "StrictHostKey" not in o and "UserKnownHosts" not in o]
    options = [o for i, o in enumerate(options) if not (o == "-o" and options[i + 1 : i + 2] in ([], ["-o"]))]
    done = subprocess.run(
        [
            *("ssh", "-o", "StrictHostKeyChecking=yes", "-o", f"UserKnownHostsFile={target.pins}"),
            *("-o", f"HostKeyAlias={host_alias(target.machine_id)}", *options, sshd.host, "echo in"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "in\n", done.stderr


def test_two_first_contacts_agree(tmp_path: Path, runtime: RealRuntime) -> None:
    """Of two different keys that are first at once exactly one is pinned; the other is refused."""
    pins = tmp_path / "pins"
    for i in range(20):
        tasks = [
            runtime.spawn("pin", lambda key=key, i=i: check_pin(pins, f"m{i}", key, None))
            for key in (KEY, OTHER)
        ]
        refusals = 0
        for task in tasks:
            try:
                task.result()
            except ConnectFailed:
                refusals += 1
        assert refusals == 1
    assert len(pins.read_text().splitlines()) == 20


def test_damaged_line_is_no_first_contact(tmp_path: Path) -> None:
    """A line that can't be read refuses its machine, and only that one."""
    pins = tmp_path / "pins"
    pins.write_text("m1 ssh-ed25519 ???\n")
    with pytest.raises(ConnectFailed) as caught:
        check_pin(pins, "m1", KEY, None)
    assert caught.value.kind == "host_key"
    check_pin(pins, "m2", KEY, None)
    assert read_pin(pins, "m2") == KEY


@given(st.text(max_size=30), st.text(max_size=30))
def test_aliases_are_plain_and_distinct(one: str, two: str) -> None:
    """Aliases hold nothing that known_hosts treats as special; ids that differ keep apart."""
    assert set(host_alias(one)) <= set("abcdefghijklmnopqrstuvwxyz0123456789_.-")
    assert (host_alias(one) == host_alias(two)) == (one == two)


def test_escapes_are_not_names() -> None:
    """An id that looks like an escaped one is escaped itself."""
    assert len({host_alias(i) for i in ("a/", "a_2f_", "A/", "a_2F_")}) == 4
