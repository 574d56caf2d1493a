"""A Vast that answers what a test wrote down, in this process, on a clock that only sleeping moves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import attrs
import pytest
import requests
from gipper_vast import VastProvider
from gipper_vast.tables import VastJob, VastSettings

from gipper.api import KeyMissing, Offer, OfferQuery, Port, RentRequest
from gipper.http import make_session
from gipper.plugins.context import Context
from gipper.redact import Redactor

KEY = "vast-key-0123456789abcdef"
START = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


class Clock:
    """A `Runtime` whose time passes by sleeping alone."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self.time)

    def monotonic(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += max(0.0, seconds)


@attrs.frozen(kw_only=True)
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    raw: str
    url: str
    at: float


class Transport(requests.adapters.BaseAdapter):
    """Answers by (method, path); the last answer of a route repeats. An exception is raised."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.routes: dict[tuple[str, str], list[Any]] = {}
        self.asked: list[Asked] = []

    def send(self, request: requests.PreparedRequest, **_: Any) -> requests.Response:
        asked = _asked(request, self.clock.time)
        self.asked.append(asked)
        queue = self.routes.get((asked.method, asked.path))
        if not queue:
            return _response(request, (404, {"success": False, "error": "no_route", "msg": asked.path}))
        answer = queue.pop(0) if len(queue) > 1 else queue[0]
        if callable(answer):
            answer = answer(asked)
        if isinstance(answer, Exception):
            raise answer
        return _response(request, answer)

    def close(self) -> None:
        pass


def _asked(request: requests.PreparedRequest, at: float) -> Asked:
    parts = urlsplit(str(request.url))
    raw = request.body.decode() if isinstance(request.body, bytes) else request.body or ""
    return Asked(
        method=str(request.method), path=parts.path, url=str(request.url), raw=raw, at=at,
        query={k: v[0] for k, v in parse_qs(parts.query).items()},
        headers={k: str(v) for k, v in request.headers.items()},
        body=json.loads(raw) if raw else None,
    )  # fmt: skip


def _response(request: requests.PreparedRequest, answer: Any) -> requests.Response:
    status, body, headers = (*answer, {})[:3] if isinstance(answer, tuple) else (200, answer, {})
    response = requests.Response()
    response.status_code = status
    response.url = str(request.url)
    response.request = request
    kind = "text/plain" if isinstance(body, str) else "application/json"
    response.headers.update({"Content-Type": kind, **headers})
    response._content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return response


class Keys:
    """The one key, or none."""

    def __init__(self, value: str | None) -> None:
        self.value = value

    def require(self, name: str) -> str:
        if self.value is None:
            raise KeyMissing(f"{name} is not set")
        return self.value


class Vast:
    """The driver and the scripted market that it talks to."""

    KEY = KEY
    START = START

    def __init__(self, folder: Path, key: str | None = KEY, settings: VastSettings | None = None) -> None:
        self.clock = Clock()
        self.market = Transport(self.clock)
        redactor = Redactor()
        redactor.add(KEY, "VAST_API_KEY")
        info = VastProvider.gipper_provider()
        session = make_session(
            provider="vast", runtime=self.clock, redact=redactor.text, key_hosts=("console.vast.ai",)
        )
        session.mount("https://", self.market)
        self.context = Context(info, settings, self.clock, folder, Keys(key), lambda: session)
        self.driver = VastProvider(self.context)

    def on(self, method: str, path: str, *answers: Any) -> None:
        """What the market answers there, one after the other."""
        self.market.routes[method, path] = list(answers)

    def searches(self, *answers: Any) -> None:
        """Answers to offer searches; a list is a page of offers."""
        self.on("POST", "/api/v0/bundles/", *({"offers": a} if isinstance(a, list) else a for a in answers))

    def asked(self, method: str, path: str = "") -> list[Asked]:
        """Requests of `method` whose path begins with `path`."""
        return [a for a in self.market.asked if a.method == method and a.path.startswith(path)]

    def query(self, **changes: Any) -> OfferQuery:
        """A job's query with two minutes of time."""
        return OfferQuery(**{"deadline": self.clock.time + 120, "disk_gb": 40.0, "max_hours": 3.0, **changes})

    def listed(self, **changes: Any) -> Any:
        """The driver's listing for a query."""
        return self.driver.gipper_list_offers(self.query(**changes))

    def offer(self, **row: Any) -> Offer:
        """The one offer that a row becomes."""
        self.searches([self.row(**row)])
        (found,) = self.listed().items
        return found

    def rent(self, offer: Offer, **changes: Any) -> Any:
        """The driver's answer to a rent."""
        return self.driver.gipper_rent(offer, self.request(**changes))

    @staticmethod
    def row(ask: int = 5000101, **changes: Any) -> dict[str, Any]:
        """An ordinary offer of the market; a value of ... leaves the field out."""
        row = {
            "id": ask, "ask_contract_id": ask, "machine_id": 4242, "hosting_type": 0, "gpu_name": "RTX 4090",
            "num_gpus": 1, "gpu_frac": 0.25, "gpu_ram": 24564, "gpu_arch": "nvidia", "compute_cap": 890,
            "cuda_max_good": 12.8, "driver_version": "570.10.01", "gpu_display_active": False,
            "cpu_cores": 64, "cpu_cores_effective": 16.0, "cpu_ram": 257500, "disk_space": 410.5,
            "inet_up": 610.2, "inet_down": 744.9, "inet_up_cost": 0.004, "inet_down_cost": 0.004,
            "storage_cost": 0.15, "dph_base": 0.30, "dph_total": 0.30833, "min_bid": 0.16, "is_bid": False,
            "reliability": 0.9931, "reliability2": 0.9931, "verification": "verified", "rentable": True,
            "rented": False, "external": None, "geolocation": "Utah, US", "direct_port_count": 63,
            "public_ipaddr": "203.0.113.5", "duration": 864000.0, "dlperf": 96.2, "resource_type": "gpu",
        } | changes  # fmt: skip
        return {k: v for k, v in row.items() if v is not ...}

    @staticmethod
    def instance(machine: int = 7001001, **changes: Any) -> dict[str, Any]:
        """An ordinary running machine; a value of ... leaves the field out."""
        row = {
            "id": machine, "machine_id": 4242, "label": NAME, "actual_status": "running",
            "intended_status": "running", "cur_state": "running", "next_state": "running",
            "status_msg": "success, running x", "ssh_host": "ssh5.example", "ssh_port": 31000,
            "public_ipaddr": "203.0.113.5\n", "machine_dir_ssh_port": 20022,
            "ports": {"22/tcp": [{"HostIp": "0.0.0.0", "HostPort": "40122"}],
                      "5004/udp": [{"HostIp": "0.0.0.0", "HostPort": "41235"}]},
            "start_date": 1796000000.25, "dph_total": 0.30833, "is_bid": False, "num_gpus": 1,
            "gpu_name": "RTX 4090", "gpu_ram": 24564, "disk_space": 40.0, "extra_env": None,
        } | changes  # fmt: skip
        return {k: v for k, v in row.items() if v is not ...}

    @staticmethod
    def request(**changes: Any) -> RentRequest:
        """What core asks for."""
        return RentRequest(**{
            "name": NAME, "public_key": "ssh-ed25519 AAAA me", "end": START + timedelta(hours=5),
            "boot_watchdog_s": 18600.0, "timer_at": START + timedelta(hours=6), "disk_gb": 40.0,
            "ports": (Port(inside=5004, protocol="udp"), Port(inside=8000)), "env": {"TZ": "UTC"},
            "options": VastJob(), **changes,
        })  # fmt: skip


NAME = "gipper-abcde-0123456789-1-0hzabc"


@pytest.fixture
def vast(tmp_path: Path) -> Vast:
    """A driver with a key."""
    return Vast(tmp_path)


@pytest.fixture
def make_vast(tmp_path: Path) -> Iterator[Callable[..., Vast]]:
    """Drivers with other keys or settings."""
    yield lambda **given: Vast(tmp_path, **given)
