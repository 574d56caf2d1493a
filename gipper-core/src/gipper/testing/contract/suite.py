"""The checks as tests of pytest: one class to subclass, one test a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gipper.testing.contract.bench import Bench, Unsupported
from gipper.testing.contract.running import CHECKS, run_check
from gipper.testing.contract.sentence import Check


class Suite:
    """Subclass it as `TestSomething` and give it a `make_bench`; each sentence becomes a test.

    A sentence that the bench can't show is skipped with its reason, and stands in the report.
    """

    def make_bench(self, folder: Path) -> Bench:
        """A new bench; `folder` is empty and the check's own."""
        raise NotImplementedError

    @pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.id)
    def test_contract(self, check: Check, tmp_path: Path, request: Any) -> None:
        """Every sentence of the contract holds."""
        record = getattr(request.config, "gipper_contract", None)
        verdict, why = "broken", ""
        try:
            run_check(check, self.make_bench(tmp_path))
            verdict = "proved"
        except Unsupported as error:
            verdict, why = "unsupported", str(error)
            pytest.skip(f"{check.id}: {why}")
        finally:
            if record is not None:
                record.append((type(self).__name__, check.id, check.text, verdict, why))
