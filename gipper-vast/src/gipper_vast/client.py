"""Asks the market: the key in its header and nowhere else, at the market's pace, and each change once.

Reads are repeated by the session after gateway errors, and here after "too often". What changes something
is repeated only after a clear "too often", and only where its `Ask` allows it: a create never.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import attrs

from gipper.api import KeyMissing, NotJson, ProviderContext, json_of
from gipper_vast import pacing
from gipper_vast.errors import Reply, asked_wait, failure, meaning
from gipper_vast.pacing import Gate

# These we read ourselves; statuses of gateways are the session's business.
_OURS: Final = tuple(range(400, 500))
_FIRST_PAUSE_S: Final = 2.0
_MOST_PAUSE_S: Final = 60.0
_TEXT_MOST: Final = 64 * 1024


@attrs.frozen(kw_only=True)
class Ask:
    """One call. `read`: it changes nothing, so that it may be repeated. `tries` counts those after "too
    often", too. `scope` is the category that the key needs for it. `deadline` is monotonic."""

    what: str
    endpoint: str
    method: str
    path: str
    scope: str
    params: Mapping[str, str] = attrs.field(factory=dict)
    body: Mapping[str, Any] | None = None
    read: bool = False
    tries: int = 5
    deadline: float | None = None
    key_needed: bool = True
    timeout_s: float = 30.0


class Client:
    """The market's API for one provider instance."""

    def __init__(self, context: ProviderContext, gate: Gate) -> None:
        self._context = context
        self.gate = gate

    def good(self, ask: Ask) -> Mapping[str, Any]:
        """The JSON object of a success. Raises ProviderError for everything else."""
        reply = self.reply(ask)
        if not reply.good:
            raise failure(reply, ask.what, ask.scope)
        return reply.body

    def reply(self, ask: Ask) -> Reply:
        """The answer, also a refusal; after "too often" the last of `tries`.

        Raises HttpLost, HttpUnsent, HttpStatus for 5xx, KeyMissing.
        """
        for attempt in range(ask.tries):
            self.gate.pass_through(ask.endpoint, ask.deadline)
            reply = self._once(ask)
            if meaning(reply) != "often" or reply.good:
                break
            if not self._again(ask, reply, attempt):
                break
        return reply

    def _again(self, ask: Ask, reply: Reply, attempt: int) -> bool:
        runtime = self._context.runtime
        least = max(self.gate.pace(ask.endpoint).penalty_s, _FIRST_PAUSE_S * 2**attempt)
        pause = max(least, asked_wait(reply, runtime.now()))
        self.gate.refused(ask.endpoint, pause)
        late = ask.deadline is not None and runtime.monotonic() + pause > ask.deadline
        return attempt + 1 < ask.tries and pause <= _MOST_PAUSE_S and not late

    def _once(self, ask: Ask) -> Reply:
        url = f"{self._context.base_url()}{ask.path}"
        given: dict[str, Any] = {"headers": self._headers(ask), "timeout": ask.timeout_s}
        if ask.params:
            given["params"] = dict(ask.params)
        if ask.body is not None:
            given["json"] = dict(ask.body)
        session = self._context.http()
        answer = session.request(ask.method, url, read=ask.read, expect=_OURS, deadline=ask.deadline, **given)
        return _parsed(answer)

    def _headers(self, ask: Ask) -> dict[str, str]:
        try:
            return {"Authorization": f"Bearer {self._context.secret()}"}
        except KeyMissing:
            if ask.key_needed:
                raise
            return {}


def _parsed(answer: Any) -> Reply:
    status, headers = int(answer.status_code), answer.headers
    try:
        body = json_of(answer, provider="vast")
    except NotJson:
        raw = answer.content[:_TEXT_MOST].decode("utf-8", "replace")
        return Reply(status=status, text=raw, headers=headers, is_json=False)
    if not isinstance(body, dict):
        return Reply(
            status=status, text=body if isinstance(body, str) else "", headers=headers, is_json=False
        )
    return Reply(status=status, body=body, headers=headers)


def compact(value: object) -> str:
    """JSON for a query's value."""
    return json.dumps(value, separators=(",", ":"))


__all__ = ["Ask", "Client", "compact", "pacing"]
