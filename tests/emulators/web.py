"""A market's API as a WSGI app: routes, a log of all requests, faults, a trap for leaked keys.

with served(app) as url:                                   # over HTTP on loopback
session.mount("https://console.acme.example", InProcess(app))   # in this process, without a socket
"""

from __future__ import annotations

import contextlib
import io
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from email.utils import format_datetime
from typing import Any
from urllib.parse import unquote

import attrs
import requests
from emulators.faults import Fault, Faults
from werkzeug.exceptions import HTTPException
from werkzeug.routing import Map, Rule
from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.test import EnvironBuilder, run_wsgi_app
from werkzeug.wrappers import Request, Response

from gipper.runtime import Runtime


class Hangup(ConnectionError):
    """The line goes dead without an answer."""


@attrs.frozen(kw_only=True)
class Seen:
    """One request as it arrived. `query` and `body` are text; `at` is our monotonic time."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: str
    endpoint: str
    at: float

    @property
    def json(self) -> Any:
        """The body's JSON; None where there is none."""
        return json.loads(self.body) if self.body else None


@attrs.frozen(kw_only=True)
class Route:
    """`call(request, **parts of the path)` answers (status, body) or a Response."""

    methods: tuple[str, ...]
    path: str
    endpoint: str
    call: Callable[..., Any]


class MarketApp:
    """A market. `secrets` are values that may stand in a header and nowhere else."""

    def __init__(
        self, runtime: Runtime, routes: Iterable[Route], secrets: Callable[[], Iterable[str]]
    ) -> None:
        self.runtime = runtime
        self.faults = Faults()
        self.requests: list[Seen] = []
        self.leaks: list[str] = []
        self.base_url = ""
        self._secrets = secrets
        self._lock = threading.RLock()
        self._calls: dict[str, Callable[..., Any]] = {}
        rules = []
        for number, route in enumerate(routes):
            name = f"{route.endpoint} {number}"
            self._calls[name] = route.call
            rules.append(Rule(route.path, endpoint=name, methods=route.methods))
        self._map = Map(rules, strict_slashes=False, merge_slashes=False)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        request = Request(environ)
        request.get_data(cache=True)
        try:
            response = self._answered(request, environ)
        except Hangup:
            _cut(environ)
            raise
        self.decorate(response)
        response.headers["Date"] = format_datetime(self.runtime.now(), usegmt=True)
        return response(environ, start_response)

    def seen(self, endpoint: str) -> list[Seen]:
        """The requests of one endpoint, in order."""
        return [s for s in self.requests if s.endpoint == endpoint]

    def refuse(self, request: Request, endpoint: str) -> Any:
        """An answer to a request that may not come now (rate, key); None lets it in."""
        return None

    def decorate(self, response: Response) -> None:
        """Headers that every answer bears."""

    def no_route(self, request: Request) -> Any:
        """The answer to a path that the market doesn't have."""
        return 404, {"error": "not found"}

    def _answered(self, request: Request, environ: dict[str, Any]) -> Response:
        try:
            name, parts = self._map.bind_to_environ(environ).match()
        except HTTPException:
            self._note(request, "none")
            return as_response(self.no_route(request))
        endpoint = str(name).split(" ")[0]
        self._note(request, endpoint)
        fault = self.faults.take(endpoint)
        if fault is not None and fault.delay_s:
            self.runtime.sleep(fault.delay_s)
        if fault is not None and not fault.ok and fault.when == "before":
            return self._broken(fault)
        with self._lock:
            refused = self.refuse(request, endpoint)
            told = refused if refused is not None else self._calls[str(name)](request, **parts)
        if fault is not None and not fault.ok:
            return self._broken(fault)
        return as_response(told)

    def _broken(self, fault: Fault) -> Response:
        if fault.answer is None:
            raise Hangup("the line went dead")
        code, body, headers = fault.answer
        response = as_response((code, body))
        response.headers.update(headers)
        return response

    def _note(self, request: Request, endpoint: str) -> None:
        body = request.get_data(as_text=True)
        query = request.query_string.decode("latin-1")
        seen = Seen(
            method=request.method, path=request.path, query=query, headers=dict(request.headers.items()),
            body=body, endpoint=endpoint, at=self.runtime.monotonic(),
        )  # fmt: skip
        self.requests.append(seen)
        places = {"path": request.path, "query": unquote(query), "body": body}
        places["Referer"] = request.headers.get("Referer", "")
        for secret in filter(None, self._secrets()):
            self.leaks += [
                f"{where} of {seen.method} {seen.path}" for where, t in places.items() if secret in t
            ]


def as_response(told: Any) -> Response:
    """(status, body) as an answer; text goes out as it is, anything else as JSON."""
    if isinstance(told, Response):
        return told
    code, body = told
    if isinstance(body, (str, bytes)):
        kind = "text/html" if str(body[:1]) == "<" else "text/plain"
        return Response(body, status=code, content_type=kind)
    # Exactly this type: a charset behind it makes the vendors' clients refuse the answer.
    response = Response(json.dumps(body), status=code)
    response.headers["Content-Type"] = "application/json"
    return response


def _cut(environ: Mapping[str, Any]) -> None:
    sock = environ.get("werkzeug.socket")
    if isinstance(sock, socket.socket):
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.shutdown(socket.SHUT_RDWR)


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: object) -> None:
        pass

    def log_error(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def served(app: MarketApp) -> Iterator[str]:
    """The app over HTTP; its base URL."""
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Quiet)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    app.base_url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield app.base_url
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class InProcess(requests.adapters.BaseAdapter):
    """A transport that calls the app in this thread."""

    def __init__(self, app: MarketApp) -> None:
        super().__init__()
        self._app = app

    def send(self, request: requests.PreparedRequest, **_: Any) -> requests.Response:
        body = request.body or b""
        builder = EnvironBuilder(
            method=request.method, path=request.path_url.partition("?")[0],
            query_string=request.path_url.partition("?")[2], headers=dict(request.headers),
            data=body.encode() if isinstance(body, str) else body,
        )  # fmt: skip
        try:
            told, text, headers = run_wsgi_app(self._app, builder.get_environ(), buffered=True)
        except Hangup as error:
            raise requests.ConnectionError("the line went dead", request=request) from error
        response = requests.Response()
        response.status_code = int(text.split(" ")[0])
        response.headers.update(dict(headers.items()))
        response.raw = io.BytesIO(b"".join(told))
        response._content = response.raw.getvalue()
        response.url, response.request = str(request.url), request
        return response

    def close(self) -> None:
        pass
