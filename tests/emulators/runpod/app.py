"""Runpod's REST v2 and GraphQL over the emulated market: paths, answers and refusals as the service's.

market, app = make_runpod(runtime, housing, gpus=[gpu("NVIDIA GeForce RTX 4090")])
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import attrs
from emulators.housing import Housing
from emulators.meter import DAY, HOUR, windows
from emulators.runpod import graphql
from emulators.runpod.checks import create_fault, query_fault
from emulators.runpod.knobs import Knobs
from emulators.runpod.market import Market, Pod, gpu
from emulators.runpod.schema import Schema
from emulators.runpod.shapes import gpu_row, pod_row, status_of
from emulators.web import MarketApp, Route, as_response
from werkzeug.wrappers import Request, Response

from gipper.runtime import Runtime

_OPEN = frozenset({"graphql", "none"})
_MOST_BODY = 102_400
_STEPS = {"hour": HOUR, "day": DAY}
NO_CAPACITY = "There are no longer any instances available with the requested specifications. Please refresh and try again."


def make_runpod(
    runtime: Runtime, housing: Housing, gpus: Sequence[dict[str, Any]] = (), **changes: Any
) -> tuple[Market, RunpodApp]:
    """A market with this catalogue; `changes` are the account's or the knobs'."""
    account = {k: changes.pop(k) for k in ("key", "credit", "host", "own_clock") if k in changes}
    market = Market(
        runtime=runtime, housing=housing, gpus=list(gpus) or [gpu("NVIDIA GeForce RTX 4090")],
        knobs=Knobs(**changes), **account,
    )  # fmt: skip
    return market, RunpodApp(market)


class RunpodApp(MarketApp):
    """The service."""

    def __init__(self, market: Market) -> None:
        self.market = market
        self.schema = Schema()
        one = "/v2/pods/<string:ident>"
        routes = [
            Route(methods=("GET",), path="/v2/catalog/gpus", endpoint="catalog", call=self.catalog),
            Route(methods=("POST",), path="/v2/pods", endpoint="create", call=self.create),
            Route(methods=("GET",), path="/v2/pods", endpoint="list", call=self.list_page),
            Route(methods=("GET",), path=one, endpoint="read", call=self.read),
            Route(methods=("DELETE",), path=one, endpoint="destroy", call=self.destroy),
            Route(methods=("PATCH",), path=one, endpoint="patch", call=self.patch),
            Route(methods=("POST",), path=f"{one}/action", endpoint="action", call=self.action),
            Route(methods=("GET",), path=f"{one}/logs", endpoint="logs", call=self.logs),
            Route(methods=("GET",), path="/v2/billing/pods", endpoint="billing", call=self.billing),
            Route(methods=("GET",), path="/v2/network-volumes/<string:ident>", endpoint="volume", call=self.volume),
            Route(methods=("GET",), path="/v2/account/ssh-keys", endpoint="ssh_keys", call=self.ssh_keys),
            Route(methods=("POST",), path="/graphql", endpoint="graphql", call=self.graphql),
        ]  # fmt: skip
        super().__init__(market.runtime, [self._judged(route) for route in routes], self._secrets)

    def _judged(self, route: Route) -> Route:
        """The route, with each request that reaches it and each answer held against the schema."""

        def call(request: Request, **parts: str) -> Response:
            response = as_response(route.call(request, **parts))
            self.schema.judge(route.endpoint, request, response)
            return response

        return attrs.evolve(route, call=call)

    def _secrets(self) -> list[str]:
        return [self.market.key, *(p.key for p in self.market.pods.values())]

    def decorate(self, response: Response) -> None:
        response.headers["x-request-id"] = f"req-{secrets.token_hex(6)}"

    def refuse(self, request: Request, endpoint: str) -> Any:
        """Key, scope, a pod's own key, size."""
        if request.headers.get("User-Agent", "").startswith("Python-urllib"):
            return 403, "<html>error code: 1010</html>"
        if len(request.get_data()) > _MOST_BODY:
            return _problem(413, "Payload Too Large", "request body too large")
        if endpoint in _OPEN:
            return None
        told = request.headers.get("Authorization", "")
        if not told.startswith("Bearer "):
            return _problem(401, "Unauthorized", "missing bearer token")
        if told == f"Bearer {self.market.key}":
            denied = endpoint in self.market.knobs.scope_denied
            return _problem(403, "Forbidden", "access denied") if denied else None
        owner = next((p for p in self.market.pods.values() if told == f"Bearer {p.key}"), None)
        if owner is None:
            return _problem(401, "Unauthorized", "invalid API key")
        mine = request.path == f"/v2/pods/{owner.id}" and endpoint in ("read", "destroy")
        return None if mine else _problem(403, "Forbidden", "access denied")

    def no_route(self, request: Request) -> Any:
        return _problem(404, "Not Found", "resource not found")

    def catalog(self, request: Request) -> Any:
        asked = {k: v[-1] for k, v in request.args.lists()}
        fault = query_fault(asked)
        if fault is not None:
            return _problem(*fault)
        rows = (gpu_row(kind, asked) for kind in self.market.gpus)
        return 200, {"gpus": [row for row in rows if row is not None]}

    def create(self, request: Request) -> Any:
        body = request.get_json(silent=True)
        fault = create_fault(body)
        if fault is not None:
            return _problem(*fault[:3], errors=fault[3])
        if self.market.credit_left() <= 0:
            return _problem(402, "Payment Required", "insufficient balance")
        # Machines without a GPU are never to be had here.
        kind = self.market.find(body.get("gpu", {}).get("id", ""))
        center = None if kind is None else _place(kind, body)
        if (
            kind is None
            or center is None
            or int(body["gpu"].get("count", 1)) > max(kind["maxCount"].values())
        ):
            return _problem(400, "Bad Request", NO_CAPACITY)
        return 201, self._row(self.market.create(body, kind, center))

    def list_page(self, request: Request) -> Any:
        limit, after = _whole(request.args.get("limit", "1000")), request.args.get("cursor")
        start = 0 if after is None else _cursor(after)
        if start is None or limit is None or not 1 <= limit <= 1000:
            return _problem(422, "Unprocessable Entity", "bad cursor or limit")
        rows = [self._row(p) for p in self.market.listed()]
        if self.market.knobs.no_pages:
            return 200, {"pods": rows}
        size = min(limit, self.market.knobs.page)
        more = start + size < len(rows)
        pages = {"nextCursor": _as_cursor(start + size) if more else None, "hasNextPage": more}
        return 200, {"pods": rows[start : start + size], "pagination": pages}

    def read(self, request: Request, ident: str) -> Any:
        pod = self.market.pods.get(ident)
        if pod is None or (pod.ended is not None and not self._still_shown(pod)):
            return _not_found()
        return 200, self._row(pod)

    def destroy(self, request: Request, ident: str) -> Any:
        pod = self.market.pods.get(ident)
        if pod is None or not pod.alive:
            return _not_found()
        if pod.locked:
            return _problem(409, "Conflict", "pod is locked")
        self.market.end(pod)
        return Response(status=204)

    def patch(self, request: Request, ident: str) -> Any:
        pod = self.market.pods.get(ident)
        if pod is None or not pod.alive:
            return _not_found()
        pod.locked = bool((request.get_json(silent=True) or {}).get("locked", pod.locked))
        return 200, self._row(pod)

    def action(self, request: Request, ident: str) -> Any:
        pod, wanted = self.market.pods.get(ident), (request.get_json(silent=True) or {}).get("action")
        if pod is None or not pod.alive:
            return _not_found()
        if wanted == "terminate":
            return self.destroy(request, ident)
        if wanted != "stop" or status_of(pod, self.runtime.now(), self.market.knobs) == "EXITED":
            return _problem(409, "Conflict", "action not allowed in this status")
        self.market.stop(pod)
        return 200, self._row(pod)

    def logs(self, request: Request, ident: str) -> Any:
        if ident not in self.market.pods:
            return _not_found()
        now = f"{self.runtime.now():%Y-%m-%dT%H:%M:%S.000Z}"
        rows = [
            f"id: {now}/{n}\ndata: {json.dumps({'ts': now, 'source': 'system', 'line': line})}\n\n"
            for n, line in enumerate(self.market.knobs.log)
        ]
        return Response("".join(rows), content_type="text/event-stream")

    def billing(self, request: Request) -> Any:
        step = _STEPS.get(request.args.get("bucketSize", "day"), DAY)
        now = self.runtime.now()
        try:
            since = _moment(request.args.get("startTime")) or now - timedelta(days=30)
            until = _moment(request.args.get("endTime")) or now
        except (ValueError, OverflowError):
            return _problem(422, "Unprocessable Entity", "bad startTime or endTime")
        wanted = request.args.get("podId")
        pods = [p for p in self.market.pods.values() if wanted in (None, p.id)]
        records = [
            r for p in pods for w in windows(since, until, step) if (r := self._record(p, *w)) is not None
        ]
        whole = sum(r["totalAmount"] for r in records)
        return 200, {"records": records, "metadata": {
            "recordCount": len(records), "uniquePodCount": len(pods), "totals": {"totalAmount": whole}}}  # fmt: skip

    def _record(self, pod: Pod, since: datetime, until: datetime) -> dict[str, Any] | None:
        seen = self.runtime.now() - timedelta(seconds=self.market.knobs.bills_lag_s)
        amounts = {"gpuAmount": 0.0, "cpuAmount": 0.0, "diskAmount": 0.0}
        for line in pod.lines():
            amounts[line.kind] = float(line.within(since, until, seen).quantize(Decimal("0.000001")))
        if not any(amounts.values()):
            return None
        whole = sum(Decimal(str(a)) for a in amounts.values())
        return {"startTime": f"{since:%Y-%m-%dT%H:%M:%SZ}", "endTime": f"{until:%Y-%m-%dT%H:%M:%SZ}",
                "podId": pod.id, "totalAmount": float(whole), **amounts}  # fmt: skip

    def volume(self, request: Request, ident: str) -> Any:
        if ident != "vol1example":
            return _problem(404, "Not Found", "resource not found")
        return 200, {"id": ident, "name": "data", "size": 100, "dataCenter": "EU-SE-1", "type": "STANDARD"}

    def ssh_keys(self, request: Request) -> Any:
        return 200, {"keys": []}

    def graphql(self, request: Request) -> Any:
        told = request.headers.get("Authorization", "")
        if told and told != f"Bearer {self.market.key}":
            return 401, ""
        return graphql.answer(self.market, request.get_json(silent=True) or {}, bool(told))

    def _row(self, pod: Pod) -> dict[str, Any]:
        return pod_row(pod, self.runtime.now(), self.market.knobs, self.market.host)

    def _still_shown(self, pod: Pod) -> bool:
        assert pod.ended is not None
        return (self.runtime.now() - pod.ended).total_seconds() < self.market.knobs.terminated_shown_s


def _place(kind: dict[str, Any], body: dict[str, Any]) -> str | None:
    """A data centre with stock, of those asked for; None where there is none."""
    wanted = body.get("dataCenterIds")
    if not kind[str(body.get("cloud", "SECURE")).casefold()]:
        return None
    fits = (c for c, (_, level) in kind["stock"].items() if level != "NONE" and (not wanted or c in wanted))
    return next(fits, None)


def _not_found() -> Any:
    return _problem(404, "Not Found", "pod not found")


def _problem(status: int, title: str, detail: str, errors: Sequence[str] = ()) -> Response:
    told: dict[str, Any] = {"title": title, "status": status, "detail": detail}
    if errors:
        told["errors"] = list(errors)
    return Response(json.dumps(told), status=status, content_type="application/problem+json")


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _as_cursor(start: int) -> str:
    return base64.urlsafe_b64encode(f"c{start}".encode()).decode()


def _cursor(text: str) -> int | None:
    try:
        told = base64.urlsafe_b64decode(text).decode()
        return int(told[1:]) if told.startswith("c") else None
    except ValueError:
        return None


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text).astimezone(UTC)
