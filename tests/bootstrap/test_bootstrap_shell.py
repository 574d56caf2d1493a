"""The bootstrap in bare POSIX shells: what it sets, what it leaves alone, and that it can't do harm."""

from __future__ import annotations

import re

import pytest
from bootstrap.bare_machine import BareMachine, Seen, gpu

from gipper.bootstrap import ALLOWED, script

KEYS = re.compile("KEY|TOKEN|SECRET|PASS|AUTH|CRED|COOKIE|PRIVATE")
_SHELLS_OWN = {"PWD", "OLDPWD", "SHLVL", "_"}
_SETS = {"GIPPER_BOOTSTRAPPED", "GIPPER_TORCH_CUDA", "GIPPER_TORCH_INDEX", "PIP_DISABLE_PIP_VERSION_CHECK"}


def ours(seen: Seen) -> dict[str, str]:
    """The environment without what shells set by themselves."""
    return {k: v for k, v in seen.env.items() if k not in _SHELLS_OWN}


def test_it_sets_what_is_promised_and_nothing_else(machine: BareMachine) -> None:
    """In an empty environment: PATH with ~/.local/bin, pip's notice off, the index. No helper's variable."""
    machine.gpus(gpu())
    seen = machine.source()
    assert set(ours(seen)) == {"HOME", "PATH", *_SETS}
    assert seen.env["PATH"] == f"{machine.home}/.local/bin:{machine.path}"
    assert seen.env["PIP_DISABLE_PIP_VERSION_CHECK"] == "1"


def test_it_leaves_nothing_in_the_shell(machine: BareMachine) -> None:
    """Variables that aren't exported, functions and options of the shell are as they were."""
    look = "set | grep -v '^_=' | sed 's/^BASH_EXECUTION.*//'; echo \"options $-\"; pwd; umask"
    (machine.bin / "grep").symlink_to("/bin/grep")
    text = f"GIPPER_BOOTSTRAPPED= ; {look} >{machine.root}/a\n. {machine.root}/bootstrap.sh\n{look} >{machine.root}/b\n"
    machine.source()
    done = machine.run(text, {"HOME": str(machine.home), "PATH": machine.path})
    assert done.returncode == 0, done
    before, after = ((machine.root / n).read_text().splitlines() for n in "ab")
    names = {line.partition("=")[0] for line in set(after) ^ set(before)}
    assert names - _SHELLS_OWN <= _SETS | {
        "PATH",
        "PIPESTATUS",
        "LINENO",
        "FUNCNAME",
        "RANDOM",
        "SRANDOM",
        "EPOCHSECONDS",
        "EPOCHREALTIME",
    }, names


@pytest.mark.parametrize("options", ["set -eu", "set -f", "set -C", "IFS=x", "set -e; set -u; IFS=; cd /"])
def test_it_stands_any_shell(machine: BareMachine, options: str) -> None:
    """Strict shells, no globbing, no clobbering, an odd IFS: the same result."""
    machine.gpus(gpu())
    assert ours(machine.source(before=options)) == ours(machine.source())


def test_a_strict_shell_stands_what_fails(machine: BareMachine) -> None:
    """Errors that end a strict shell, nothing to be had and a state file to be replaced: all is set."""
    (machine.bin / "uv").unlink()
    machine.program("nvidia-smi", "exit 9")
    (machine.root / "state.tmp").touch()
    seen = machine.source(before=f"set -euC; GIPPER_BOOTSTRAP_STATE={machine.root}/state")
    assert seen.env["GIPPER_BOOTSTRAPPED"] == "1" and len(seen.lines) == 2
    assert (machine.root / "state").exists()


def test_the_second_sourcing_changes_nothing(machine: BareMachine) -> None:
    """Idempotent and quiet: same environment, same lines, nvidia-smi asked once."""
    machine.gpus(gpu())
    machine.first_process(PATH="/opt/conda/bin:/usr/bin", CUDA_HOME="/usr/local/cuda")
    (machine.root / "workspace").mkdir()
    once = machine.source()
    asked = machine.asked()
    twice = machine.source(times=2)
    assert ours(twice) == ours(once)
    assert twice.lines == once.lines
    assert machine.asked() == 2 * asked == 2


def test_even_without_its_mark_it_changes_nothing(machine: BareMachine) -> None:
    """A shell that got the variables but not the mark: PATH doesn't grow, nothing is set anew."""
    machine.first_process(PATH="/opt/conda/bin")
    once = machine.source()
    again = machine.source(env={**ours(once), "GIPPER_BOOTSTRAPPED": "UNSET"})
    assert ours(again) == ours(once)


def test_shells_of_one_run_share_what_was_found(machine: BareMachine) -> None:
    """With a state file the second shell gets the same variables without a question or a line."""
    machine.gpus(gpu())
    state = f"GIPPER_BOOTSTRAP_STATE={machine.root}/state"
    first = machine.source(before=state)
    second = machine.source(before=state)
    assert ours(second) == ours(first)
    assert (second.lines, machine.asked()) == ([], 1)


def test_a_state_file_that_cannot_be_written_does_no_harm(machine: BareMachine) -> None:
    """The variables are set all the same, and quietly."""
    machine.gpus(gpu())
    seen = machine.source(before="GIPPER_BOOTSTRAP_STATE=/nonexistent/state")
    assert seen.tag == "cu130" and len(seen.lines) == 2


@pytest.mark.parametrize("home", ["UNSET", "/nonexistent", ""])
def test_a_shell_without_a_home(one: BareMachine, home: str) -> None:
    """No HOME, or one that isn't there: the rest is set."""
    seen = one.source(env={"HOME": home})
    assert seen.env["PIP_DISABLE_PIP_VERSION_CHECK"] == "1"


@pytest.mark.parametrize("name", ["PIP_DISABLE_PIP_VERSION_CHECK", "HF_HOME", "UV_CACHE_DIR"])
@pytest.mark.parametrize("value", ["mine", ""])
def test_what_is_set_stays(one: BareMachine, name: str, value: str) -> None:
    """Nothing that somebody has set is overridden, not even what was set to nothing."""
    (one.root / "workspace").mkdir()
    one.first_process(HF_HOME="/image/hf")
    assert one.source(env={name: value}).env[name] == value


def test_caches_lie_on_the_volume(machine: BareMachine) -> None:
    """A writable volume at the usual place gets the caches; nothing is left of the try."""
    (machine.root / "workspace").mkdir()
    seen = machine.source()
    assert seen.env["HF_HOME"] == f"{machine.root}/workspace/.cache/huggingface"
    assert seen.env["UV_CACHE_DIR"] == f"{machine.root}/workspace/.cache/uv"
    assert not list((machine.root / "workspace").iterdir())


def test_a_plugins_own_mount_goes_before(machine: BareMachine) -> None:
    """GIPPER_VOLUME names the volume, also in the first process's environment, with an odd name too."""
    (machine.root / "workspace").mkdir()
    volume = machine.root / "it's a $volume"
    volume.mkdir()
    for given in ({"GIPPER_VOLUME": str(volume)}, {}):
        machine.first_process(GIPPER_VOLUME=str(volume))
        seen = machine.source(env=given)
        assert seen.env["HF_HOME"] == f"{volume}/.cache/huggingface"


def test_no_volume_no_caches(machine: BareMachine) -> None:
    """Without a volume nothing is set and nothing is said; a mount that isn't there is said."""
    assert not {"HF_HOME", "UV_CACHE_DIR"} & set(machine.source().env)
    seen = machine.source(env={"GIPPER_VOLUME": "/nonexistent"})
    assert not {"HF_HOME", "UV_CACHE_DIR"} & set(seen.env)
    assert (
        seen.lines[0]
        == "gipper: the volume /nonexistent can't be written to: caches stay on the machine's own disk"
    )


def test_a_volume_that_cannot_be_written_is_none(machine: BareMachine) -> None:
    """Only a try to write counts: /proc says that root may write and lets nobody."""
    seen = machine.source(env={"GIPPER_VOLUME": "/proc/self"})
    assert "HF_HOME" not in seen.env
    assert "can't be written" in seen.lines[0]


def test_the_images_variables_arrive(machine: BareMachine) -> None:
    """What a job needs of the first process's environment is there, also with quotes and spaces."""
    image = {"CUDA_HOME": "/usr/local/cuda 12's", "LD_LIBRARY_PATH": "/a:$(touch /tmp/x)`id`", "TZ": "UTC"}
    machine.first_process(**image)
    assert image.items() <= machine.source().env.items()


def test_the_images_variables_override_nothing(machine: BareMachine) -> None:
    """A library path that a check or the job file set to nothing stays nothing."""
    machine.first_process(LD_LIBRARY_PATH="/usr/local/cuda/compat")
    assert machine.source(env={"LD_LIBRARY_PATH": ""}).env["LD_LIBRARY_PATH"] == ""


def test_keys_of_the_first_process_never_arrive(machine: BareMachine) -> None:
    """Not in the environment, not in the lines, not in the state file, whatever they are called."""
    names = ("MARKET_API_KEY", "CONTAINER_API_KEY", "HF_TOKEN", "NVIDIA_API_KEY", "CUDA_SECRET", "SSH_PUBLIC_KEY",
             "JUPYTER_TOKEN", "AWS_SECRET_ACCESS_KEY", "CUDA_HOME CUDA_PATH")  # fmt: skip
    machine.first_process(**dict.fromkeys(names, "s3cr3t"))
    seen = machine.source(before=f"GIPPER_BOOTSTRAP_STATE={machine.root}/state")
    assert seen.env["GIPPER_BOOTSTRAPPED"] == "1"
    told = f"{seen.env} {seen.lines} {seen.out} {(machine.root / 'state').read_text()}"
    assert "s3cr3t" not in told
    assert not set(names) & set(seen.env)


def test_the_list_names_no_key() -> None:
    """The list has plain names alone: no pattern, and nothing that sounds like a key."""
    assert all(re.fullmatch("[A-Z][A-Z0-9_]*", name) for name in ALLOWED)
    assert not [name for name in ALLOWED if KEYS.search(name)]


def test_a_line_break_in_a_value_makes_no_variable(machine: BareMachine) -> None:
    """Neither the value with the break nor what stands behind it gets in."""
    machine.first_process(TZ="UTC\nCUDA_HOME=/evil", NOTE="x\nPATH=/evil", CUDA_PATH="/good")
    seen = machine.source()
    assert seen.env["CUDA_PATH"] == "/good"
    assert not {"TZ", "CUDA_HOME"} & set(seen.env) and "/evil" not in seen.env["PATH"]


def test_no_first_process_to_read(machine: BareMachine) -> None:
    """Another user's first process can't be read: nothing is said."""
    machine.first.unlink()
    assert len(machine.source().lines) == 1


def test_the_images_path_goes_before_the_sessions(machine: BareMachine) -> None:
    """The image's own folders come first and in their order, each once; relative ones are left out."""
    machine.first_process(PATH=f"/opt/conda/bin:.:/opt/nvidia/bin:{machine.path}:/opt/conda/bin::*:/*")
    assert (
        machine.source().env["PATH"]
        == f"{machine.home}/.local/bin:/opt/conda/bin:/opt/nvidia/bin:/*:{machine.path}"
    )


def test_a_job_files_own_path_stays_in_front(machine: BareMachine) -> None:
    """Nothing can hide a program of the PATH that the job file set."""
    machine.own_path = True
    machine.first_process(PATH="/opt/conda/bin")
    assert machine.source().env["PATH"] == f"{machine.path}:{machine.home}/.local/bin:/opt/conda/bin"


def test_the_text_is_plain_and_small() -> None:
    """ASCII, no comment, no NUL, under 8 KiB: it travels with each job."""
    text = script()
    assert text.isascii() and "\0" not in text and len(text) < 8192
    assert not [line for line in text.splitlines() if line.startswith("#")]


def test_a_full_log_does_no_harm(machine: BareMachine) -> None:
    """A shell whose stdout and stderr can't be written to still gets its variables."""
    assert machine.source(before="exec >/dev/full 2>&1").env["GIPPER_BOOTSTRAPPED"] == "1"
