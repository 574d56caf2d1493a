"""What may go over the wire, from `openapi.json` beside it, which was written for these tests."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from werkzeug.wrappers import Request, Response

BASE = "/v1"
_FILE = Path(__file__).with_name("openapi.json")
# A request that was refused as wrong may be wrong, and one without the key says nothing.
_UNJUDGED = (400, 401)


@cache
def document() -> dict[str, Any]:
    """The whole as an OpenAPI document."""
    told: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))
    return told


def operations() -> dict[str, tuple[str, str]]:
    """(method, path) by the operation's id, which is the emulator's endpoint where that has one path."""
    return {
        one["operationId"]: (method, path)
        for path, item in document()["paths"].items()
        for method, one in item.items()
    }


class Schema:
    """Judges what goes over the wire; `off` collects what doesn't fit, in words."""

    def __init__(self) -> None:
        self.off: list[str] = []
        self.judged = 0

    def judge(self, request: Request, response: Response) -> None:
        """A request that was taken must fit; an answer must, whatever it is."""
        self.judged += 1
        found = _operation(request)
        if found is None:
            self.off.append(f"{request.method} {request.path}: no such call")
            return
        what = f"{found['operationId']}: "
        if response.status_code not in _UNJUDGED:
            self.off += [what + text for text in (*_request(found, request),)]
        self.off += [what + text for text in _answer(found, response)]


def _operation(request: Request) -> dict[str, Any] | None:
    # A path without a part in braces wins.
    for template in sorted(document()["paths"], key=lambda t: "{" in t):
        pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(BASE + template))
        item = document()["paths"][template]
        if re.fullmatch(pattern, request.path) and request.method.lower() in item:
            found: dict[str, Any] = item[request.method.lower()]
            return found
    return None


def _request(found: dict[str, Any], request: Request) -> list[str]:
    open_ = {} in found.get("security", document()["security"])
    off = [] if open_ or "X-API-KEY" in request.headers else ["request: without a key"]
    known = {p["name"]: p["schema"] for p in found.get("parameters", []) if p["in"] == "query"}
    for name, value in request.args.items():
        off += (
            _fits(f"parameter {name}", known[name], value)
            if name in known
            else [f"parameter {name} isn't known"]
        )
    body = found.get("requestBody")
    if body is None:
        return off + (["request: a body where none is declared"] if request.get_data() else [])
    return off + _fits(
        "request", body["content"]["application/json"]["schema"], request.get_json(silent=True)
    )


def _answer(found: dict[str, Any], response: Response) -> list[str]:
    declared = found["responses"].get(str(response.status_code))
    if declared is None:
        return [f"answer: status {response.status_code} isn't declared"]
    if "content" not in declared:
        return ["answer: a body where none is declared"] if response.get_data() else []
    if response.mimetype not in declared["content"]:
        return [f"answer: {response.mimetype} isn't declared"]
    told = response.get_json() if response.mimetype == "application/json" else response.get_data(as_text=True)
    return _fits("answer", declared["content"][response.mimetype]["schema"], told)


def _fits(what: str, schema: dict[str, Any], value: Any) -> list[str]:
    whole = {"components": document()["components"], **schema}
    return [
        f"{what}: {e.json_path}: {e.message[:200]}" for e in Draft202012Validator(whole).iter_errors(value)
    ]
