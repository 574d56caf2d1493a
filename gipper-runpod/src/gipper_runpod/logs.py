"""Why a pod didn't come up: the system's lines of its log, where the key may read them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from gipper.api import Diagnosis, GipperError, ProviderContext, wire
from gipper_runpod.client import Client
from gipper_runpod.pods import is_id

WAIT_S: Final = 5.0
_LINE_MOST: Final = 300
_IMAGE: Final = (
    "manifest unknown", "pull access denied", "repository does not exist", "unauthorized",
    "not found: manifest", "invalid reference format", "exec format error",
    "no such file or directory: unknown",
)  # fmt: skip
# The driver of this one host is too old, or the host is broken: another one may do.
_HOST: Final = (
    "oci runtime create failed", "unsatisfied condition", "nvidia-container-cli", "failed to create shim",
    "no space left", "cdi devices", "error response from daemon", "toomanyrequests", "i/o timeout",
)  # fmt: skip


def diagnose(context: ProviderContext, client: Client, pod: str) -> Diagnosis | None:
    """A line that says who is at fault; None where nothing can be told."""
    if not is_id(pod):
        return None
    try:
        text = context.http().beginning(
            client.url(f"/v2/pods/{pod}/logs"), seconds=WAIT_S, headers=client.headers(),
            params={"source": "system", "tail": "200"},
        )  # fmt: skip
    except GipperError:
        return None
    found = (blamed(line) for line in reversed(list(lines(text.decode("utf-8", "replace")))))
    return next((f for f in found if f is not None), None)


def lines(stream: str) -> Iterator[str]:
    """The lines in a stream of server-sent events."""
    for row in stream.splitlines():
        if row.startswith("data:"):
            try:
                told = json.loads(row.removeprefix("data:"))
            except (ValueError, RecursionError):
                continue
            line = wire.text(wire.mapping(told).get("line"))
            if line:
                yield line[:_LINE_MOST]


def blamed(line: str) -> Diagnosis | None:
    """Who is at fault by an error line; None where it has none of the known words. Others are not shown: a
    log may hold secrets."""
    low = line.casefold()
    if any(word in low for word in _HOST):
        return Diagnosis(text=line, fault="host")
    return Diagnosis(text=line, fault="image") if any(word in low for word in _IMAGE) else None
