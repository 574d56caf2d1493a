"""Where a run tells what it does: steps to stderr, the job's own output to stdout."""

from __future__ import annotations

import codecs
import sys
from typing import Final

from gipper.cli.render import drop_output, neutralise, warn

_EVERY: Final = 1 << 20


class Console:
    """A `Reporter` for a person or a pipe. The job's bytes are decoded as UTF-8, what isn't is replaced,
    and control sequences are shown instead of sent to the terminal."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._terminal = sys.stderr.isatty()
        self._open_line = False
        self._last = 0

    def step(self, text: str) -> None:
        """One line for a step."""
        self._end_line()
        warn(f"gipper: {text}")

    def warn(self, text: str) -> None:
        """One line that begins with "note"."""
        self._end_line()
        warn(f"gipper: note: {text}")

    def log(self, data: bytes) -> None:
        """The job's output, at once; a reader that went away stops nothing."""
        self._end_line()
        text = neutralise(self._decoder.decode(data), keep="\n\t\r")
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError:
            drop_output()

    def progress(self, what: str, done: int, total: int | None) -> None:
        """A line that is overwritten, on a terminal only."""
        if not self._terminal or (done - self._last < _EVERY and done != total):
            return
        self._last = 0 if done == total else done
        share = f"{done / 1e6:,.1f} MB" + (f" of {total / 1e6:,.1f} MB" if total else "")
        try:
            sys.stderr.write(f"\r{what}: {share}   ")
            sys.stderr.flush()
        except OSError:
            return
        self._open_line = True

    def _end_line(self) -> None:
        if self._open_line:
            self._open_line = False
            warn("")
