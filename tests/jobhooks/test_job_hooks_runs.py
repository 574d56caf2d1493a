"""The example with hooks, and `gipper hooks`, as a user types them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support_cli import World

EXAMPLE = Path(__file__).resolve().parent.parent.parent / "examples" / "job-with-hooks"
OBSERVER = """
import pathlib


@hookimpl
def gipper_receipt_written(receipt):
    with (pathlib.Path(__file__).parent / "seen").open("a") as out:
        out.write(receipt.kind + "\\n")


@hookimpl
def gipper_classify_upload(path, head):
    return "the team's secret" if b"internal" in head else None
"""


@pytest.fixture
def example(user: World) -> Path:
    """A copy of the example that only its owner can write; its job file."""
    folder = user.work / "example"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("hello-out", "__pycache__"))
    for path in (folder, *folder.iterdir()):
        path.chmod(path.stat().st_mode & ~0o022)
    return folder / "job.toml"


def edited(file: Path, old: str, new: str) -> None:
    """Replace `old` once."""
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


def test_allow_once_run_then_edit(user: World, example: Path) -> None:
    """Refused, allowed, run with hash and names in the first receipt; after an edit refused again."""
    hooks = example.with_name("gipper_hooks.py")
    first = user.gipper("pod", "run", example)
    assert first.code == 2 and f"gipper hooks allow {hooks}" in first.err, first.all
    allowed = user.gipper("hooks", "allow", hooks)
    assert allowed.code == 0 and "gipper_adjust_costs gipper_exclude_offers gipper_preflight" in allowed.out
    done = user.gipper("pod", "run", example)
    assert done.code == 0, done.all
    assert example.with_name("hello-out").joinpath("driver.txt").read_text() == "driver: none\n"
    (start,) = user.receipts("run.start")
    (sha,) = [e["sha256"] for e in json.loads(user.gipper("hooks", "list", "--json").out)]
    assert start["hooks"] == {
        str(hooks): f"sha256:{sha} gipper_adjust_costs gipper_exclude_offers gipper_preflight"
    }
    (check,) = [r for r in user.receipts("preflight") if r["check"] == str(hooks)]
    assert check["verdict"] == "passed" and check["facts"] == {"driver": "none"}
    edited(hooks, "SURCHARGE_USD = 0.05", "SURCHARGE_USD = 0.06")
    again = user.gipper("pod", "run", example)
    assert again.code == 2 and "changed since it was allowed" in again.err, again.all
    assert user.kinds().count("run.start") == 1
    user.sound()


def test_estimate_shows_the_surcharge(user: World, example: Path) -> None:
    """The adjustment stands in the estimate under its label; --allow-hooks holds for that call alone."""
    done = user.gipper("pod", "estimate", example, "--allow-hooks")
    assert done.code == 0 and "+ $0.050000  internal surcharge" in done.out, done.all
    assert user.gipper("pod", "estimate", example).code == 2
    assert user.gipper("job", "check", example).code == 2
    assert user.gipper("job", "check", example, "--allow-hooks").code == 0


def test_an_exclusion_is_told_with_its_reason(user: World, example: Path) -> None:
    """Nothing fits, the note says whose reason it was, nothing is rented."""
    edited(example, 'MIN_RAM_GB = "0.5"', 'MIN_RAM_GB = "1000000"')
    done = user.gipper("pod", "run", example, "--allow-hooks")
    assert done.code == 3 and "gipper_hooks.py: less than 1e+06 GB of memory" in done.err, done.all
    assert "pod.intent" not in user.kinds()


def test_an_old_driver_replaces_the_host_without_blame(user: World, example: Path) -> None:
    """Below the floor the preflight says Unsuitable: its receipt holds it, the machine is given back."""
    folder = user.home / "bin"
    folder.mkdir()
    (folder / "nvidia-smi").write_text("#!/bin/sh\necho 470.199.02\n")
    (folder / "nvidia-smi").chmod(0o755)
    user.env["PATH"] = f"{folder}:{user.env['PATH']}"
    done = user.gipper("pod", "run", example, "--allow-hooks")
    assert done.code == 3, done.all
    verdicts = [r for r in user.receipts("preflight") if r["check"].endswith("gipper_hooks.py")]
    assert verdicts and all(r["verdict"] == "Unsuitable" for r in verdicts)
    assert "driver 470.199.02 is older than 550" in str(verdicts[0]["facts"])
    user.sound()


def test_a_misspelt_hook_rents_nothing(user: World, example: Path) -> None:
    """A preflight that would silently vanish is exit 2, with the name that was meant."""
    edited(example.with_name("gipper_hooks.py"), "def gipper_preflight(", "def gipper_preflihgt(")
    for command in (("pod", "run"), ("pod", "run", "--dry-run"), ("pod", "estimate"), ("job", "check")):
        done = user.gipper(*command, example, "--allow-hooks")
        assert done.code == 2 and "did you mean gipper_preflight?" in done.err, done.all
        assert "Traceback" not in done.all
    assert "run.start" not in user.kinds()
    assert user.gipper("hooks", "allow", example.with_name("gipper_hooks.py")).code == 2


def test_a_hook_that_breaks_is_told_with_its_line(user: World, example: Path) -> None:
    """An exception in a planning hook ends the run with 4, file and line, before anything is rented."""
    hooks = example.with_name("gipper_hooks.py")
    edited(hooks, "least = float(", "least = 1 / 0 + float(")
    line = (
        hooks.read_text().splitlines().index('    least = 1 / 0 + float(job.pod.env.get("MIN_RAM_GB", "0"))')
    )
    done = user.gipper("pod", "run", example, "--allow-hooks")
    assert (
        done.code == 4
        and f"{hooks}: gipper_exclude_offers raised ZeroDivisionError in line {line + 1}" in done.err
    )
    assert "pod.intent" not in user.kinds() and "Traceback" not in done.all


def test_observers_and_sensitive_rules(user: World, example: Path) -> None:
    """A job's observer hears of its own run and of no later command; its rule flags an upload."""
    hooks = example.with_name("gipper_hooks.py")
    hooks.write_text(hooks.read_text() + OBSERVER)
    (example.parent / "memo.txt").write_text("internal")
    example.write_text(example.read_text() + '\n[[inputs]]\nsrc = "memo.txt"\n')
    done = user.gipper("pod", "run", example, "--allow-hooks")
    assert done.code == 0 and "memo.txt: the team's secret" in done.err, done.all
    seen = example.with_name("seen").read_text().splitlines()
    assert seen[0] == "run.start" and seen[-1] == "run.end" and "pod.terminated" in seen
    for command in (("pod", "ls"), ("pod", "reap"), ("pod", "cost")):
        assert user.gipper(*command).code == 0
    assert example.with_name("seen").read_text().splitlines() == seen


def test_attach_needs_no_hooks(user: World, example: Path) -> None:
    """A run goes on and ends although its hooks file is gone and was never allowed."""
    edited(example, 'command = "', 'command = "until [ -e ../go ]; do sleep 0.05; done; ')
    left = user.gipper("pod", "run", example, "--allow-hooks", "--detach", "--unattended")
    assert left.code == 0, left.all
    run = user.receipts("run.start")[0].run
    example.with_name("gipper_hooks.py").unlink()
    (next(iter(user.machines())) / "home").exists()
    stopped = user.gipper("pod", "stop", run)
    assert stopped.code == 1 and "hooks" not in stopped.err, stopped.all
    user.sound()


def test_list_tells_what_became_of_a_file(user: World, example: Path) -> None:
    """As allowed, changed, refused, gone; revoking is idempotent and works for a file that is gone."""
    hooks = example.with_name("gipper_hooks.py")
    assert user.gipper("hooks", "allow", hooks).code == 0

    def now() -> str:
        (row,) = json.loads(user.gipper("hooks", "list", "--json").out)
        return str(row["now"])

    assert now() == "as allowed"
    hooks.write_text(hooks.read_text() + "# more\n")
    assert now() == "changed"
    hooks.chmod(0o666)
    assert now() == "refused"
    hooks.unlink()
    assert now() == "gone"
    assert "revoked" in user.gipper("hooks", "revoke", hooks).out
    assert "was not allowed" in user.gipper("hooks", "revoke", hooks).out
    assert json.loads(user.gipper("hooks", "list", "--json").out) == []


def test_allow_executes_nothing_and_allows_all_or_none(user: World, example: Path) -> None:
    """Only the text is read; one file that can't be used keeps the others from being allowed."""
    hooks = example.with_name("gipper_hooks.py")
    hooks.write_text(hooks.read_text() + "\n(__import__('pathlib').Path(__file__).parent / 'ran').touch()\n")
    assert user.gipper("hooks", "allow", hooks, hooks.with_name("nosuch.py")).code == 2
    assert json.loads(user.gipper("hooks", "list", "--json").out) == []
    assert user.gipper("hooks", "allow", hooks).code == 0
    assert not hooks.with_name("ran").exists()
