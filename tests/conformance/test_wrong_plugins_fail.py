"""Each sentence of the contract is broken by a plugin that is wrong on purpose, and says so by name."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import attrs
import pytest
from conformance.wrong_plugins import WRONG, OtherEachTime
from support_toy import ToyBench

from gipper.api import hookimpl
from gipper.testing import contract

CASES = [(key, wrong) for key, classes in WRONG.items() for wrong in classes]


def bench_of(wrong: type, folder: Path) -> ToyBench:
    """The toy, its provider made wrong."""

    class WrongBench(ToyBench):
        def change(self, correct: type) -> type:
            if wrong is OtherEachTime:
                return _other_each_time(correct)
            return type(wrong.__name__, (wrong, correct), {})

    return WrongBench(folder)


def _other_each_time(correct: Any) -> type:
    turn = count()

    class Wrong(correct):  # type: ignore[misc]
        @staticmethod
        @hookimpl
        def gipper_provider() -> Any:
            return attrs.evolve(correct.gipper_provider(), title=f"Toy {next(turn)}")

    return Wrong


def test_every_sentence_has_a_plugin_that_breaks_it() -> None:
    """Nobody adds a sentence that nothing could break; there are at least 25 wrong plugins."""
    assert set(WRONG) == {check.id for check in contract.CHECKS}
    assert len({wrong for _, wrong in CASES}) >= 25


def test_ids_and_sentences_are_unique() -> None:
    """Each id and each sentence stands there once."""
    assert (
        len({c.id for c in contract.CHECKS}) == len({c.text for c in contract.CHECKS}) == len(contract.CHECKS)
    )


@pytest.mark.parametrize(("key", "wrong"), CASES, ids=[f"{k}-{w.__name__}" for k, w in CASES])
def test_a_wrong_plugin_is_caught_by_name(key: str, wrong: type, tmp_path: Path) -> None:
    """The check of that sentence fails, and its message names the sentence."""
    check = next(c for c in contract.CHECKS if c.id == key)
    with pytest.raises(contract.ContractBroken) as caught:
        contract.run_check(check, bench_of(wrong, tmp_path))
    assert f"{check.id}: {check.text}" in str(caught.value)


def test_the_report_tells_what_was_not_shown(tmp_path: Path) -> None:
    """A bench that can't arrange something leaves a result with the reason, and the rest goes on."""

    class Poor(ToyBench):
        def arrange(self, scenario: str) -> None:
            if scenario == "list_fails":
                raise contract.Unsupported("my market never fails")
            super().arrange(scenario)

    results = {r.check.id: r for r in contract.run_checks(Poor, tmp_path)}
    assert results["list-3"].verdict == "unsupported" and results["list-3"].why == "my market never fails"
    assert all(r.verdict == "proved" for key, r in results.items() if key != "list-3")
