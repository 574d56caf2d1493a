"""A small market over HTTP for learning and for tests: what a provider's plugin has to deal with, in JSON.

    python -m gipper.testing.toymarket --port 8731

It rents nothing real. `ToyMarket` is the market, `ToyApp` its HTTP API, `InProcess` mounts that on a session
without a socket, `ToyBench` is the bench for `gipper.testing.contract`.

    GET /v1/offers?disk_gb=40      {"offers": [{"id", "gpu", "gpus", "memory_gb", "usd_h", "country", "city",
                                   "ram_gb", "cpus"}]}
    POST /v1/machines              {"offer", "name", "ssh_key", "disk_gb", "ports": ["8000/tcp"]}
                                   201 {"machine": M}; 409 taken, 503 full, 422 bad request, 402 no credit
    GET /v1/machines?page=1        {"machines": [M...], "pages": 2}
    GET /v1/machines/ID            {"machine": M}; 404
    DELETE /v1/machines/ID         202; 404
    GET /v1/account                {"credit_usd": "12.50"}
    GET /v1/charges?since=S&until=S   {"charges": [{"machine", "usd", "since", "until"}]}

M is {"id", "name", "state", "host", "port", "usd_h", "created", "ports": {"8000/tcp": 40001}}; times are
seconds since 1970; the key travels in the header `Authorization: Bearer KEY`.
"""

from __future__ import annotations

from gipper.testing.toymarket.app import InProcess, ToyApp, served
from gipper.testing.toymarket.bench import ToyBench
from gipper.testing.toymarket.market import ToyMachine, ToyMarket

__all__ = ["InProcess", "ToyApp", "ToyBench", "ToyMachine", "ToyMarket", "served"]
