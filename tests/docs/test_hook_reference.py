"""The hook reference says what the specifications say."""

from __future__ import annotations

from pathlib import Path

import support_hooks_page

from gipper.plugins import hooks

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "hooks.md"


def test_the_page_is_what_the_specifications_say() -> None:
    """docs/hooks.md is word for word what is made from the docstrings."""
    assert PAGE.read_text(encoding="utf-8") == support_hooks_page.page()


def test_every_hook_says_since_when() -> None:
    """Each docstring ends with the API version that brought the hook."""
    page = PAGE.read_text(encoding="utf-8")
    sections = page.split("\n## ")[1:]
    assert [s.splitlines()[0] for s in sections] == list(hooks.hook_arguments())
    assert all("Since 1." in s for s in sections)
