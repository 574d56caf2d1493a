"""The first thing that anybody types: `gipper pod run examples/hello.toml` with an empty HOME."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from support_cli import Done, World, closing

EXAMPLES = Path(__file__).parents[2] / "examples"
STORY = [
    "run.start", "estimate", "pod.intent", "pod.create", "pod.ready", "watchdog.armed", "custody.upload", "job.start", "job.end",
    "sync", "pod.terminate", "pod.terminated", "spend", "run.end",
]  # fmt: skip


@pytest.fixture(scope="module")
def hello(shared: World) -> tuple[World, Done]:
    """The example, copied and run once."""
    for name in ("hello.toml", "hello-input.txt"):
        shutil.copy(EXAMPLES / name, shared.work)
    return shared, shared.gipper("pod", "run", "hello.toml")


def test_hello_succeeds_and_says_four_things(hello: tuple[World, Done]) -> None:
    """It ends with where outputs are, the phases, the cost, and the machine's proof with two times."""
    user, done = hello
    assert done.code == 0, done.all
    outputs, phases, cost, machine = closing(done)
    assert outputs.startswith(f"outputs: {user.work / 'hello-out'}")
    assert phases.startswith("phases: ") and "command" in phases
    assert re.match(r"cost: \$0\.0+ ", cost)
    clock = r"\d\d:\d\d:\d\d\.\d{3}"
    assert re.search(rf"^machine \S+ \(local\) gone: not listed at {clock} and {clock}", machine)


def test_hello_brings_the_right_outputs_home(hello: tuple[World, Done]) -> None:
    """The outputs are what the job made of its input."""
    user, _done = hello
    text = (user.work / "hello-input.txt").read_text()
    assert (user.work / "hello-out" / "greeting.txt").read_text() == text.upper()
    assert int((user.work / "hello-out" / "words.txt").read_text()) == len(text.split())


def test_the_ledger_tells_the_story_in_order(hello: tuple[World, Done]) -> None:
    """Read receipt by receipt the run's ledger is the whole story, and its chain is whole."""
    user, _done = hello
    receipts = user.receipts()
    assert [r.kind for r in receipts if r.kind != "preflight"] == STORY
    assert len({r.run for r in receipts}) == 1
    assert user.gipper("ledger", "verify").code == 0
    by_kind = {r.kind: r for r in receipts}
    assert len({by_kind[k]["pod"] for k in STORY if k.startswith(("pod.c", "job", "pod.t", "spend"))}) == 1
    assert by_kind["pod.intent"]["name"] == by_kind["pod.create"]["name"]
    assert (by_kind["job.end"]["exit_code"], by_kind["run.end"]["outcome"]) == (0, "succeeded")
    first, second = by_kind["pod.terminated"]["listings"]
    assert by_kind["pod.terminate"]["answered"] <= first < second


def test_it_keeps_to_its_own_folders(hello: tuple[World, Done]) -> None:
    """Nothing is left but the outputs and gipper's own folders: no machine, no process, no ~/.ssh."""
    user, _done = hello
    assert sorted(p.name for p in user.home.iterdir()) == ["data", "keys", "work"]
    assert sorted(p.name for p in user.work.iterdir()) == ["hello-input.txt", "hello-out", "hello.toml"]
    assert user.machines() == []
    assert user.processes() == {}


def test_what_it_keeps_is_private(hello: tuple[World, Done]) -> None:
    """No file of gipper's own can be read by others."""
    user, _done = hello
    kept = [p for folder in ("data", "keys") for p in (user.home / folder).rglob("*") if p.is_file()]
    wide = [p for p in kept if p.stat().st_mode & 0o077 and p.suffix != ".pub"]
    closed = [p for p in wide if not any(q.stat().st_mode & 0o077 == 0 for q in _up_to(p, user.home))]
    assert kept
    assert closed == []


def _up_to(path: Path, top: Path) -> list[Path]:
    return [p for p in path.parents if top in p.parents]


def test_afterwards_the_commands_that_read_agree(hello: tuple[World, Done]) -> None:
    """`ls`, `logs`, `cost`, `ledger --job`, `reap` and `doctor` tell of the same run."""
    user, _done = hello
    run = user.receipts("run.start")[0].run
    assert run not in user.gipper("pod", "ls").out
    logs = user.gipper("pod", "logs", run)
    assert (logs.code, logs.raw) == (0, (user.data / "runs" / run / "log").read_bytes())
    cost = user.gipper("pod", "cost")
    assert cost.code == 0 and "hello" in cost.out and "succeeded" in cost.out
    assert len(user.gipper("ledger", "--job", run).lines) >= len(STORY)
    assert "nothing to reap" in user.gipper("pod", "reap").out
    assert user.gipper("doctor").code == 0
    assert user.gipper("pod", "logs", "0000000000").code == 2


def test_an_empty_home_is_nothing_to_complain_of(user: World) -> None:
    """`doctor`, `pod ls`, `pod cost`, `ledger` and `ledger verify` answer before anything was ever run."""
    for words in (["doctor"], ["pod", "ls"], ["pod", "cost"], ["ledger"], ["ledger", "verify"], ["plugins"]):
        done = user.gipper(*words)
        assert done.code == 0, f"{words}: {done.all}"
        assert "Traceback" not in done.all


def test_the_default_folders_lie_under_home(user: World) -> None:
    """With nothing but HOME set, everything lies under it, and the run works."""
    for name in ("GIPPER_DATA", "GIPPER_CONFIG", "GIPPER_KEYS"):
        del user.env[name]
    before = set(os.listdir("/tmp"))
    done = user.gipper("pod", "run", user.job("mkdir out; echo hi > out/a"))
    assert done.code == 0, done.all
    assert sorted(p.name for p in user.home.iterdir()) == [".config", ".local", "work"]
    assert not [n for n in set(os.listdir("/tmp")) - before if "gipper" in n]
