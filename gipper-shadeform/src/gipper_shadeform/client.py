"""Asks the market: the key in its header and nowhere else, each change once unless it bears repetition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from gipper.api import KeyMissing, NotJson, ProviderContext, json_of, wire
from gipper_shadeform.errors import Reply, failure

# These we read ourselves; gateways' statuses and too frequent reads are the session's business.
_OURS: Final = tuple(code for code in range(400, 500) if code != 429)
_ALL_OURS: Final = tuple(range(400, 500))
# What may hold a private key is read here whatever its status, or its text would get into an error.
_QUIET_OURS: Final = tuple(range(300, 600))
_MOST_PAUSE_S: Final = 60.0
_TEXT_MOST: Final = 64 * 1024


@attrs.frozen(kw_only=True)
class Ask:
    """One call. `read`: it changes nothing and may be repeated. `tries` counts repetitions of a change after
    "too often". `quiet`: nothing of the answer may be shown. `deadline` is monotonic."""

    what: str
    method: str
    path: str
    params: Mapping[str, str] = attrs.field(factory=dict)
    body: Mapping[str, Any] | None = None
    tries: int = 1
    quiet: bool = False
    deadline: float | None = None
    key_needed: bool = True
    timeout_s: float = 60.0

    @property
    def read(self) -> bool:
        """Every change is a POST here, and nothing else is."""
        return self.method == "GET"


class Client:
    """The market's API for one provider instance."""

    def __init__(self, context: ProviderContext) -> None:
        self._context = context

    def good(self, ask: Ask) -> Mapping[str, Any]:
        """The JSON object of a success. Raises ProviderError for everything else."""
        reply = self.reply(ask)
        if not reply.good:
            raise failure(reply, ask.what)
        return reply.body

    def reply(self, ask: Ask) -> Reply:
        """The answer, also a refusal. Raises HttpLost, HttpUnsent, HttpStatus for 5xx (and for a read's
        429), KeyMissing."""
        for attempt in range(ask.tries):
            reply = self._once(ask)
            pause = min(_MOST_PAUSE_S, max(1.0, reply.retry_after_s))
            if reply.status != 429 or attempt + 1 == ask.tries:
                break
            self._context.runtime.sleep(pause)
        return reply

    def headers(self, *, key_needed: bool = True) -> dict[str, str]:
        """What every request bears. Raises KeyMissing where a key is needed."""
        plain = {"Accept": "application/json"}
        try:
            return {**plain, "X-API-KEY": self._context.secret()}
        except KeyMissing:
            if key_needed:
                raise
            return plain

    def has_key(self) -> bool:
        """Whether the user has a key."""
        return "X-API-KEY" in self.headers(key_needed=False)

    def _once(self, ask: Ask) -> Reply:
        given: dict[str, Any] = {"headers": self.headers(key_needed=ask.key_needed), "timeout": ask.timeout_s}
        if ask.params:
            given["params"] = dict(ask.params)
        if ask.body is not None:
            given["json"] = dict(ask.body)
        expect = _QUIET_OURS if ask.quiet else _OURS if ask.read else _ALL_OURS
        answer = self._context.http().request(
            ask.method, f"{self._context.base_url()}/v1{ask.path}", read=ask.read, expect=expect,
            deadline=ask.deadline, **given,
        )  # fmt: skip
        return parsed(answer, quiet=ask.quiet)


def parsed(answer: Any, *, quiet: bool = False) -> Reply:
    """An answer of requests as a `Reply`; never raises."""
    bare = Reply(
        status=int(answer.status_code),
        text=answer.content[:_TEXT_MOST].decode("utf-8", "replace"),
        is_json=False,
        retry_after_s=wire.positive(answer.headers.get("Retry-After")) or 0.0,
        quiet=quiet,
    )
    try:
        body = json_of(answer, provider="shadeform") if answer.content else None
    except NotJson:
        body = None
    return attrs.evolve(bare, body=body, is_json=True, text="") if isinstance(body, dict) else bare
