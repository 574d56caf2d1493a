"""What the present API lacks and the older one has: balance, prices without a key, the host that a pod is on.

The one seam to GraphQL, so that it can go when the market takes that away (announced for early 2027). What
comes from outside goes into variables, never into the text of a query; the path without a key takes no
variables, and gets numbers and words of ours alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gipper.api import ProviderError, wire
from gipper_runpod.client import Ask, Client
from gipper_runpod.errors import failure

_PATH: Final = "/graphql"
_ACCOUNT: Final = "query { myself { clientBalance currentSpendPerHr spendLimit } }"
_HOST: Final = "query($id: String!) { pod(input: {podId: $id}) { machineId } }"


_PRICES: Final = """query { gpuTypes { id displayName manufacturer memoryInGb secureCloud communityCloud
securePrice communityPrice lowestPrice(input: {gpuCount: %d, secureCloud: %s}) { stockStatus } } }"""


def catalog(client: Client, count: int, cloud: str, deadline: float | None) -> list[Mapping[str, Any]]:
    """The types of GPU in the words of the present API's catalogue, asked without a key.

    Raises ProviderError.
    """
    query = _PRICES % (count, "true" if cloud == "SECURE" else "false")
    data = _ask(client, "the catalogue of GPUs", query, key_needed=False, deadline=deadline)
    rows = None if data is None else data.get("gpuTypes")
    if not isinstance(rows, list):
        raise ProviderError("runpod: the catalogue was answered without a list of GPUs")
    return [_in_new_words(wire.mapping(row)) for row in rows]


def _in_new_words(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "id": row.get("id"), "manufacturer": row.get("manufacturer"), "memory": row.get("memoryInGb"),
        "secure": row.get("secureCloud"), "community": row.get("communityCloud"),
        "price": {"secure": row.get("securePrice"), "community": row.get("communityPrice")},
        "availability": wire.mapping(row.get("lowestPrice")).get("stockStatus"),
    }  # fmt: skip


def account(client: Client) -> Mapping[str, Any] | None:
    """The account's figures; None where the key may not see them. Raises ProviderError."""
    data = _ask(client, "the balance", _ACCOUNT)
    found = None if data is None else data.get("myself")
    return found if isinstance(found, dict) else None


def host_of(client: Client, pod: str) -> str | None:
    """The id of the physical host; None where it can't be told."""
    try:
        data = _ask(client, f"the host of pod {pod}", _HOST, {"id": pod})
    except ProviderError:
        return None
    return None if data is None else wire.text(wire.mapping(data.get("pod")).get("machineId"))


def _ask(
    client: Client,
    what: str,
    query: str,
    variables: Mapping[str, str] | None = None,
    *,
    key_needed: bool = True,
    deadline: float | None = None,
) -> Mapping[str, Any] | None:
    """The answer's data; None where the key lacks the right. Raises ProviderError."""
    body: dict[str, Any] = {"query": query}
    if variables:
        body["variables"] = dict(variables)
    reply = client.reply(Ask(
        what=what, method="POST", path=_PATH, body=body, read=True, timeout_s=15.0,
        key_needed=key_needed, deadline=deadline,
    ))  # fmt: skip
    if reply.status == 403 and reply.is_json:
        return None
    if not reply.good:
        raise failure(reply, what)
    # Failures come under status 200, some beside data.
    errors = reply.body.get("errors")
    if errors:
        said = _first(errors)
        if "unauthorized" in said.casefold() or "not authorized" in said.casefold():
            return None
        raise ProviderError(f"runpod: {what}: {said or 'refused without a text'}")
    return wire.mapping(reply.body.get("data"))


def _first(errors: object) -> str:
    rows = errors if isinstance(errors, list) else []
    return next((t for t in (wire.text(wire.mapping(e).get("message")) for e in rows) if t), "")[:300]
