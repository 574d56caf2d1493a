"""`gipper pod estimate`: the best offers, and everything that makes the best one's score."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support_cli import World

_NUMBER = r"([0-9.]+)"
_PROBE = """
import json, sys
sys.argv = ["gipper", *json.loads(sys.argv[1])]
from gipper.__main__ import main
code = main()
sys.stdout.flush()
print("\\nIMPORTED " + json.dumps(sorted(sys.modules)), file=sys.stderr)
raise SystemExit(code)
"""


def named(done) -> list[tuple[str, str]]:
    """The lines about the best offer as (name, text)."""
    cut = done.lines.index("")
    return [(line[:11].strip(), line[12:]) for line in done.lines[cut + 1 :]]


def numbers(text: str) -> list[float]:
    return [float(n) for n in re.findall(_NUMBER, text)]


def worked_out(lines: list[tuple[str, str]]) -> tuple[float, float, float]:
    """(seconds, expected dollars, score) from what is printed, by the formulas of the documentation."""
    one = dict(lines)
    seconds = sum(float(n) for n in re.findall(rf"[a-z]+ {_NUMBER}(?: \+| =)", one["seconds"]))
    usd_h = float(re.search(rf"\${_NUMBER}/h", one["rental"])[1])
    factor, extra = float(re.search(rf"× {_NUMBER}", one["billing"])[1]), 0.0
    for name, text in lines:
        if name == "adjustment" and "×" in text:
            factor *= numbers(text)[0]
        elif name == "adjustment":
            extra += numbers(text)[0] * (-1 if text.startswith("-") else 1)
    expected = seconds / 3600 * usd_h * factor + numbers(one["bandwidth"])[0] + extra
    p, _, failure, ready, notice, _, hour_usd, hour_value = numbers(one["host risk"])
    assert hour_usd == usd_h
    risk = p * (failure + (ready + notice) / 3600 * (usd_h + hour_value))
    return seconds, expected, expected + risk + hour_value * seconds / 3600


def test_the_best_score_can_be_worked_out_by_hand(shopper: World, job_file: Path) -> None:
    """Every figure of the score is printed: fees, a factor, a surcharge; the sums come out as printed."""
    done = shopper.gipper("pod", "estimate", job_file, "--provider", "acme")
    assert done.code == 0, done.all
    lines = named(done)
    seconds, expected, score = worked_out(lines)
    one = dict(lines)
    assert seconds == pytest.approx(numbers(one["seconds"])[-1], abs=0.04)
    assert expected == pytest.approx(numbers(one["expected"])[0], abs=1e-4)
    assert score == pytest.approx(numbers(one["score"])[0], abs=1e-4)
    labels = [text for name, text in lines if name == "adjustment"]
    assert any("minimum charge" in t for t in labels) and any("loading is free" in t for t in labels)


def test_what_is_printed_is_the_wire_format(shopper: World, job_file: Path) -> None:
    """JSON and text tell the same offer with the same figures."""
    text = dict(named(shopper.gipper("pod", "estimate", job_file, "--provider", "acme")))
    best = json.loads(shopper.gipper("pod", "estimate", job_file, "--provider", "acme", "--json").out)[0]
    assert text["best"].startswith(f"acme {best['offer']}:")
    assert numbers(text["score"])[0] == pytest.approx(best["score"], abs=1e-6)
    assert numbers(text["host risk"])[0] == pytest.approx(best["p_fail"], abs=1e-6)
    assert best["usd"] == best["estimated_total_usd"] and best["phases_s"]["compute"] == 900
    assert best["upload_gb"] == pytest.approx(0.004)


def test_fees_that_are_not_told_make_a_lower_bound(shopper: World, job_file: Path) -> None:
    """A market that doesn't tell its fees is said to be a lower bound."""
    text = dict(named(shopper.gipper("pod", "estimate", job_file, "--provider", "untold")))
    assert "fees not advertised: a lower bound" in text["bandwidth"]


def test_how_the_machine_ends_without_the_client(shopper: World, job_file: Path) -> None:
    """Watchdog, own deadline, or only the reaper: what the provider has."""
    ends = {
        name: dict(named(shopper.gipper("pod", "estimate", job_file, "--provider", name)))["end"]
        for name in ("acme", "untold")
    }
    assert "a watchdog on the machine" in ends["acme"]
    assert "only the reaper" in ends["untold"]
    local = shopper.job("true", file="local.toml")
    assert "own deadline" in dict(named(shopper.gipper("pod", "estimate", local)))["end"]


def test_few_observations_make_a_span(shopper: World, job_file: Path) -> None:
    """Minutes are a span with history thin, and the span is told again with dollars."""
    done = shopper.gipper("pod", "estimate", job_file, "--provider", "acme")
    assert re.search(r"\d+–\d+", done.lines[1])
    between = dict(named(done))["between"]
    assert re.fullmatch(r"\d+–\d+ min, \$[\d.]+–[\d.]+ in four runs of five, from few observations", between)


def test_throughput_and_gpu_are_honoured(shopper: World) -> None:
    """--throughput sets computing time from units.count; --gpu leaves only that model."""
    job = shopper.job(
        "true", file="units.toml", gpu={"min_mem_gb": 4}, units={"count": 6000}, budget={"max_usd": 5.0}
    )
    told = json.loads(
        shopper.gipper("pod", "estimate", job, "--throughput", "10", "--gpu", "T4", "--json").out
    )
    assert {t["gpu"] for t in told} == {"T4"}
    assert {t["compute_s"] for t in told} == {600.0}
    zero = shopper.gipper("pod", "estimate", job, "--throughput", "0")
    assert zero.code == 2


def test_nothing_fits_is_exit_three_with_reasons(shopper: World) -> None:
    """No offer: the reasons are counted, and what to do stands behind."""
    job = shopper.job("true", file="huge.toml", gpu={"min_mem_gb": 500})
    done = shopper.gipper("pod", "estimate", job)
    assert done.code == 3
    assert "less GPU memory" in done.err and "next:" in done.err


def test_looking_writes_no_receipt(shopper: World, job_file: Path) -> None:
    """Neither command leaves anything in the ledger, not even for an interactive job."""
    near = shopper.job("true", file="near.toml", gpu={}, placement={"profile": "interactive"})
    for command in (("gpus",), ("estimate", job_file), ("estimate", near)):
        shopper.gipper("pod", *command)
    assert shopper.receipts() == []


@pytest.mark.parametrize("command", ["gpus", "estimate"])
def test_looking_never_imports_ssh(shopper: World, job_file: Path, command: str) -> None:
    """`gpus` and `estimate` do their work without paramiko."""
    args = ["pod", command, *([str(job_file)] if command == "estimate" else [])]
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, json.dumps(args)], env=shopper.env, cwd=shopper.work,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    imported = json.loads(done.stderr.rpartition("IMPORTED ")[2])
    assert "gipper.planning" in imported
    assert not {"paramiko", "gipper.ssh.remote", "rich"} & set(imported)
