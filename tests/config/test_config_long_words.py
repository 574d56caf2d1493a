"""Looking for tokens takes time in proportion to the text, whatever the text is."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("piece", ["a", "a.", "-eyJ", "token ", "a://", "A_", "sk-", "-u "])
def test_long_words_take_no_time(piece: str) -> None:
    """A million characters of the worst words end within the limit; squared, they would take days."""
    code = (
        "import sys; from gipper.redact_shapes import token_shapes; "
        "token_shapes('echo ok #' + sys.argv[1] * (1_000_000 // len(sys.argv[1])))"
    )
    subprocess.run([sys.executable, "-c", code, piece], check=True, timeout=60)
