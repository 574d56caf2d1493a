"""The emulated market held against a description of REST v2, by requests that nobody thought of."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from emulators.housing import NoHousing
from emulators.runpod.app import make_runpod
from emulators.runpod.schema import CREATE, OPERATIONS, Schema, document
from hypothesis import HealthCheck, given, settings
from support_bench import START
from werkzeug.test import Client, EnvironBuilder
from werkzeug.wrappers import Request, Response

from gipper.testing import SimRuntime

MARKET, APP = make_runpod(SimRuntime(START), NoHousing(), host="8.8.4.4", never_ready=True)
RIGHT, WRONG = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE
# An id in a path is any text: there is no wrong one.
ASKED = [
    (name, mode) for name in OPERATIONS for mode in (RIGHT, WRONG)
    if mode is RIGHT or name not in ("read", "destroy")
]  # fmt: skip
SCHEMA = schemathesis.openapi.from_dict(document())


@pytest.mark.parametrize(("endpoint", "mode"), ASKED)
def test_no_request_breaks_it(endpoint: str, mode: schemathesis.GenerationMode) -> None:
    """Whatever is asked, right or wrong, the answer is no 500, and it fits the description."""
    method, path = OPERATIONS[endpoint][:2]

    @given(SCHEMA[path][method.upper()].as_strategy(generation_mode=mode))
    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    def holds(case: Any) -> None:
        told = _asked(case)
        assert told.status_code < 500, told.get_data(as_text=True)
        # The service ignores parameters that it doesn't know, and so does this one: only answers count here.
        assert [text for text in APP.schema.off if ": answer" in text or ": refusal" in text] == []

    holds()
    assert APP.seen(endpoint)


def _asked(case: Any) -> Any:
    words = case.as_transport_kwargs(base_url="http://market.example")
    return Client(APP).open(
        path=case.formatted_path,
        method=case.method,
        query_string=words.get("params") or {},
        json=words.get("json"),
        headers={**dict(words.get("headers") or {}), "Authorization": f"Bearer {MARKET.key}"},
    )


def test_the_schema_would_notice() -> None:
    """A field that a create must not have, an answer without its list, and a refusal that is no problem."""
    judge = Schema()
    builder = EnvironBuilder(method="POST", json={"name": "a", "gpuTypeIds": ["x"]})
    judge.judge(
        "create", Request(builder.get_environ()), Response("{}", status=201, content_type="application/json")
    )
    builder = EnvironBuilder(method="GET", query_string="status=RUNNING")
    judge.judge("list", Request(builder.get_environ()), Response("{}", content_type="application/json"))
    judge.judge(
        "read", Request(builder.get_environ()), Response("{}", status=404, content_type="application/json")
    )
    told = "\n".join(judge.off)
    assert "'gpuTypeIds' was unexpected" in told and "'status' is a required" in told
    assert "parameter status isn't known" in told and "'pods' is a required property" in told
    assert "read: refusal" in told
    assert CREATE["additionalProperties"] is False and len(OPERATIONS) == 7
