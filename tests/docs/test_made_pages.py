"""Pages that are made from the code say what the code says."""

from __future__ import annotations

from pathlib import Path

import support_contract_page
import support_markets_page

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"


def test_the_contract_page_is_the_suite() -> None:
    """docs/plugin-contract.md holds every sentence and scenario, word for word."""
    assert (DOCS / "plugin-contract.md").read_text(encoding="utf-8") == support_contract_page.page()


def test_the_capability_table_is_what_the_plugins_say() -> None:
    """docs/markets.md is what the installed providers declare."""
    assert (DOCS / "markets.md").read_text(encoding="utf-8") == support_markets_page.page()
