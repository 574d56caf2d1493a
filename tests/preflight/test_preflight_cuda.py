"""CUDA through the driver library, and a kernel that runs."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stubs.gpu_world import World

from gipper.builtin.checks import cuda_answer, cuda_driving
from gipper.errors import BadHost, CommandTimeout, Unsuitable


def compat(world: World, **behaviour: int) -> Path:
    """A forward-compatibility library in front of the usual one; its folder."""
    folder = world.stubs.driver(world.folder / "usr" / "cuda-12.8" / "compat", **behaviour)
    world.remote.env["LD_LIBRARY_PATH"] = f"{folder}:{world.stubs.driver_folder}"
    return folder


def test_a_good_driver_passes(any_shell: World) -> None:
    """One attempt, one round trip, nothing for the job to change."""
    result = any_shell.check("cuda")
    assert dict(result.facts) == {
        "attempts": 1, "status": "passed", "basis": "session", "override": None, "removed": [],
        "error": None, "waited_s": 0, "devices": 1,
    }  # fmt: skip
    assert not result.env
    assert (any_shell.remote.asked, any_shell.stubs.calls()) == (1, "i")


def test_a_kernel_runs_on_every_gpu(any_shell: World) -> None:
    """Results are computed and compared on each of two GPUs, in one round trip."""
    any_shell.offered(gpu_count=2)
    any_shell.stubs.driver(devices=2, capability=90)
    result = any_shell.check("kernel")
    assert dict(result.facts) == {"gpus": 2, "capability": ["9.0", "9.0"]}
    assert (any_shell.remote.asked, any_shell.stubs.calls()) == (1, "ill")


@pytest.mark.parametrize(("error", "name"), [(100, "NO_DEVICE"), (999, "UNKNOWN"), (46, "")])
def test_a_driver_that_fails_is_bad(any_shell: World, error: int, name: str) -> None:
    """One attempt; the number, and the name where the driver has one, are in the reason and the receipt."""
    any_shell.stubs.driver(init=error)
    bad = any_shell.fails("cuda", BadHost)
    assert f"CUDA error {error}" in bad.message
    assert name in bad.message
    assert bad.facts["error"] == error
    assert bad.facts["status"] == "failed"
    assert any_shell.stubs.calls() == "i"


def test_d_037_804_with_a_compat_path_is_cleaned(any_shell: World) -> None:
    """A second, fresh process without that entry succeeds; the job gets its path; the receipt says so."""
    folder = compat(any_shell, init=804)
    result = any_shell.check("cuda")
    kept = str(any_shell.stubs.driver_folder)
    assert dict(result.env) == {"LD_LIBRARY_PATH": kept}
    assert result.facts["removed"] == [str(folder)]
    assert result.facts["override"] == kept
    assert (result.facts["attempts"], result.facts["error"]) == (2, 804)
    assert (any_shell.stubs.calls(folder), any_shell.stubs.calls()) == ("i", "i")


def test_d_037_the_kernel_runs_with_the_cleaned_path(world: World) -> None:
    """The kernel check finds the same way round, in a process of its own."""
    folder = compat(world, init=804)
    assert world.check("kernel").facts["gpus"] == 1
    assert (world.stubs.calls(folder), world.stubs.calls()) == ("i", "il")


def test_d_037_a_path_of_nothing_else_is_emptied(world: World) -> None:
    """Where every entry was for forward compatibility, the system's own library is used, or missing."""
    folder = compat(world, init=804)
    world.remote.env["LD_LIBRARY_PATH"] = str(folder)
    bad = world.fails("cuda", BadHost)
    assert "libcuda.so.1" in bad.message
    assert bad.facts["attempts"] == 2


def test_d_038_804_without_such_an_entry_is_bad_at_once(any_shell: World) -> None:
    """Exactly one attempt, and the number in the reason."""
    any_shell.stubs.driver(init=804)
    bad = any_shell.fails("cuda", BadHost)
    assert "804" in bad.message
    assert bad.facts["attempts"] == 1
    assert bad.facts["removed"] == []
    assert any_shell.stubs.calls() == "i"


def test_804_twice_is_bad(world: World) -> None:
    """There is one retry and no second one."""
    folder = compat(world, init=804)
    world.stubs.driver(init=804)
    bad = world.fails("cuda", BadHost)
    assert bad.facts["attempts"] == 2
    assert str(folder) in bad.message
    assert bad.facts["override"] is None


def test_a_retry_counts_only_with_the_path_that_was_asked_for(world: World) -> None:
    """A machine that puts its entries back hasn't been tried without them."""
    folder = compat(world, init=804)
    both = world.remote.env["LD_LIBRARY_PATH"]
    world.program(
        "python3",
        f'#!/bin/sh\n[ "$LD_LIBRARY_PATH" = {both} ] || LD_LIBRARY_PATH=/elsewhere:{world.stubs.driver_folder}\n'
        f'export LD_LIBRARY_PATH\nexec {sys.executable} "$@"\n',
    )
    bad = world.fails("cuda", BadHost)
    assert "804" in bad.message
    assert str(folder) in bad.message
    assert bad.facts["override"] is None
    assert world.stubs.calls() == "i"


def test_d_039_802_is_waited_for_and_then_bad(any_shell: World) -> None:
    """About three minutes of the machine's own clock; 802 in the reason; never the way of 804."""
    any_shell.fast_clock()
    folder = compat(any_shell, init=802)
    bad = any_shell.fails("cuda", BadHost)
    assert "802" in bad.message
    assert 180 <= bad.facts["waited_s"] < 190
    assert bad.facts["attempts"] == 38
    assert bad.facts["removed"] == []
    assert any_shell.stubs.calls() == ""
    assert any_shell.stubs.calls(folder) == "i" * 38
    assert any_shell.remote.asked == 2


def test_802_that_passes_away_is_fine(any_shell: World) -> None:
    """The third attempt finds the fabric up; nobody is blamed."""
    any_shell.fast_clock()
    any_shell.stubs.driver(not_ready=2)
    facts = any_shell.check("cuda").facts
    assert (facts["attempts"], facts["error"], facts["devices"]) == (3, None, 1)
    assert facts["waited_s"] == 5


@pytest.mark.parametrize("devices", [0, 1])
def test_fewer_devices_than_offered_is_bad(world: World, devices: int) -> None:
    """The driver counts fewer GPUs than nvidia-smi may show."""
    world.offered(gpu_count=2)
    world.stubs.driver(devices=devices)
    bad = world.fails("cuda", BadHost)
    assert f"2 GPU(s) were offered, CUDA counts {devices}" in bad.message
    assert bad.facts["devices"] == devices


def test_a_missing_driver_library_is_bad(world: World) -> None:
    """It is the host's to provide."""
    shutil.rmtree(world.stubs.driver_folder)
    assert "can't be loaded" in world.fails("cuda", BadHost).message


def test_no_python_is_unsuitable(any_shell: World) -> None:
    """The image is at fault, not the host."""
    (any_shell.folder / "tools" / "python3").unlink()
    for name in ("cuda", "kernel"):
        assert "no python3" in any_shell.fails(name, Unsuitable).message


def test_a_python_that_does_not_run_is_unsuitable(world: World) -> None:
    """Nor is the host blamed for one that is broken or lacks ctypes."""
    world.program("python3", "#!/bin/sh\nexit 1\n")
    world.fails("cuda", Unsuitable)
    world.program("python3", f"#!/bin/sh\nexec {sys.executable} -c 'import sys; sys.modules[\"ctypes\"] = None;"
                  " exec(sys.argv[3])' \"$@\"\n")  # fmt: skip
    assert "ctypes" in world.fails("cuda", Unsuitable).message


def test_a_driver_that_hangs_is_ended_and_bad(any_shell: World) -> None:
    """Each attempt has 30 s on the machine itself; a hung one isn't tried again."""
    limits = any_shell.hasty()
    any_shell.stubs.driver(hang=1)
    assert "did not answer within 30 s" in any_shell.fails("cuda", BadHost).message
    assert limits() == ["30"]


def test_a_kernel_that_hangs_is_ended_and_bad(world: World) -> None:
    """The GPU on which it hung is named."""
    limits = world.hasty()
    world.stubs.driver(hang=2)
    assert "on GPU 0" in world.fails("kernel", BadHost).message
    assert limits() == ["90"]


def test_a_process_that_cannot_be_ended_is_bad(world: World) -> None:
    """Where even the limit on the machine doesn't help, this side's own limit is the same verdict."""

    class Stuck:
        def ask(self, script: str, *, timeout_s: float) -> None:
            raise CommandTimeout("too slow")

    world.remote = Stuck()
    assert "did not answer" in world.fails("cuda", BadHost).message
    assert "hangs" in world.fails("gpu", BadHost).message


def test_a_driver_that_crashes_is_bad(world: World) -> None:
    """A process that dies of a signal inside the driver is the host's fault."""
    world.program("python3", "#!/bin/sh\nkill -SEGV $$\n")
    assert "signal 11" in world.fails("cuda", BadHost).message


@pytest.mark.parametrize(
    ("behaviour", "says"),
    [
        ({"launch": 719}, "cuCtxSynchronize failed on GPU 0: CUDA error 719 (CUDA_ERROR_LAUNCH_FAILED)"),
        ({"launch": 719, "on_device": 1}, "on GPU 1"),
        ({"load": 209}, "cuModuleLoadData failed on GPU 0: CUDA error 209"),
        ({"wrong": 1}, "512 of 1024 results are wrong"),
        ({"init": 999}, "999"),
    ],
)
def test_a_kernel_that_fails_is_bad(any_shell: World, behaviour: dict[str, int], says: str) -> None:
    """All looks well until the first kernel: number and GPU are named."""
    any_shell.stubs.driver(devices=2, **behaviour)
    any_shell.offered(gpu_count=2)
    if "init" not in behaviour:
        any_shell.check("cuda")
    bad = any_shell.fails("kernel", BadHost)
    assert "a kernel does not run" in bad.message
    assert says in bad.message
    assert bad.facts["error"] == behaviour.get("launch", behaviour.get("load", behaviour.get("init")))


def test_the_kernels_own_look_at_the_capability_counts(world: World) -> None:
    """Where nvidia-smi doesn't tell it, the driver does."""
    world.wants(min_compute_capability="8.0")
    world.stubs.driver(capability=75)
    assert "7.5" in world.fails("kernel", Unsuitable).message


def test_the_first_process_has_the_containers_own_path(any_shell: World) -> None:
    """An SSH session lacks it; the check uses it and the job gets it."""
    folder = str(any_shell.stubs.driver_folder)
    (any_shell.remote.root / "environ").write_bytes(f"A=1\0LD_LIBRARY_PATH={folder}\0B=2\0".encode())
    any_shell.remote.env["LD_LIBRARY_PATH"] = "/nowhere"
    result = any_shell.check("cuda")
    assert result.facts["basis"] == "first-process"
    assert dict(result.env) == {"LD_LIBRARY_PATH": folder}


def test_an_unreadable_first_process_leaves_the_session(any_shell: World) -> None:
    """On a VM the first process is somebody else's."""
    (any_shell.remote.root / "environ").unlink()
    assert any_shell.check("cuda").facts["basis"] == "session"


def test_the_job_files_own_path_counts(world: World) -> None:
    """What the job sets itself is what is tried."""
    world.own_path(str(world.stubs.driver_folder))
    world.remote.env["LD_LIBRARY_PATH"] = "/nowhere"
    result = world.check("cuda")
    assert result.facts["basis"] == "job"
    assert not result.env


@pytest.mark.parametrize(
    ("path", "kept", "removed"),
    [
        ("/usr/local/cuda-12.8/compat:/x", "/x", ("/usr/local/cuda-12.8/compat",)),
        ("/usr/local/cuda/compat/:/x", "/x", ("/usr/local/cuda/compat/",)),
        ("/opt/cuda-compat-12-8/lib:/x:", "/x:", ("/opt/cuda-compat-12-8/lib",)),
        ("/opt/compat:/usr/local/cuda/lib64:/usr/compat/cuda", None, ()),
        ("/usr/local/cuda/compat", "", ("/usr/local/cuda/compat",)),
        ("", None, ()),
    ],
)  # fmt: skip
def test_only_entries_for_forward_compatibility_go(
    path: str, kept: str | None, removed: tuple[str, ...]
) -> None:
    """A last part `compat` under a folder `cuda...`, or any part `cuda-compat-...`; nothing else."""
    assert cuda_driving.without_compat(path) == (path if kept is None else kept, removed)


@given(st.text(max_size=200))
def test_any_answer_can_be_read(text: str) -> None:
    """Nonsense is an attempt that failed; nothing of it raises."""
    for begin in ("", "0 1 0 session\n", "0 1 0 session\n{"):
        answer = cuda_answer.read(begin + text)
        assert answer.count is None or isinstance(answer.count, int)
        assert answer.no_python or answer.fault(30) or answer.count is not None
