from __future__ import annotations

from pathlib import Path

import pytest

from gipper.plugins.hooks import REQUIRED, VERBS, hook_arguments


@pytest.mark.parametrize("hook", sorted(hook_arguments()))
def test_every_hook_is_named_in_a_test(hook):
    """No hook is specified without a test that speaks of it (verbs also as the handle's method)."""
    own = Path(__file__)
    texts = [p.read_text() for p in own.parent.glob("test_*.py") if p != own]
    short = hook.removeprefix("gipper_")
    assert any(hook in t or (hook in VERBS and f'"{short}"' in t) for t in texts)


def test_hooks_and_specifications_agree():
    """Every verb that gipper knows by name has a specification, and the required ones are among them."""
    assert set(hook_arguments()) >= VERBS >= set(REQUIRED)
    assert hook_arguments()["gipper_rent"] == ("offer", "request")
