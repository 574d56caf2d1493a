"""The driver's own check of a machine, as the shells that machines have run it, against stand-ins of their tools."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest
from gipper_shadeform.preflight import judged, preflight, read, script
from gipper_shadeform.watchdog import watchdog
from stubs.gpu_stubs import put_program

from gipper.api import Completed, Job, Machine, Port, Unsuitable
from gipper.values.jobs import GpuWants, RunTable

SHELLS = [name for name in ("dash", "bash") if shutil.which(name)]
PORTS = (Port(inside=8000), Port(inside=5004, protocol="udp"))
SUDO = '#!/bin/sh\n[ "$1" = -n ] && shift\nexec "$@"\n'
NO_SUDO = "#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n"
CALLS = 'echo "${0##*/} $*" >>"$CALLS"\n'
UFW = f'#!/bin/sh\n[ "$1" = status ] && echo "Status: $UFW" && exit\n{CALLS}exit ${{REFUSES:-0}}\n'
IPTABLES = f'#!/bin/sh\n[ "$1" = -S ] && echo "$RULES" && exit\n{CALLS}[ "$1" = -C ] && exit 1\nexit ${{REFUSES:-0}}\n'
USUAL = {"sudo": SUDO, "id": "#!/bin/sh\necho 1000\n", "nvidia-smi": "#!/bin/sh\n"}


@attrs.define
class Here:
    """A Remote whose machine is this shell with a PATH of its own."""

    folder: Path
    shell: str = "dash"
    env: Mapping[str, str] = {}

    def put(self, **programs: str) -> None:
        for name, text in programs.items():
            put_program(self.folder / name.replace("_", "-"), text)

    def ask(self, text: str, *, timeout_s: float = 60.0) -> Completed:
        done = subprocess.run(
            [self.shell, "-c", text], capture_output=True, timeout=timeout_s, check=False,
            env={"PATH": str(self.folder), "CALLS": str(self.folder / "calls"), **self.env},
        )  # fmt: skip
        return Completed(status=done.returncode, stdout=done.stdout, stderr=done.stderr)

    def calls(self) -> list[str]:
        file = self.folder / "calls"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture(params=SHELLS)
def here(tmp_path: Path, request: pytest.FixtureRequest) -> Here:
    made = Here(tmp_path / "bin", str(shutil.which(request.param)))
    made.folder.mkdir()
    for tool in ("sh", "sed", "head", "timeout", "true", "echo", "sleep"):
        (made.folder / tool).symlink_to(str(shutil.which(tool)))
    for name, text in USUAL.items():
        put_program(made.folder / name, text)
    return made


def check(here: Here, ports: tuple[Port, ...] = PORTS, count: int = 1) -> Mapping[str, object]:
    machine = Machine(provider="shadeform", id="x", name="n", ports=ports, gpu_count=count)
    job = Job(name="j", folder=Path("/"), gpu=GpuWants(count=count), run=RunTable(command="true"))
    return preflight(here, job, machine).facts  # type: ignore[arg-type]


def test_nothing_to_open(here: Here) -> None:
    """No firewall is active: none is touched, and none switched on."""
    here.put(ufw=UFW, iptables=IPTABLES)
    here.env = {"UFW": "inactive", "RULES": "-P INPUT ACCEPT"}
    assert check(here) == {"root": True, "driver": True, "firewall": "none"}
    assert here.calls() == []


def test_without_ports_no_firewall_is_looked_at(here: Here) -> None:
    """A job that publishes nothing asks for nothing."""
    here.put(ufw=UFW)
    here.env = {"UFW": "active"}
    assert check(here, ports=()) == {"root": True, "driver": True} and here.calls() == []


def test_ufw_is_opened(here: Here) -> None:
    """An active UFW gets one rule for each port; iptables, which it drives, is left alone."""
    here.put(ufw=UFW, iptables=IPTABLES)
    here.env = {"UFW": "active", "RULES": "-P INPUT DROP"}
    assert check(here)["firewall"] == "ufw"
    assert here.calls() == ["ufw allow 8000/tcp", "ufw allow 5004/udp"]


@pytest.mark.parametrize(
    "rules", ["-P INPUT DROP", "-P INPUT ACCEPT\n-A INPUT -j REJECT --reject-with icmp-host-prohibited"]
)
def test_iptables_are_opened(here: Here, rules: str) -> None:
    """Bare rules that shut a port get one in front."""
    here.put(ufw=UFW, iptables=IPTABLES)
    here.env = {"UFW": "inactive", "RULES": rules}
    assert check(here)["firewall"] == "iptables"
    assert [c for c in here.calls() if "-I" in c] == [
        "iptables -I INPUT 1 -p tcp --dport 8000 -j ACCEPT", "iptables -I INPUT 1 -p udp --dport 5004 -j ACCEPT"
    ]  # fmt: skip


def test_a_firewall_that_stays_shut(here: Here) -> None:
    """A rule that is refused makes the machine unsuitable, with the ports."""
    here.put(ufw=UFW)
    here.env = {"UFW": "active", "REFUSES": "1"}
    with pytest.raises(Unsuitable, match=r"ufw\) could not be opened for 8000/tcp, 5004/udp$"):
        check(here)


def test_a_user_who_may_not_become_root(here: Here) -> None:
    """The firewall can't be looked at: unknown, not open; the job may run all the same."""
    here.put(sudo=NO_SUDO, ufw=UFW)
    here.env = {"UFW": "active"}
    assert check(here) == {"root": False, "driver": True, "firewall": "unknown"} and here.calls() == []


def test_no_driver_is_unsuitable(here: Here) -> None:
    """The image's fault, with what to set; without a GPU it doesn't matter."""
    (here.folder / "nvidia-smi").unlink()
    if Path("/proc/driver/nvidia/version").exists():
        pytest.skip("this computer has a driver")
    with pytest.raises(Unsuitable, match=r"no NVIDIA driver: set os"):
        check(here)
    assert check(here, count=0)["driver"] is False


def test_the_first_boot_is_waited_for(here: Here) -> None:
    """What cloud-init says in the end is a fact of the receipt; a machine without it isn't held up."""
    here.put(cloud_init='#!/bin/sh\n[ "$*" = "status --wait" ] && echo "..." && echo "status: done"\n')
    assert check(here, ports=())["boot"] == "done"
    here.put(cloud_init="#!/bin/sh\nexit 2\n")
    assert check(here, ports=())["boot"] == "unknown"


def test_the_limit_of_that_wait_fits_the_question() -> None:
    """cloud-init gets four minutes, and the question outlives them."""
    assert "timeout 240 cloud-init status --wait" in script(PORTS)


def test_an_answer_that_makes_no_sense() -> None:
    """What isn't told is unknown, and nothing is held against the machine for it."""
    for text in ("", "root\ndriver\n", "\x00", "firewall \nshut x/tcp\nshut 1/sctp", "driver maybe not"):
        assert judged(read(text), gpus=True) in (None, judged(read("driver no"), gpus=True))
    assert judged(read("root yes\nshut 1/tcp"), gpus=False) is not None


@pytest.mark.parametrize(("uid", "words"), [("1000", "sudo -n systemctl"), ("0", "systemctl")])
def test_the_watchdog_powers_off(here: Here, uid: str, words: str) -> None:
    """By sudo where the user isn't root; each way is tried until one works."""
    here.put(
        id=f"#!/bin/sh\necho {uid}\n", systemctl=f"#!/bin/sh\n{CALLS}exit 1\n", poweroff=f"#!/bin/sh\n{CALLS}",
        sudo=f'#!/bin/sh\n{CALLS}shift\nexec "$@"\n', shutdown=f"#!/bin/sh\n{CALLS}",
    )  # fmt: skip
    text = watchdog().command.replace("/usr/sbin:/sbin", "/nonexistent")
    assert here.ask(text).status == 0
    told = here.calls()
    assert told[0].startswith(words) and told[-1] == "poweroff " and not any("shutdown" in c for c in told)


def test_no_shell_word_comes_from_outside() -> None:
    """Ports are numbers and one of two words: nothing else gets into the text."""
    assert script((Port(inside=1, protocol="tcp"),)).splitlines()[0] == "set -- 1/tcp"
    assert script(()).splitlines()[0] == "set -- "
