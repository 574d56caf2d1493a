"""`gipper pod gpus`: what all markets offer, for a job of half an hour."""

from __future__ import annotations

import json

import pytest
from support_cli import World


def rows(done):
    """Provider and offer columns of a piped table, without its header."""
    return [line.split() for line in done.lines[1:]]


def test_every_market_is_listed_best_first(shopper: World) -> None:
    """Offers of all markets stand in one table, scores rising, those that can't be rented last and marked."""
    done = shopper.gipper("pod", "gpus")
    assert done.code == 0, done.all
    assert done.lines[0].split() == ["provider", "gpu", "GB", "$/h", "min", "$run", "risk", "score", "where"]
    keyed = [line for line in done.lines[1:] if "(no key)" not in line]
    unkeyed = [line for line in done.lines[1:] if "(no key)" in line]
    assert done.lines[1:] == keyed + unkeyed
    assert {line.split()[0] for line in keyed} == {"acme", "untold"}
    assert {line.split()[0] for line in unkeyed} == {"opened"}
    assert "local" not in done.out


def test_what_went_wrong_is_one_note_each(shopper: World) -> None:
    """A market that fails, a key that is rejected, and each reason for leaving offers out: a line each."""
    done = shopper.gipper("pod", "gpus")
    notes = [line for line in done.err.splitlines() if line.startswith("note:")]
    assert sum("broken: could not list offers" in n for n in notes) == 1
    assert sum("badkey: could not list offers" in n and "key was rejected" in n for n in notes) == 1
    assert "note: 1 offer(s) left out: less GPU memory than gpu.min_mem_gb" in notes
    assert len(notes) == 3, notes


def test_the_job_is_half_an_hour_and_moves_nothing(shopper: World) -> None:
    """JSON is the whole estimate: 30 minutes of computing, no upload, a key or none."""
    done = shopper.gipper("pod", "gpus", "--json")
    told = json.loads(done.out)
    assert [t["score"] for t in told if t["has_key"]] == sorted(t["score"] for t in told if t["has_key"])
    assert {t["phases_s"]["compute"] for t in told} == {1800.0}
    assert {t["upload_gb"] for t in told} == {0.0}
    assert {t["provider"]: t["has_key"] for t in told} == {"acme": True, "untold": True, "opened": False}


def test_d_012_a_region_leaves_out_other_and_unknown_places(shopper: World) -> None:
    """Asked for Sweden or Norway, only Sweden is shown; the offer without a place is counted with the rest."""
    done = shopper.gipper("pod", "gpus", "--region", "se,NO")
    assert [r[0] for r in rows(done)] == ["untold"]
    assert "6 offer(s) left out: outside gpu.regions, or the place isn't told" in done.err


@pytest.mark.parametrize(("typed", "near"), [("UK", "GB"), ("Swedn", "SE"), ("USA", "US")])
def test_a_region_that_is_no_code_names_the_nearest(shopper: World, typed: str, near: str) -> None:
    """Wrong use, with the code that was probably meant."""
    done = shopper.gipper("pod", "gpus", "--region", typed)
    assert done.code == 2
    assert f"did you mean {near}" in done.err


def test_options_narrow_the_list(shopper: World) -> None:
    """--provider, --limit, --min-mem, --cloud and --udp each do what they say."""
    assert {r[0] for r in rows(shopper.gipper("pod", "gpus", "--provider", "acme"))} == {"acme"}
    assert len(rows(shopper.gipper("pod", "gpus", "--limit", "2"))) == 2
    assert "T4" in shopper.gipper("pod", "gpus", "--min-mem", "4").out
    secure = shopper.gipper("pod", "gpus", "--cloud", "secure")
    assert secure.code == 3 and "not known to be in the secure cloud" in secure.err
    no_udp = shopper.gipper("pod", "gpus", "--udp")
    assert no_udp.code == 3 and "can't publish a port" in no_udp.err


def test_explain_says_where_figures_come_from(shopper: World) -> None:
    """--explain adds a source for each figure of the best offer."""
    told = shopper.gipper("pod", "gpus", "--explain").out
    for line in (
        "ready: the provider's usual time",
        "compute: placement.compute_s",
        "p_fail: no rentals yet",
    ):
        assert f"  {line}" in told


def test_exit_codes_when_nothing_is_left(shopper: World) -> None:
    """Only failed markets: 4. A provider that isn't installed: 2, with what to install."""
    assert shopper.gipper("pod", "gpus", "--provider", "broken").code == 4
    missing = shopper.gipper("pod", "gpus", "--provider", "nowhere")
    assert missing.code == 2 and "nowhere" in missing.err


def test_local_takes_part_when_named(shopper: World) -> None:
    """`local` is asked only by name; without a GPU it says why it has nothing."""
    done = shopper.gipper("pod", "gpus", "--provider", "local")
    assert "local" in done.all
    if done.code:
        assert done.code == 3 and "this machine's own GPUs" in done.err and "--count 0" in done.err
    without = shopper.gipper("pod", "gpus", "--provider", "local", "--count", "0")
    assert without.code == 0 and "local" in without.out
