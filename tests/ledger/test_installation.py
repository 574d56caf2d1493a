"""The installation's id and the question whether a run's owner still lives."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from ledger_world import python

from gipper.errors import ConfigError
from gipper.installation import (
    HostIdentity,
    filesystem_type,
    installation_id,
    is_network_filesystem,
    owner_alive,
    owner_of_this_process,
    parse_stat,
    start_ticks,
    this_host,
)
from gipper.values.receipts import Owner

HOST = HostIdentity(host_id="h1", boot_id="b1", pid_ns="pid:[1]")
OWNER = Owner(host_id="h1", boot_id="b1", pid_ns="pid:[1]", pid=42, start_ticks=777)


def local(_: Path) -> bool:
    """A file system of this host alone."""
    return False


def network(_: Path) -> bool:
    """A file system that others see too."""
    return True


def test_an_id_is_drawn_once_and_kept_privately(tmp_path: Path) -> None:
    """Five characters, the same at every call, in a file of mode 0600."""
    first = installation_id(tmp_path / "data", host=HOST, on_network=local)
    assert len(first.inst) == 5 and first.renewed_from is None
    assert installation_id(tmp_path / "data", host=HOST, on_network=local) == first
    assert {stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "data").iterdir()} == {0o600}
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


def test_a_cloned_home_gets_an_id_of_its_own_and_is_told_once(tmp_path: Path) -> None:
    """On another host a new id is drawn; only that call names the old one."""
    first = installation_id(tmp_path, host=HOST, on_network=local)
    elsewhere = attrs.evolve(HOST, host_id="h2")
    second = installation_id(tmp_path, host=elsewhere, on_network=local)
    assert second.renewed_from == first.inst != second.inst
    assert attrs.evolve(second, renewed_from=None) == installation_id(
        tmp_path, host=elsewhere, on_network=local
    )


def test_on_a_network_file_system_the_folder_counts_not_the_host(tmp_path: Path) -> None:
    """Two hosts that share the folder are one installation; a copy of the folder is another."""
    first = installation_id(tmp_path / "a", host=HOST, on_network=network)
    other = attrs.evolve(HOST, host_id="h2")
    assert installation_id(tmp_path / "a", host=other, on_network=network) == first
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    assert installation_id(tmp_path / "b", host=HOST, on_network=network).renewed_from == first.inst


def test_an_unreadable_record_is_replaced_and_told(tmp_path: Path) -> None:
    """Garbage in the file costs the old id, not the command."""
    installation_id(tmp_path, host=HOST, on_network=local)
    (tmp_path / "installation.json").write_text("{garbage")
    assert installation_id(tmp_path, host=HOST, on_network=local).renewed_from == "unreadable"
    json.loads((tmp_path / "installation.json").read_text())


def test_a_data_folder_that_cannot_be_used_is_a_clear_error(tmp_path: Path) -> None:
    """A file in its place ends with exit code 2 and a hint."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError) as caught:
        installation_id(tmp_path / "file", host=HOST)
    assert caught.value.hint


def test_processes_that_start_together_agree_on_the_id(tmp_path: Path) -> None:
    """Many first uses at once draw one id."""
    code = (
        "import sys; from pathlib import Path; from gipper.installation import *\n"
        "print(installation_id(Path(sys.argv[1]), host=this_host()).inst)"
    )
    processes = [python(code, str(tmp_path / "data")) for _ in range(8)]
    assert len({p.communicate(timeout=60)[0] for p in processes}) == 1


@pytest.mark.parametrize(
    ("host", "ticks", "expected"),
    [
        (HOST, 777, "alive"),
        (HOST, 778, "dead"),
        (HOST, None, "dead"),
        (attrs.evolve(HOST, boot_id="b2"), 777, "dead"),
        (attrs.evolve(HOST, boot_id="b2", pid_ns="pid:[2]"), 777, "dead"),
        (attrs.evolve(HOST, pid_ns="pid:[2]"), 777, "unknown"),
        (attrs.evolve(HOST, host_id="h2"), 777, "unknown"),
        (attrs.evolve(HOST, host_id="h2", boot_id="b2"), None, "unknown"),
    ],
)
def test_an_owner_is_judged_by_host_boot_namespace_and_start(
    host: HostIdentity, ticks: int | None, expected: str
) -> None:
    """Only where it could be seen and isn't there is it dead."""
    assert owner_alive(OWNER, host=host, ticks_of=lambda pid: ticks if pid == 42 else None) == expected


def test_a_process_that_is_hidden_is_unknown() -> None:
    """Where /proc doesn't show other users' processes nothing is concluded."""

    def refuse(pid: int) -> int | None:
        raise PermissionError(pid)

    assert owner_alive(OWNER, host=HOST, ticks_of=refuse) == "unknown"


def test_this_process_lives_and_an_ended_one_is_dead() -> None:
    """Against the real /proc: alive while it runs, dead as a zombie, dead when reaped."""
    assert owner_alive(owner_of_this_process()) == "alive"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, text=True) as child:
        owner = attrs.evolve(owner_of_this_process(), pid=child.pid, start_ticks=start_ticks(child.pid) or 0)
        assert owner_alive(owner) == "alive"
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert owner_alive(owner) == "dead"
    assert owner_alive(owner) == "dead"


def test_the_machine_id_itself_is_not_recorded() -> None:
    """Only a hash of it stands in receipts."""
    host = this_host()
    assert len(host.host_id) == 32 and host.boot_id and host.pid_ns.startswith("pid:[")
    machine = Path("/etc/machine-id")
    assert not machine.exists() or machine.read_text().strip() != host.host_id


def test_stat_of_a_program_with_brackets_in_its_name() -> None:
    """Field 22 is found behind the last bracket; a zombie has no start."""
    rest = " ".join(["1"] * 18) + " 4711 9 9"
    assert parse_stat(f"42 (a) R (b) S {rest}") == 4711
    assert parse_stat(f"42 (x) Z {rest}") is None
    assert parse_stat("") is None


def test_network_file_systems_are_told_by_the_longest_mount_point() -> None:
    """The deepest mount counts, a later one on the same point hides the earlier, escapes are resolved."""
    text = (
        "1 0 8:1 / / rw - ext4 /dev/a rw\n"
        "2 1 0:5 / /home rw,nosuid shared:1 - nfs4 srv:/home rw\n"
        "3 2 8:2 / /home/local\\040disk rw - xfs /dev/b rw\n"
        "4 1 0:6 / /mnt rw - ext4 /dev/c rw\n"
        "5 4 0:7 / /mnt rw - cifs //srv/x rw\n"
        "garbage\n"
    )
    assert filesystem_type(text, Path("/var")) == "ext4"
    assert filesystem_type(text, Path("/home/me")) == "nfs4"
    assert filesystem_type(text, Path("/homes")) == "ext4"
    assert filesystem_type(text, Path("/home/local disk/x")) == "xfs"
    assert filesystem_type(text, Path("/mnt/y")) == "cifs"
    assert filesystem_type("", Path("/")) == ""


def test_a_temporary_folder_here_is_no_network_file_system(tmp_path: Path) -> None:
    """Also for a path that doesn't exist yet."""
    assert is_network_filesystem(tmp_path / "not" / "yet") is False
