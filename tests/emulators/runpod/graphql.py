"""The older API: a small reader of GraphQL, and what the market's own SDK and gipper ask there.

Inline literals and variables; selections are answered as they were made; an unknown field is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import attrs
from emulators.runpod.market import Market
from emulators.runpod.shapes import old_pod

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\$?[A-Za-z_][A-Za-z0-9_]*!?|-?\d+(?:\.\d+)?|[{}()\[\]:!]')


class Wrong(Exception):
    """The question can't be read, or asks for what isn't there: HTTP 400."""


@attrs.frozen
class Enum:
    """A bare word as a value."""

    name: str


@attrs.frozen
class Field:
    """One field of a selection."""

    name: str
    arguments: Mapping[str, Any]
    inner: tuple[Field, ...] | None


def answer(market: Market, body: Mapping[str, Any], keyed: bool) -> tuple[int, Any]:
    """The answer to one question."""
    try:
        fields = _Reader(str(body.get("query", "")), body.get("variables") or {}).document()
        data = {f.name: _top(market, f, keyed) for f in fields}
    except Wrong as error:
        return 400, {"errors": [{"message": str(error), "extensions": {"code": "GRAPHQL_VALIDATION_FAILED"}}]}
    except _Refused as error:
        told = {"message": str(error), "path": [fields[0].name], "extensions": {"code": error.code}}
        return 200, {"errors": [told], "data": {fields[0].name: None}}
    return 200, {"data": data}


class _Refused(Exception):
    def __init__(self, text: str, code: str = "RUNPOD") -> None:
        super().__init__(text)
        self.code = code


def _top(market: Market, field: Field, keyed: bool) -> Any:
    asked = field.arguments.get("input") or {}
    if field.name == "gpuTypes":
        kinds = [g for g in market.gpus if asked.get("id") in (None, g["id"])]
        return [_picked(_old_gpu(g), field) for g in kinds]
    if field.name == "countryCodes":
        return [None, "SE", "US"]
    if not keyed:
        return None
    if field.name == "myself":
        return _myself(market, field)
    if field.name == "pod":
        pod = market.pods.get(str(asked.get("podId")))
        shown = pod is not None and pod.alive
        return _picked(old_pod(market, pod, market.runtime.now()), field) if shown and pod else None
    if field.name == "podTerminate":
        return _terminate(market, str(asked.get("podId")))
    if field.name == "podFindAndDeployOnDemand":
        return _deploy(market, field, asked)
    raise Wrong(f'Cannot query field "{field.name}" on type "Query".')


def _myself(market: Market, field: Field) -> Any:
    if "graphql" in market.knobs.scope_denied:
        raise _Refused("Unauthorized")
    now = market.runtime.now()
    spend = sum((p.usd_h for p in market.alive() if p.stopped is None), start=type(market.credit)(0))
    whole = {
        "id": "user_2example", "pubKey": "", "networkVolumes": [], "clientBalance": float(market.credit_left()),
        "currentSpendPerHr": float(spend), "spendLimit": 80, "notifyLowBalance": True,
        "pods": [old_pod(market, p, now) for p in market.alive()],
    }  # fmt: skip
    return _picked(whole, field)


def _terminate(market: Market, ident: str) -> None:
    pod = market.pods.get(ident)
    if pod is None or not pod.alive:
        raise _Refused("pod not found to terminate", "POD_NOT_FOUND")
    market.end(pod)


def _deploy(market: Market, field: Field, asked: Mapping[str, Any]) -> Any:
    kind = market.find(str(asked.get("gpuTypeId")))
    if kind is None or not any(level != "NONE" for _, level in kind["stock"].values()):
        raise _Refused("There are no longer any instances available with the requested specifications. "
                       "Please refresh and try again.")  # fmt: skip
    cloud = asked.get("cloudType")
    body = {
        "name": asked["name"], "image": asked["imageName"], "disk": asked.get("containerDiskInGb", 10),
        "cloud": "SECURE" if isinstance(cloud, Enum) and cloud.name == "ALL" else getattr(cloud, "name", "SECURE"),
        "gpu": {"id": kind["id"], "count": asked.get("gpuCount", 1)},
        "ports": [p for p in str(asked.get("ports") or "").split(",") if p],
        "env": {e["key"]: e["value"] for e in asked.get("env") or []},
    }  # fmt: skip
    return _picked(old_pod(market, market.create(body, kind, None), market.runtime.now()), field)


def _old_gpu(kind: Mapping[str, Any]) -> dict[str, Any]:
    price, stock = kind["price"], [level for _, level in kind["stock"].values() if level != "NONE"]
    return {
        "id": kind["id"], "displayName": kind["name"], "manufacturer": kind["manufacturer"],
        "memoryInGb": kind["memory"], "cudaCores": 0, "secureCloud": kind["secure"],
        "communityCloud": kind["community"], "securePrice": price["secure"], "communityPrice": price["community"],
        "oneMonthPrice": None, "threeMonthPrice": None, "oneWeekPrice": None, "communitySpotPrice": None,
        "secureSpotPrice": None, "maxGpuCount": max(kind["maxCount"].values()),
        "lowestPrice": {"minimumBidPrice": None, "uninterruptablePrice": price["community"] if stock else None,
                        "stockStatus": stock[0].title() if stock else None},
    }  # fmt: skip


def _picked(whole: Any, field: Field) -> Any:
    if field.inner is None or whole is None:
        return whole
    if isinstance(whole, list):
        return [_picked(one, field) for one in whole]
    unknown = [f.name for f in field.inner if f.name not in whole]
    if unknown:
        raise Wrong(f'Cannot query field "{unknown[0]}" on type "{field.name}".')
    return {f.name: _picked(whole[f.name], f) for f in field.inner}


class _Reader:
    """Reads one operation."""

    def __init__(self, text: str, variables: Mapping[str, Any]) -> None:
        self._tokens = _TOKEN.findall(text)
        self._at = 0
        self._variables = variables

    def document(self) -> tuple[Field, ...]:
        """The fields at the top."""
        while self._peek() not in ("{", None):
            if self._next() == "(":
                self._skip()
        return self._selection()

    def _skip(self) -> None:
        while self._next() != ")":
            pass

    def _peek(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _next(self) -> str:
        token = self._peek()
        if token is None:
            raise Wrong("Syntax Error: Unexpected <EOF>.")
        self._at += 1
        return str(token)

    def _selection(self) -> tuple[Field, ...]:
        self._expect("{")
        found = []
        while self._peek() != "}":
            found.append(self._field())
        self._expect("}")
        return tuple(found)

    def _field(self) -> Field:
        name = self._next()
        arguments = self._object("(", ")") if self._peek() == "(" else {}
        inner = self._selection() if self._peek() == "{" else None
        return Field(name, arguments, inner)

    def _object(self, opening: str, closing: str) -> dict[str, Any]:
        self._expect(opening)
        found = {}
        while self._peek() != closing:
            name = self._next()
            self._expect(":")
            found[name] = self._value()
        self._expect(closing)
        return found

    def _value(self) -> Any:
        token = self._peek()
        if token == "{":
            return self._object("{", "}")
        if token == "[":
            return self._list()
        token = self._next()
        if token.startswith("$"):
            return self._variables.get(token[1:])
        if token.startswith('"') or token[0].isdigit() or token[0] == "-":
            return json.loads(token)
        return {"true": True, "false": False, "null": None}.get(token, Enum(token))

    def _list(self) -> list[Any]:
        self._expect("[")
        found = []
        while self._peek() != "]":
            found.append(self._value())
        self._expect("]")
        return found

    def _expect(self, token: str) -> None:
        got = self._next()
        if got != token:
            raise Wrong(f'Syntax Error: Expected "{token}", found "{got}".')
