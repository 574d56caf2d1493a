"""Why a machine didn't come up: the status text, else its log, which the host uploads on demand."""

from __future__ import annotations

from typing import Any, Final

from gipper.api import Diagnosis, GipperError, ProviderContext, wire
from gipper_vast import pacing
from gipper_vast.client import Ask, Client
from gipper_vast.instances import is_id, read_row, wrongly_made
from gipper_vast.memory import Memory
from gipper_vast.status import blamed

# The first upload takes up to a minute; a teardown must not wait for that.
WAIT_S: Final = 20.0
_POLL_S: Final = 2.0
_LINE_MOST: Final = 300
_LOG_MOST: Final = 64 * 1024
_ABSENT: Final = (403, 404)


def diagnose(context: ProviderContext, client: Client, memory: Memory, machine_id: str) -> Diagnosis | None:
    """Who is at fault, within `WAIT_S` or so; None where nothing can be told. Raises ProviderError."""
    row = read_row(client, machine_id)
    if row is None or not is_id(machine_id):
        return None
    wrong = wrongly_made(row, memory, machine_id)
    if wrong is not None:
        # Neither host nor image did it, and a host must not be blamed.
        return Diagnosis(text=wrong, fault="account")
    message = (wire.text(row.get("status_msg")) or "")[:_LINE_MOST]
    known = blamed(message) or _from_log(context, client, machine_id)
    return known or (Diagnosis(text=message) if message else None)


def _from_log(context: ProviderContext, client: Client, machine_id: str) -> Diagnosis | None:
    """A line of the log that says who is at fault. Others are not shown: a log may hold secrets."""
    try:
        lines = _log(context, client, machine_id).splitlines()
    except GipperError:
        return None
    found = (blamed((wire.text(line) or "")[:_LINE_MOST]) for line in reversed(lines))
    return next((f for f in found if f is not None), None)


def _log(context: ProviderContext, client: Client, machine_id: str) -> str:
    runtime = context.runtime
    deadline = runtime.monotonic() + WAIT_S
    answer = client.good(Ask(
        what=f"the log of machine {machine_id}", endpoint=pacing.LOGS, method="PUT",
        path=f"/api/v0/instances/request_logs/{machine_id}/", scope="instance_read", body={"tail": "100"},
        read=True, tries=1, deadline=deadline,
    ))  # fmt: skip
    url = answer.get("result_url")
    # The market must not make us ask something on this computer, unless it is on this computer itself.
    secure = "https://" if context.base_url().startswith("https://") else "http"
    while isinstance(url, str) and url.startswith(secure) and runtime.monotonic() < deadline:
        # Another host's: it gets no header of ours.
        reply: Any = context.http().request("GET", url, expect=_ABSENT, deadline=deadline, timeout=10.0)
        if reply.status_code not in _ABSENT:
            return str(reply.content[-_LOG_MOST:].decode("utf-8", "replace"))
        runtime.sleep(_POLL_S)
    return ""
