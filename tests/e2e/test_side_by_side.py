"""Two runs at once, what others see of a run meanwhile, and the Python API."""

from __future__ import annotations

import subprocess
import sys

from support_cli import World

SCRIPT = """
import sys
from gipper import ledger, run
from gipper.job import load
from gipper.providers import load as provider

job = load(sys.argv[1])
plan = run.plan(job, provider="local")
print(plan.ranked[0]["usd_h"], plan.ranked[0].estimate["usd"])
local = provider("local")
print(local.name, local.key_name, local.has_key(), len(local.list_ours()))
seen = []
result = run.run(job, provider="local", preflight=lambda *given: seen.append(1) or {"FROM_CHECK": "yes"})
print(result.run, result.outcome.value, len(seen))
receipts = list(ledger.read(job=result.run))
print(receipts[0]["job"], receipts[0].run == receipts[0]["run"] == result.run, receipts[-1]["outcome"])
print(type(next(iter(ledger.read(kinds=["spend"])))["usd"]).__name__)
"""


def test_two_runs_at_once(user: World) -> None:
    """Two runs of one user at once both succeed, on machines of their own, in one whole ledger."""
    jobs = [
        user.job(
            f"mkdir out; echo begun; while [ ! -f {user.work}/go ]; do sleep 0.1; done; echo {n} > out/a; pwd > out/p",
            file=f"{n}.toml", outputs=[{"src": "out", "dst": f"out-{n}"}],
        )
        for n in ("one", "two")
    ]  # fmt: skip
    running = [user.start("pod", "run", job) for job in jobs]
    for each in running:
        each.wait_for_text("begun")
    listed = user.gipper("pod", "ls")
    assert listed.code == 0
    for receipt in user.receipts("pod.create"):
        assert any(str(receipt["pod"]) in line and "running" in line for line in listed.lines), listed.out
    reaped = user.gipper("pod", "reap")
    assert reaped.out.count("left local") == 2 and "alive" in reaped.out
    (user.work / "go").touch()
    for each in running:
        done = each.wait()
        assert done.code == 0, done.all
    places = [(user.work / f"out-{n}" / "p").read_text() for n in ("one", "two")]
    assert [(user.work / f"out-{n}" / "a").read_text() for n in ("one", "two")] == ["one\n", "two\n"]
    assert places[0] != places[1]
    user.sound()
    assert user.gipper("pod", "ls").lines[1:] == []


def test_the_python_api(user: World) -> None:
    """Plan, run, provider and ledger through the public import paths."""
    script = user.work / "script.py"
    script.write_text(SCRIPT)
    job = user.job("mkdir out; echo $FROM_CHECK > out/a")
    done = subprocess.run(
        [sys.executable, str(script), str(job)], env=user.env, cwd=user.work, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    run_id = user.receipts("run.start")[0].run
    lines = done.stdout.splitlines()
    assert lines[1:] == [
        "local None True 0", f"{run_id} succeeded 1", f"{run_id} True succeeded", "Decimal",
    ]  # fmt: skip
    assert user.out("a").read_text() == "yes\n"
    user.sound()
