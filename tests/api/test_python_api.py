"""The Python API: plan and run from code, with the same checks as the command."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from gipper import run
from gipper.core import Gipper
from gipper.errors import ProblemsError
from gipper.lifecycle.results import RunResult
from gipper.outcomes import Outcome
from gipper.planning_values import Plan
from gipper.values.jobs import GpuWants, Job, Output, RunTable


@pytest.fixture
def gipper(tmp_path: Path) -> Gipper:
    """One user with folders of their own."""
    env = {
        "HOME": str(tmp_path),
        "GIPPER_DATA": str(tmp_path / "data"),
        "GIPPER_KEYS": str(tmp_path / "keys"),
    }
    return Gipper(env={**env, "PATH": "/usr/bin:/bin"})


def _job(folder: Path, command: str = "mkdir out; echo 1 > out/a") -> Job:
    return Job(
        name="api", folder=folder, gpu=GpuWants(count=0, providers=("local",)), outputs=(Output(src="out"),),
        run=RunTable(command=command),
    )  # fmt: skip


def test_a_job_made_in_python_runs(gipper: Gipper, tmp_path: Path) -> None:
    """`run.run` gives the result; outputs are home, the ledger has the run."""
    result = run.run(_job(tmp_path), gipper=gipper)
    assert isinstance(result, RunResult)
    assert (result.outcome, result.exit_code) == (Outcome.SUCCEEDED, 0)
    assert (tmp_path / "out" / "a").read_text() == "1\n"
    assert [r["job"] for r in gipper.ledger.read(kinds={"run.end"})] == [result.run]


def test_a_plan_ranks_offers_and_rents_nothing(gipper: Gipper, tmp_path: Path) -> None:
    """Each offer has its estimate, as an object and as a mapping."""
    found = run.plan(_job(tmp_path), gipper=gipper)
    assert isinstance(found, Plan)
    best = found.ranked[0]
    assert best["provider"] == "local"
    assert best.estimate["usd"] == best["estimate"].usd
    assert run.run(_job(tmp_path), gipper=gipper, dry_run=True).seen == found.seen  # type: ignore[union-attr]
    assert list(gipper.ledger.read()) == []


def test_a_replaced_preflight_is_honoured(
    gipper: Gipper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`run.preflight` is looked up when a run begins."""

    def refuse(*_given: object) -> dict[str, str]:
        raise run.BadHost("not today")

    monkeypatch.setattr(run, "preflight", refuse)
    result = run.run(_job(tmp_path), gipper=gipper)
    assert isinstance(result, RunResult)
    assert result.outcome is Outcome.NO_OFFER
    assert "not today" in result.reason


def test_a_providers_own_table_is_checked(gipper: Gipper, tmp_path: Path) -> None:
    """Options that a provider doesn't take are mistakes here too."""
    job = attrs.evolve(_job(tmp_path), provider={"local": {"nonsense": 1}})
    with pytest.raises(ProblemsError, match="nonsense"):
        run.run(job, gipper=gipper)
