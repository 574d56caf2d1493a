"""The network volume that a job attaches: where it is, and how large."""

from __future__ import annotations

from typing import Any

import attrs

from gipper.api import ProviderError, wire
from gipper_runpod.client import Ask, Client


@attrs.frozen(kw_only=True)
class Volume:
    """`center` is the data centre that it ties pods to."""

    id: str
    center: str
    size_gb: float | None = None


def volume_of(client: Client, ident: str, deadline: float | None = None) -> Volume:
    """The volume. Raises ProviderError, also where there is none."""
    what = f"the network volume {ident}"
    answer: Any = client.good(Ask(
        what=what, method="GET", path=f"/v2/network-volumes/{ident}", read=True, deadline=deadline
    ))  # fmt: skip
    center = wire.text(answer.get("dataCenter")) or wire.text(answer.get("dataCenterId"))
    if center is None:
        raise ProviderError(f"runpod: {what}: the answer names no data centre")
    return Volume(id=ident, center=center, size_gb=wire.positive(answer.get("size")))
