"""A local machine outlives its client, ends itself in time, and can be ended by anyone who can list it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gipper.api import MachineState, ProviderError, Refused
from gipper.builtin.local import procs
from gipper.builtin.local.end import end_machine
from gipper.builtin.local.record import load, new_id, save
from gipper.builtin.local.tree import remove_tree

# Twice forked, in a session of its own, and without the machine's mark: only ancestry finds it.
UNMARKED = "setsid env -i /bin/sh -c 'sleep 3001 >/dev/null 2>&1 & echo $!'"
MARKED = "setsid /bin/sh -c 'sleep 3002 >/dev/null 2>&1 & echo $!'"


def lives(pid: int) -> bool:
    return procs.look(pid) is not None


def start(market: Any, machine: Any, command: str) -> int:
    """Start a daemon on the machine and return its pid once it has its own program."""
    pid = int(market.ssh(machine, command).stdout)
    market.until(lambda: b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes(), "the daemon runs")
    return pid


def test_rent_starts_and_describe_runs(market: Any) -> None:
    """A rent returns a starting machine with its name and host key; soon it runs and has an address."""
    request = market.request("gipper-abc12-x-1-zzz")
    machine = market.provider.gipper_rent(
        market.provider.gipper_list_offers(_query(market)).items[0], request
    )
    assert (machine.name, machine.state) == (request.name, MachineState.STARTING)
    now = market.running(machine.id)
    assert (now.state, now.name, now.host_key) == (MachineState.RUNNING, machine.name, machine.host_key)
    assert [m.id for m in market.provider.gipper_list_ours()] == [machine.id]


def _query(market: Any) -> Any:
    from gipper.api import OfferQuery

    return OfferQuery(deadline=time.monotonic() + 30, gpu_count=0)


def test_ports_are_mapped_to_themselves(market: Any) -> None:
    """A TCP port that the job asks for is reached on 127.0.0.1 under its own number."""
    from gipper.api import Port

    (port,) = market.rent(ports=(Port(inside=8000),)).ports
    assert (port.inside, port.host, port.outside) == (8000, "127.0.0.1", 8000)


def test_survives_kill_9_of_the_renting_process(market: Any) -> None:
    """A machine goes on when its client is killed, and another process lists and ends it."""
    process = market.elsewhere("gipper-killed")
    machine = market.running(process.stdout.readline().strip())
    process.kill()
    process.communicate()
    assert market.ssh(machine, "exit 3").returncode == 3
    assert [m.name for m in market.provider.gipper_list_ours()] == ["gipper-killed"]
    market.provider.gipper_terminate(machine.id)
    assert market.provider.gipper_describe(machine.id) is None
    assert market.processes() == []


def test_the_deadline_ends_all_of_it(market: Any) -> None:
    """At its own deadline a machine, its daemons and its folder are gone without anyone's help."""
    machine = market.rent(life_s=3.0)
    pids = [start(market, machine, command) for command in (UNMARKED, MARKED)]
    market.until(lambda: market.provider.gipper_describe(machine.id) is None, "the machine ends itself")
    assert [lives(pid) for pid in pids] == [False, False]
    market.until(lambda: market.processes() == [], "the server exits")
    assert len(market.provider.gipper_list_ours()) == 0


def test_sigterm_ends_all_of_it(market: Any) -> None:
    """SIGTERM to the server does what its deadline does."""
    machine = market.rent()
    pids = [start(market, machine, command) for command in (UNMARKED, MARKED)]
    os.kill(market.record(machine.id)["pid"], signal.SIGTERM)
    market.until(lambda: market.provider.gipper_describe(machine.id) is None, "the machine ends itself")
    assert [lives(pid) for pid in pids] == [False, False]


def test_terminate_from_another_process_and_twice(market: Any) -> None:
    """When terminate returns, server, daemons and folder are gone; a second terminate is harmless."""
    machine = market.rent()
    pids = [start(market, machine, command) for command in (UNMARKED, MARKED)]
    script = (
        "import sys, importlib.util as u; from pathlib import Path;"
        "s = u.spec_from_file_location('r', sys.argv[1]);"
        "r = u.module_from_spec(s); s.loader.exec_module(r);"
        "r.LocalProvider(r.Context(Path(sys.argv[2]))).gipper_terminate(sys.argv[3])"
    )
    renter = Path(__file__).with_name("renter.py")
    argv = [sys.executable, "-c", script, renter, market.data, machine.id]
    for _ in range(2):
        subprocess.run(argv, check=True, timeout=60)
        assert not (market.machines / machine.id).exists()
        assert [lives(pid) for pid in pids] == [False, False]
        assert market.processes() == []


def test_a_dead_server_stays_listed_until_terminated(market: Any) -> None:
    """A machine whose server was killed is in state error and listed; terminate ends what it left."""
    machine = market.rent()
    pid = start(market, machine, MARKED)
    os.kill(market.record(machine.id)["pid"], signal.SIGKILL)
    market.until(
        lambda: market.provider.gipper_describe(machine.id).state is MachineState.ERROR,
        "the machine is in error",
    )
    assert [(m.id, m.state) for m in market.provider.gipper_list_ours()] == [(machine.id, MachineState.ERROR)]
    assert lives(pid)
    market.provider.gipper_terminate(machine.id)
    assert not lives(pid)
    assert market.provider.gipper_describe(machine.id) is None


def test_a_stopped_server_is_ended_by_force(market: Any, monkeypatch: Any) -> None:
    """A server that doesn't react is killed with its unmarked daemons."""
    monkeypatch.setattr("gipper.builtin.local.end._POLITE_S", 0.3)
    machine = market.rent()
    pid = start(market, machine, UNMARKED)
    os.kill(market.record(machine.id)["pid"], signal.SIGSTOP)
    market.provider.gipper_terminate(machine.id)
    assert not lives(pid)
    assert market.provider.gipper_describe(machine.id) is None


def test_a_fork_loop_is_ended(market: Any) -> None:
    """Processes that keep starting others don't outrun terminate."""
    machine = market.rent()
    # Each round starts the next in a session of its own and leaves another process behind.
    again = "sleep 0.02; [ $1 = 0 ] || setsid sh again.sh $(($1 - 1)) & setsid sleep 30 & exit"
    (market.machines / machine.id / "home" / "again.sh").write_text(again)
    loop = "setsid sh again.sh 300 </dev/null >/dev/null 2>&1 &"
    market.ssh(machine, loop)
    market.until(lambda: len(market.processes()) > 10, "some rounds ran")
    market.provider.gipper_terminate(machine.id)
    assert market.processes() == []


def test_terminate_removes_hostile_trees(market: Any) -> None:
    """Read-only, deep and odd folders don't survive; what links in them point at does."""
    machine = market.rent()
    kept = market.data / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    deep = "import os\nfor _ in range(60): os.mkdir('x' * 200); os.chdir('x' * 200)"
    script = (
        f"mkdir -p a/b; echo x > a/b/f; chmod 400 a/b/f; chmod 500 a/b a; ln -s {kept} link; mkfifo p;"
        f'mkdir 0; chmod 0 0; {sys.executable} -c "{deep}"'
    )
    assert market.ssh(machine, script).returncode == 0
    market.provider.gipper_terminate(machine.id)
    assert not (market.machines / machine.id).exists()
    assert (kept / "file").read_text() == "x"


def test_hostile_trees_are_removed_without_being_root() -> None:
    """An ordinary user removes read-only folders and folders of mode 0 too."""
    base = Path(tempfile.mkdtemp(dir="/tmp"))
    base.chmod(0o777)
    child = os.fork()
    if child == 0:
        os._exit(_remove_as_nobody(base / "machine"))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    left = (base / "machine").exists()
    shutil.rmtree(base)
    assert (status, left) == (0, False)


def _remove_as_nobody(root: Path) -> int:
    try:
        if os.getuid() == 0:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
        (root / "a/b/c").mkdir(parents=True)
        for name in ("a/f", "a/b/f", "machine.json"):
            (root / name).write_text("x")
        for name, mode in (("a/b/c", 0), ("a/b", 0o500), ("a", 0o400), (".", 0o500)):
            (root / name).chmod(mode)
        remove_tree(root, last="machine.json")
    except OSError as error:
        print(error)
        return 1
    return 0


def test_rent_killed_at_any_moment_leaves_only_what_is_listed(market: Any) -> None:
    """Whenever the renting process is killed, whatever it left is listed by name and can be ended."""
    for step in range(10):
        process = market.elsewhere("gipper-crash")
        try:
            process.wait(timeout=step * 0.03)
        except subprocess.TimeoutExpired:
            process.kill()
        process.communicate()
        left = {m.id for m in market.provider.gipper_list_ours()}
        marked = {
            value.split(b"=", 1)[1].decode()
            for pid in market.processes()
            for value in _environ(pid)
            if value.startswith(b"GIPPER_LOCAL_MACHINE=")
        }
        assert marked <= left
        assert {m.name for m in market.provider.gipper_list_ours()} <= {"gipper-crash"}
        for machine_id in left:
            market.provider.gipper_terminate(machine_id)
        # One that was between fork and exec bore no mark yet: without a record it ends by itself.
        market.until(lambda: not market.processes(), "nobody is left")
        assert list(market.machines.iterdir() if left else []) == []


def _environ(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


@pytest.mark.parametrize("point", ["folder", "record", "files"])
def test_crash_points_of_rent(market: Any, point: str) -> None:
    """A rent that died before its process began is listed by name, as coming, later as an error."""
    template = market.rent("gipper-template")
    record = load(market.machines / template.id)
    machine_id = new_id("gipper-crashed")
    folder = market.machines / machine_id
    folder.mkdir()
    if point != "folder":
        save(folder, _unstarted(record, machine_id))
    if point == "files":
        (folder / "home").mkdir()
    (fresh,) = [m for m in market.provider.gipper_list_ours() if m.id == machine_id]
    assert fresh.name == "gipper-crashed"
    assert fresh.state is (MachineState.PENDING if point == "folder" else MachineState.STARTING)
    if point != "folder":
        save(folder, _unstarted(record, machine_id, age_s=3600))
    os.utime(folder, (1, 1))
    assert market.provider.gipper_describe(machine_id).state is MachineState.ERROR
    market.provider.gipper_terminate(machine_id)
    assert market.provider.gipper_describe(machine_id) is None
    assert market.provider.gipper_describe(template.id).state is MachineState.RUNNING


def _unstarted(record: Any, machine_id: str, age_s: float = 0.0) -> Any:
    import attrs

    created = record.created - timedelta(seconds=age_s)
    return attrs.evolve(
        record, id=machine_id, name="gipper-crashed", created=created, pid=None, ticks=None, port=None
    )


def test_a_machine_of_another_boot_is_an_error(market: Any) -> None:
    """After a restart of the computer a machine is in error, and who has its pid now lives on."""
    machine = market.rent()
    raw = market.record(machine.id)
    bystander = subprocess.Popen(["sleep", "300"])
    try:
        folder = market.machines / new_id("gipper-boot")
        folder.mkdir()
        ticks = procs.look(bystander.pid).ticks
        old = {**raw, "id": folder.name, "boot_id": "another", "pid": bystander.pid, "ticks": ticks}
        (folder / "machine.json").write_text(json.dumps(old))
        assert market.provider.gipper_describe(folder.name).state is MachineState.ERROR
        market.provider.gipper_terminate(folder.name)
        assert market.provider.gipper_describe(folder.name) is None
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_pid_that_was_used_again_is_not_killed(market: Any) -> None:
    """A process that merely has a dead server's pid is left alone."""
    machine = market.rent()
    raw = market.record(machine.id)
    bystander = subprocess.Popen(["sleep", "300"])
    try:
        folder = market.machines / new_id("gipper-reuse")
        folder.mkdir()
        (folder / "machine.json").write_text(json.dumps({**raw, "id": folder.name, "pid": bystander.pid}))
        assert market.provider.gipper_describe(folder.name).state is MachineState.ERROR
        market.provider.gipper_terminate(folder.name)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_damaged_record_is_listed_under_its_name(market: Any) -> None:
    """A machine whose record can't be read is still listed by name and can be ended."""
    machine = market.rent()
    server = market.record(machine.id)["pid"]
    (market.machines / machine.id / "machine.json").write_text("{")
    os.utime(market.machines / machine.id, (1, 1))
    (seen,) = market.provider.gipper_list_ours()
    assert (seen.name, seen.state) == (machine.name, MachineState.ERROR)
    market.provider.gipper_terminate(machine.id)
    assert not lives(server)


def test_a_listing_that_fails_raises(market: Any) -> None:
    """Where the machines' folder can't be listed, nothing is claimed."""
    market.provider.gipper_list_ours()
    market.machines.rmdir()
    market.machines.write_text("not a folder")
    try:
        with pytest.raises(ProviderError):
            market.provider.gipper_list_ours()
    finally:
        market.machines.unlink()
        market.machines.mkdir()


@pytest.mark.parametrize("machine_id", ["../../etc", "x", "", "gipper-a.1234567/..", "gipper-a.0123abcd"])
def test_unknown_ids_are_not_found(market: Any, machine_id: str) -> None:
    """An id that isn't one of ours, a path least of all, is "not found" and ends nothing."""
    assert market.provider.gipper_describe(machine_id) is None
    market.provider.gipper_terminate(machine_id)
    assert market.provider.gipper_diagnose(machine_id) is None


def test_a_folder_that_is_removed_takes_the_record_with_it_last(market: Any, monkeypatch: Any) -> None:
    """A removal that fails half-way leaves a machine that is listed, and says so."""
    machine = market.rent()
    unlink = Path.unlink

    def failing(self: Path, missing_ok: bool = False) -> None:
        if self.name == "stuck":
            raise PermissionError(1, "immutable", str(self))
        unlink(self, missing_ok=missing_ok)

    os.kill(market.record(machine.id)["pid"], signal.SIGKILL)
    (market.machines / machine.id / "home" / "stuck").write_text("x")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", failing)
        patch.setattr("gipper.builtin.local.end._FORCE_S", 0.2)
        with pytest.raises(ProviderError, match="can't be removed"):
            end_machine(market.machines / machine.id, machine.id, market.provider._context.runtime)
    assert [m.name for m in market.provider.gipper_list_ours()] == [machine.name]


def test_rent_that_cannot_start_leaves_nothing(market: Any, monkeypatch: Any) -> None:
    """Where no process can be started the rent is refused and no folder is left."""
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(Refused) as refused:
        market.rent()
    assert refused.value.kind == "account" and refused.value.hint
    assert len(market.provider.gipper_list_ours()) == 0


def test_a_start_that_fails_leaves_nothing(market: Any, monkeypatch: Any) -> None:
    """Where the interpreter ends with an error the rent is refused and no folder is left."""
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(Refused):
        market.rent()
    assert len(market.provider.gipper_list_ours()) == 0


@pytest.mark.parametrize("wrong", [{"name": "../up"}, {"name": ""}, {"name": "a.b"}])
def test_impossible_names_are_refused(market: Any, wrong: dict[str, str]) -> None:
    """A name that can't be a folder's is refused before anything exists."""
    with pytest.raises(Refused) as refused:
        market.rent(**wrong)
    assert refused.value.kind == "request"
    assert len(market.provider.gipper_list_ours()) == 0


@pytest.mark.parametrize("key", ["", "nonsense", "ssh-ed25519 !!!", "ssh-ed25519 AAAA"])
def test_impossible_keys_are_refused(market: Any, key: str) -> None:
    """A public key that isn't one is refused before anything exists."""
    market.public_key = key
    with pytest.raises(Refused):
        market.rent()
    assert len(market.provider.gipper_list_ours()) == 0


def test_two_data_folders_do_not_meet(new_market: Any) -> None:
    """Machines of two data folders, of one name even, don't see each other; ending one leaves the other."""
    one, two = new_market(), new_market()
    first, second = one.rent("gipper-same"), two.rent("gipper-same")
    assert [m.id for m in one.provider.gipper_list_ours()] == [first.id]
    one.provider.gipper_terminate(first.id)
    one.provider.gipper_terminate(second.id.replace("gipper-same", "gipper-none"))
    assert two.ssh(second, "exit 3").returncode == 3


def test_a_machine_whose_folder_is_removed_ends(market: Any, monkeypatch: Any) -> None:
    """A server that starts without its record ends at once."""
    machine = market.rent()
    from gipper.builtin.local.launch import start_server

    folder = market.machines / new_id("gipper-gone")
    folder.mkdir()
    start_server(folder, folder.name)
    market.until(lambda: "no record" in (folder / "server.log").read_text(), "the server says why")
    market.until(lambda: len(market.processes()) == 1, "the server exits")
    assert market.provider.gipper_diagnose(folder.name).text.startswith("no record")
    assert market.provider.gipper_describe(machine.id).state is MachineState.RUNNING


def test_the_server_is_small_and_idle(market: Any) -> None:
    """A waiting server takes less than 80 MiB and next to no processor time."""
    machine = market.rent()
    assert market.ssh(machine, "true").returncode == 0
    proc = Path(f"/proc/{market.record(machine.id)['pid']}")
    kib = int((proc / "status").read_text().split("VmRSS:")[1].split()[0])
    assert kib < 80 << 10

    def switches() -> int:
        return int((proc / "status").read_text().split("nonvoluntary_ctxt_switches:")[0].split()[-1])

    before, begun = switches(), time.monotonic()
    market.until(lambda: time.monotonic() > begun + 1.0, "a second passes")
    assert switches() - before < 20
