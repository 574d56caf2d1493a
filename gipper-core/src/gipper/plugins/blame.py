"""Turns whatever a plugin raised into an error that names plugin, distribution, version and hook."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

import attrs

from gipper.errors import GipperError
from gipper.plugins.parts import Origin

Redact = Callable[[str], str]


@attrs.frozen(kw_only=True)
class Implementation:
    """One plugin's implementation of one hook, ready to be called."""

    hook: str
    origin: Origin
    function: Callable[..., Any]
    arguments: tuple[str, ...]

    def __call__(self, given: Mapping[str, object]) -> Any:
        """Call it with those of `given` that it names; whatever it raises comes through."""
        return self.function(*(given[name] for name in self.arguments))

    def ask(self, given: Mapping[str, object], redact: Redact, failure: type[GipperError]) -> Any:
        """Call it; what isn't a GipperError becomes a `failure` with blame."""
        try:
            return self(given)
        except GipperError:
            raise
        except Exception as error:
            raise failure(raised(self.origin, self.hook, error, redact), hint=self._cure) from error

    def broke(self, text: str, redact: Redact, failure: type[GipperError]) -> GipperError:
        """The error for an answer that its contract doesn't allow."""
        return failure(f"{self.origin.blame}: {self.hook} {redact(text)}", hint=self._cure)

    @property
    def _cure(self) -> str:
        return UPDATE if self.origin.distribution else f"mend {self.origin.entry}"


UPDATE = "update or report that plugin; `gipper plugins` lists what is installed"


def raised(origin: Origin, hook: str, error: BaseException, redact: Redact) -> str:
    """The message for an exception that `hook` let through."""
    number = line_in(origin.entry, error)
    line = f" in line {number}" if number else ""
    return redact(f"{origin.blame}: {hook} raised {type(error).__name__}{line}: {words(error)}")


def words(error: BaseException) -> str:
    """What an exception says."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a stranger's __str__ must not hide that there was an error
        return "(no text)"


def line_in(file: str, error: BaseException) -> int | None:
    """The deepest line of `file` that was running when `error` was raised; None where none was.

    For a SyntaxError of the file itself, the line that it names.
    """
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno
    found, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            found = trace.tb_lineno
        trace = trace.tb_next
    return found


def shown(value: object) -> str:
    """`value` for a message: its repr, cut, or its class where a repr can't be had."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a stranger's __repr__ must not hide the message it stands in
        return type(value).__name__
    return text if len(text) <= 80 else f"{text[:77]}..."


def culprit(error: BaseException, candidates: Iterable[Implementation]) -> Implementation | None:
    """Whose code was running when `error` was raised: the deepest frame that is a candidate's own."""
    by_code = {getattr(c.function, "__code__", None): c for c in candidates}
    found = None
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        found = by_code.get(trace.tb_frame.f_code, found)
        trace = trace.tb_next
    return found
