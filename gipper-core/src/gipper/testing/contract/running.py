"""Runs the checks, each on a bench of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

import attrs

from gipper.errors import GipperError
from gipper.testing.contract import of_machines, of_money, of_offers, of_rents
from gipper.testing.contract.bench import Bench, Unsupported
from gipper.testing.contract.sentence import Broken, Check, ContractBroken
from gipper.testing.contract.stage import staged

CHECKS: Final[tuple[Check, ...]] = (
    *of_offers.CHECKS,
    *of_rents.CHECKS,
    *of_machines.CHECKS,
    *of_money.CHECKS,
)
Verdict = Literal["proved", "unsupported", "broken"]

__all__ = ["CHECKS", "ContractBroken", "Result", "run_check", "run_checks"]


@attrs.frozen
class Result:
    """How one check ended; `why` is empty for what was proved."""

    check: Check
    verdict: Verdict
    why: str = ""


def run_check(check: Check, bench: Bench) -> None:
    """Prove one sentence. Raises ContractBroken, or Unsupported where this bench can't show it."""
    with staged(bench) as stage:
        if check.hook is not None and not stage.provider.implements(check.hook):
            raise Unsupported(f"the provider has no {check.hook}")
        bench.arrange("well")
        try:
            check.prove(stage)
        except Broken as error:
            raise ContractBroken(check, str(error)) from error
        except GipperError as error:
            raise ContractBroken(check, f"it raised {type(error).__name__}: {error.message}") from error


def run_checks(
    make: Callable[[Path], Bench], folder: Path, checks: Sequence[Check] = CHECKS
) -> Iterator[Result]:
    """Every check on a bench of its own, below `folder`."""
    for check in checks:
        place = folder / check.id
        place.mkdir(parents=True)
        try:
            run_check(check, make(place))
        except Unsupported as error:
            yield Result(check, "unsupported", str(error))
        except ContractBroken as error:
            yield Result(check, "broken", str(error))
        else:
            yield Result(check, "proved")
