"""What goes wrong with the next calls of an endpoint.

faults.script("create", lost_after(), status(504, "<html>"))   # the next two creates; later ones go well
faults.always("list", status(500, {"detail": "x"}))
faults.mend()
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any, Literal

import attrs

When = Literal["before", "after"]


@attrs.frozen(kw_only=True)
class Fault:
    """`answer` is (status, body, headers), or None where the line goes dead; it comes before or after the
    request took effect, and `delay_s` later. `ok` = this call goes well."""

    when: When = "before"
    answer: tuple[int, Any, dict[str, str]] | None = None
    delay_s: float = 0.0
    ok: bool = False


def lost_before() -> Fault:
    """The request never took effect, and no answer came."""
    return Fault(when="before")


def lost_after() -> Fault:
    """The request took effect; its answer was lost."""
    return Fault(when="after")


def status(code: int, body: Any = "", *, after: bool = False, **headers: str) -> Fault:
    """Another answer instead; `after` the request took effect. A body that isn't text goes out as JSON."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Fault(when="after" if after else "before", answer=(code, body, named))


def slow(seconds: float) -> Fault:
    """The right answer, late."""
    return Fault(delay_s=seconds, ok=True)


def fine() -> Fault:
    """A call between faults that goes well."""
    return Fault(ok=True)


@attrs.define
class Faults:
    """Faults by endpoint."""

    _next: dict[str, deque[Fault]] = attrs.field(factory=lambda: defaultdict(deque))
    _always: dict[str, Fault] = attrs.field(factory=dict)

    def script(self, endpoint: str, *faults: Fault) -> None:
        """The next calls of `endpoint`, in order."""
        self._next[endpoint].extend(faults)

    def always(self, endpoint: str, fault: Fault) -> None:
        """Every call of `endpoint` for which nothing else is written down."""
        self._always[endpoint] = fault

    def mend(self) -> None:
        """All is well from now on."""
        self._next.clear()
        self._always.clear()

    def take(self, endpoint: str) -> Fault | None:
        """How the call that came just now goes; None = well."""
        queue = self._next[endpoint]
        return queue.popleft() if queue else self._always.get(endpoint)
