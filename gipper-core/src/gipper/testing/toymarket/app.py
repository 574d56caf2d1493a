"""The toy market's HTTP API: on a socket of loopback, or in this process."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from email.utils import format_datetime
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import requests
from requests.adapters import BaseAdapter

from gipper.testing.toymarket.market import CREDIT, PAGE, ToyMarket

Answer = tuple[int, Any]
# How a create that can't be is worded; a test scripts these by name.
REFUSALS: Final = {"taken": 409, "full": 503, "bad_request": 422, "no_credit": 402}
FAILURES: Final[dict[str, Answer]] = {
    **{name: (status, {"error": name}) for name, status in REFUSALS.items()},
    "broken": (500, {"error": "internal"}),
    "garbage": (200, "<html>this is no JSON"),
    "bad_key": (401, {"error": "bad_key"}),
}
# Faults that strike after the market acted.
LOST_AFTER: Final = "lost_after"
LOST_BEFORE: Final = "lost_before"
GARBAGE_AFTER: Final = "garbage_after"


class LineDead(requests.ConnectionError):
    """No answer came."""


class ToyApp:
    """`faults` maps an endpoint (offers, create, read, list, list2, end, account, charges; list2: all pages
    but the first) to a name of `FAILURES`, or to `LOST_BEFORE`, `LOST_AFTER` or `GARBAGE_AFTER`."""

    def __init__(self, market: ToyMarket) -> None:
        self.market = market
        self.faults: dict[str, str] = {}
        self.asked: list[str] = []
        self.leaks: list[str] = []
        self._lock = threading.Lock()

    def answer(self, method: str, url: str, key: str, body: bytes) -> Answer:
        """Status and JSON for one request. Raises LineDead."""
        parts = urlsplit(url)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        with self._lock:
            if self.market.key in url or self.market.key.encode() in body:
                self.leaks.append(f"{method} {parts.path}")
            return self._faulty(method, parts.path, query, key, _json(body))

    def _faulty(self, method: str, path: str, query: dict[str, str], key: str, sent: Any) -> Answer:
        endpoint, act = self._route(method, path, query, sent)
        self.asked.append(endpoint)
        fault = self.faults.get("all") or self.faults.get(endpoint)
        if fault == LOST_BEFORE:
            raise LineDead("the line went dead")
        if fault in FAILURES:
            return FAILURES[fault]
        answer = act() if key == f"Bearer {self.market.key}" else FAILURES["bad_key"]
        if fault == LOST_AFTER:
            raise LineDead("the line went dead")
        return (201, "{") if fault == GARBAGE_AFTER else answer

    def _route(
        self, method: str, path: str, query: dict[str, str], sent: Any
    ) -> tuple[str, Callable[[], Answer]]:
        machine_id = path.removeprefix("/v1/machines/")
        page = int(query.get("page", "1")) if query.get("page", "1").isdigit() else 1
        if method == "GET" and path == "/v1/machines":
            return ("list" if page == 1 else "list2"), lambda: self._list(page)
        table: dict[tuple[str, str], tuple[str, Callable[[], Answer]]] = {
            ("GET", "/v1/offers"): ("offers", lambda: self._offers(query)),
            ("POST", "/v1/machines"): ("create", lambda: self._create(sent)),
            ("GET", "/v1/account"): ("account", lambda: (200, {"credit_usd": CREDIT})),
            ("GET", "/v1/charges"): ("charges", lambda: self._charges(query)),
            ("GET", f"/v1/machines/{machine_id}"): ("read", lambda: self._read(machine_id)),
            ("DELETE", f"/v1/machines/{machine_id}"): ("end", lambda: self._end(machine_id)),
        }
        return table.get((method, path), ("none", lambda: (404, {"error": "no such page"})))

    def _offers(self, query: dict[str, str]) -> Answer:
        disk = _decimal(query.get("disk_gb", "40"))
        return (
            (422, {"error": "bad_request"}) if disk is None else (200, {"offers": self.market.priced(disk)})
        )

    def _create(self, sent: Any) -> Answer:
        disk = _decimal(sent.get("disk_gb")) if isinstance(sent, dict) else None
        if disk is None or not isinstance(sent.get("name"), str) or not isinstance(sent.get("ssh_key"), str):
            return FAILURES["bad_request"]
        if sent.get("offer") in self.market.taken:
            return FAILURES["taken"]
        ports = tuple(str(p) for p in sent.get("ports") or ())
        machine = self.market.rent(str(sent.get("offer")), sent["name"], disk, ports)
        return FAILURES["taken"] if machine is None else (201, {"machine": self.market.told(machine)})

    def _list(self, page: int) -> Answer:
        told = [self.market.told(m) for m in self.market.machines.values() if self.market.shown(m)]
        pages = max(1, -(-len(told) // PAGE))
        return 200, {"machines": told[(page - 1) * PAGE : page * PAGE], "pages": pages}

    def _read(self, machine_id: str) -> Answer:
        machine = self.market.machines.get(machine_id)
        if machine is None or not self.market.shown(machine):
            return 404, {"error": "no_such_machine"}
        return 200, {"machine": self.market.told(machine)}

    def _end(self, machine_id: str) -> Answer:
        return (202, {}) if self.market.end(machine_id) else (404, {"error": "no_such_machine"})

    def _charges(self, query: dict[str, str]) -> Answer:
        since, until = _decimal(query.get("since")), _decimal(query.get("until"))
        if since is None or until is None:
            return FAILURES["bad_request"]
        return 200, {"charges": list(self.market.charges(float(since), float(until)))}


class InProcess(BaseAdapter):
    """Mounts an app on a session of requests: `session.mount("https://api.acme.example", InProcess(app))`."""

    def __init__(self, app: ToyApp) -> None:
        super().__init__()
        self.app = app

    def send(self, request: Any, *_: Any, **__: Any) -> requests.Response:
        """Answer one prepared request."""
        body = request.body or b""
        body = body.encode() if isinstance(body, str) else body
        key = request.headers.get("Authorization", "")
        status, told = self.app.answer(request.method, request.url, key, body)
        response = requests.Response()
        response.status_code, response.url, response.request = status, request.url, request
        response.headers["Date"] = format_datetime(self.app.market.runtime.now(), usegmt=True)
        response.headers["Content-Type"] = "application/json"
        response._content = told.encode() if isinstance(told, str) else json.dumps(told).encode()
        return response

    def close(self) -> None:
        """Nothing is open."""


@contextmanager
def served(app: ToyApp, port: int = 0) -> Iterator[str]:
    """The app on loopback; gives its base URL. Port 0 = any that is free."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            key = self.headers.get("Authorization", "")
            try:
                status, told = app.answer(self.command, self.path, key, self.rfile.read(length))
            except LineDead:
                self.close_connection = True
                return
            data = told.encode() if isinstance(told, str) else json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = _serve

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _json(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return None


def _decimal(value: object) -> Decimal | None:
    try:
        found = Decimal(str(value))
    except InvalidOperation:
        return None
    return found if found.is_finite() else None
