"""The emulated market held against a description of its API, by requests that nobody thought of.

Shadeform has no client of its own for Python that could be asked instead.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import schemathesis
from emulators.housing import NoHousing
from emulators.shadeform.app import make_shadeform
from emulators.shadeform.catalog import kind, odd_market
from emulators.shadeform.schema import BASE, Schema, document, operations
from emulators.shadeform.shapes import instance_row
from hypothesis import HealthCheck, given, settings
from support_bench import START
from werkzeug.test import Client, EnvironBuilder
from werkzeug.wrappers import Request, Response

from gipper.testing import SimRuntime

MARKET, APP = make_shadeform(SimRuntime(START), NoHousing(), odd_market(), host="8.8.4.4", stuck="pending")
RIGHT, WRONG = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE
BODIES = ("create", "update", "add_key", "types")
ASKED = [(name, mode) for name in operations() for mode in (RIGHT, WRONG) if mode is RIGHT or name in BODIES]
SCHEMA = schemathesis.openapi.from_dict(document())


@pytest.mark.parametrize(("name", "mode"), ASKED)
def test_no_request_breaks_it(name: str, mode: schemathesis.GenerationMode) -> None:
    """Whatever is asked, right or wrong, the answer is no 500, and it is one that is declared; with ids that exist,
    too."""
    method, path = operations()[name]
    body = {"cloud": "vultr", "region": "london-uk-1", "shade_instance_type": "L40S", "name": "gipper-a"}
    machine = MARKET.create(body, MARKET.kinds[14], 1)  # type: ignore[arg-type]
    there = MARKET.ssh_keys[0].id if "sshkeys" in path else machine.id
    asked = []

    @given(SCHEMA[path][method.upper()].as_strategy(generation_mode=mode))
    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    def holds(case: Any) -> None:
        for place in {case.formatted_path, path.replace("{id}", there)}:
            told = _asked(case, place)
            asked.append(told.status_code)
            assert told.status_code < 500, told.get_data(as_text=True)
        # The service ignores what it doesn't know, and so does this one: only answers count here.
        assert [text for text in APP.schema.off if ": answer" in text] == []

    holds()
    # A key in use isn't deleted, a machine that isn't up isn't restarted, and invented places are sold out.
    assert 200 in asked or mode is WRONG or name in ("delete_key", "restart", "create")


def _asked(case: Any, path: str) -> Any:
    words = case.as_transport_kwargs(base_url="http://market.example")
    return Client(APP).open(
        path=BASE + path,
        method=case.method,
        query_string=words.get("params") or {},
        json=words.get("json"),
        headers={**dict(words.get("headers") or {}), "X-API-KEY": MARKET.key},
    )


def _judged(
    method: str, path: str, *, told: Any, status: int = 200, key: str | None = "k", **sent: Any
) -> list[str]:
    """What the schema has against one exchange."""
    judge = Schema()
    builder = EnvironBuilder(
        method=method, path=BASE + path, headers={"X-API-KEY": key} if key else {}, **sent
    )
    response = (
        Response(status=status)
        if told is None
        else Response(json.dumps(told), status, content_type="application/json")
    )
    judge.judge(Request(builder.get_environ()), response)
    return judge.off


def test_the_schema_would_notice() -> None:
    """An empty key id, a field or parameter that there isn't, dollars for cents, a body too many, no key."""
    body = {
        "cloud": "a",
        "region": "b",
        "shade_instance_type": "c",
        "shade_cloud": True,
        "name": "n",
        "ssh_key_id": "k",
    }
    made, row = {"id": "d290f1ee-6c54-4b01-90e6-d701748f0851"}, kind("a", "A6000")
    assert _judged("POST", "/instances/create", json=body, told=made) == []
    wrong = (
        {"ssh_key_id": ""},
        {"ports": []},
        {"auto_delete": {"spend_threshold": 6}},
        {"volume_ids": ["a", "b"]},
    )
    for change in wrong:
        assert len(_judged("POST", "/instances/create", json={**body, **change}, told=made)) == 1
    assert len(_judged("POST", "/instances/create", json=body, told={})) == 1
    assert _judged("GET", "/instances/types", told={"instance_types": [row]}, key=None) == []
    assert (
        len(_judged("GET", "/instances/types", told={"instance_types": []}, query_string={"gpu": "A6000"}))
        == 1
    )
    assert _judged("GET", "/instances/types", told={"instance_types": [{**row, "hourly_price": "0.57"}]})
    assert len(_judged("POST", f"/instances/{made['id']}/delete", told={})) == 1
    assert len(_judged("GET", "/instances", told={"instances": []}, key=None)) == 1
    assert len(_judged("GET", "/instances", told={"message": "x"}, status=418)) == 1
    assert len(_judged("GET", "/nothing", told={})) == 1


def test_lists_hold_less_than_infos() -> None:
    """What only the question about one machine tells must not stand in the list."""
    body = {"cloud": "vultr", "region": "london-uk-1", "shade_instance_type": "L40S", "name": "gipper-b"}
    machine = MARKET.create(body, MARKET.kinds[14], 1)  # type: ignore[arg-type]
    short, whole = (instance_row(machine, MARKET, info=info) for info in (False, True))
    assert _judged("GET", "/instances", told={"instances": [short]}) == []
    assert _judged("GET", f"/instances/{machine.id}/info", told=whole) == []
    assert _judged("GET", "/instances", told={"instances": [whole]})
