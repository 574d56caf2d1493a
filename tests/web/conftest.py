"""A market on loopback that answers as each test scripts it and remembers what it was asked."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import attrs
import pytest

from gipper.http import ProviderSession, make_session
from gipper.runtime import RealRuntime

KEY = "sk-test-ABC123-secret"


@attrs.define
class Asked:
    """One request as the server saw it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class FakeMarket:
    """`script` holds (status, headers, body), "lose" (read it, then hang up) in order; the last one stays."""

    def __init__(self) -> None:
        self.script: list[Any] = [(200, {}, b"{}")]
        self.asked: list[Asked] = []
        market = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                market.answer(self)

            do_GET = do_POST = do_PUT = do_DELETE = do_CONNECT = handle_any

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        self.asked.append(Asked(handler.command, handler.path, dict(handler.headers.items()), body))
        reply = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if reply == "lose":
            linger = struct.pack("ii", 1, 0)
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            handler.close_connection = True
            handler.connection.close()
            return
        status, headers, payload = reply
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(payload)))
        handler.end_headers()
        handler.wfile.write(payload)


class QuickRuntime(RealRuntime):
    """The real one, but sleeping only moves its clock; `slept` tells how long."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def monotonic(self) -> float:
        return super().monotonic() + sum(self.slept)


@pytest.fixture
def runtime() -> QuickRuntime:
    return QuickRuntime()


@pytest.fixture
def new_market(runtime: QuickRuntime) -> Iterator[Callable[[], FakeMarket]]:
    running: list[tuple[FakeMarket, Any]] = []

    def start() -> FakeMarket:
        market = FakeMarket()
        running.append((market, runtime.spawn("fake-market", lambda: market.server.serve_forever(0.02))))
        return market

    yield start
    for market, task in running:
        market.server.shutdown()
        market.server.server_close()
        task.result()


@pytest.fixture
def market(new_market: Callable[[], FakeMarket]) -> FakeMarket:
    return new_market()


@pytest.fixture
def key() -> str:
    return KEY


@pytest.fixture
def session(runtime: QuickRuntime) -> Iterator[ProviderSession]:
    made = make_session(
        provider="acme",
        runtime=runtime,
        redact=lambda text: text.replace(KEY, "<redacted>"),
        timeout=(2.0, 2.0),
    )
    yield made
    made.close()


@pytest.fixture
def new_stream() -> Iterator[Callable[[bytes], str]]:
    """Servers that send some bytes and then keep the line open."""
    doors: list[socket.socket] = []

    def start(data: bytes) -> str:
        door = socket.create_server(("127.0.0.1", 0))
        doors.append(door)

        def serve() -> None:
            while True:
                try:
                    line, _ = door.accept()
                except OSError:
                    return
                doors.append(line)
                line.recv(65536)
                line.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + data)

        threading.Thread(target=serve, daemon=True).start()
        return f"http://127.0.0.1:{door.getsockname()[1]}/logs"

    yield start
    for one in doors:
        one.close()
