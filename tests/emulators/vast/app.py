"""Vast's API over the emulated market: paths, answers and refusals as the service's.

market, app = make_vast(runtime, housing, rows=[row(5000101)])
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

from emulators.housing import Housing
from emulators.limits import RateLimit
from emulators.vast import money
from emulators.vast.contracts import Contract
from emulators.vast.knobs import INTERVALS, Knobs
from emulators.vast.market import Market
from emulators.vast.offers import Listings, row
from emulators.web import MarketApp, Route, as_response
from werkzeug.wrappers import Request

from gipper.runtime import Runtime

PAGE = 25
_OPEN = frozenset({"search", "names", "log_file", "none"})
_BODY = frozenset({
    "client_id", "image", "env", "price", "disk", "label", "extra", "onstart", "image_login", "python_utf8",
    "lang_utf8", "use_jupyter_lab", "jupyter_dir", "force", "cancel_unavail", "template_hash_id", "template_id",
    "user", "runtype", "target_state", "args", "args_str", "vm", "volume_info",
})  # fmt: skip


def make_vast(
    runtime: Runtime, housing: Housing, rows: Sequence[dict[str, Any]] = (), **changes: Any
) -> tuple[Market, VastApp]:
    """A market with these listings; `changes` are the account's or the knobs'."""
    account = {k: changes.pop(k) for k in ("key", "credit", "host", "own_clock") if k in changes}
    market = Market(
        runtime=runtime, housing=housing, listings=Listings(list(rows) or [row(5000101)]), knobs=Knobs(**changes),
        **account,
    )  # fmt: skip
    return market, VastApp(market)


class VastApp(MarketApp):
    """The service."""

    def __init__(self, market: Market) -> None:
        self.market = market
        self.limits = RateLimit(INTERVALS)
        one = "/api/v0/instances/<int:number>/"
        keys = f"{one}ssh/"
        routes = [
            Route(methods=("POST", "GET"), path="/api/v0/bundles/", endpoint="search", call=self.search),
            Route(methods=("PUT",), path="/api/v0/search/asks/", endpoint="search", call=self.search),
            Route(methods=("PUT",), path="/api/v0/asks/<int:ask>/", endpoint="create", call=self.create),
            Route(methods=("GET",), path=one, endpoint="read", call=self.read),
            Route(methods=("DELETE",), path=one, endpoint="destroy", call=self.destroy),
            Route(methods=("PUT",), path=one, endpoint="state", call=self.state),
            Route(methods=("DELETE",), path="/api/v0/instances/", endpoint="destroy", call=self.destroy_many),
            Route(methods=("GET",), path="/api/v0/instances/", endpoint="old_list", call=self.old_list),
            Route(methods=("GET",), path="/api/v1/instances/", endpoint="list", call=self.list_page),
            Route(methods=("GET",), path="/api/v0/instances/filters/", endpoint="filters", call=self.filters),
            Route(methods=("POST",), path=keys, endpoint="attach", call=self.attach),
            Route(methods=("GET",), path=keys, endpoint="keys", call=self.keys),
            Route(methods=("DELETE",), path=f"{keys}<int:key>/", endpoint="detach", call=self.detach),
            Route(methods=("PUT",), path="/api/v0/instances/request_logs/<int:number>/", endpoint="logs",
                  call=self.logs),
            Route(methods=("GET",), path="/logs/<int:number>", endpoint="log_file", call=self.log_file),
            Route(methods=("PUT",), path="/api/v0/instances/bid_price/<int:number>/", endpoint="bid",
                  call=self.bid),
            Route(methods=("GET", "POST"), path="/api/v0/ssh/", endpoint="account_keys", call=self.account_keys),
            Route(methods=("GET",), path="/api/v0/users/current", endpoint="user", call=self.user),
            Route(methods=("GET",), path="/api/v0/charges/", endpoint="charges", call=self.charges),
            Route(methods=("GET",), path="/api/v1/invoices/", endpoint="invoices", call=self.invoices),
            Route(methods=("GET",), path="/api/v0/users/me/invoices", endpoint="invoices",
                  call=self.old_invoices),
            Route(methods=("GET",), path="/api/v0/gpu_names/unique/", endpoint="names", call=self.names),
        ]  # fmt: skip
        super().__init__(market.runtime, routes, self._secrets)

    def _secrets(self) -> list[str]:
        return [self.market.key, *(c.key for c in self.market.contracts.values())]

    def refuse(self, request: Request, endpoint: str) -> Any:
        """Rate, key, scope of an instance's own key, two-factor."""
        self.market.settle()
        wait = self.limits.too_early(endpoint, self._caller(request), self.runtime.monotonic())
        if wait is not None:
            return self._too_often(endpoint, wait)
        if endpoint in _OPEN:
            return None
        told = request.headers.get("Authorization", "")
        if not told:
            return _failure(403, "auth_error", "This action requires login")
        if told == f"Bearer {self.market.key}":
            text = "Two Factor Authentication is required"
            return _failure(401, "auth_error", text) if self.market.knobs.two_factor else None
        if self._owns(told, request, endpoint):
            return None
        return _failure(self.market.knobs.wrong_key_status, "auth_error", "Invalid user key")

    def no_route(self, request: Request) -> Any:
        return _failure(404, "not_found", f"{request.method} {request.path}")

    def search(self, request: Request) -> Any:
        body = (
            request.get_json(silent=True)
            if request.method != "GET"
            else json.loads(request.args.get("q", "{}"))
        )
        if not isinstance(body, dict):
            return 483, {"success": False, "error": "invalid_json", "msg": "broken JSON"}
        body = body.get("q", body) if request.method == "PUT" else body
        if self.market.knobs.ids_change:
            self._renumber()
        return 200, {"offers": self.market.listings.search(body)}

    def create(self, request: Request, ask: int) -> Any:
        market, body = self.market, request.get_json(silent=True)
        if not isinstance(body, dict):
            return 483, {"success": False, "error": "invalid_json", "msg": "broken JSON"}
        listing = market.listings.find(ask)
        if listing is None:
            return self._no_such_ask(ask)
        if market.credit_left() <= 0:
            return _failure(400, "insufficient_credit", "Your account lacks credit; see the billing page.")
        fault = _body_fault(body, listing, strict=market.knobs.strict_body)
        if fault is not None:
            return fault
        contract = market.create(listing, {"disk": 10.0, **{k: v for k, v in body.items() if v is not None}})
        made = {"success": True, "new_contract": contract.id, "instance_api_key": contract.key}
        if market.knobs.error_with_contract:
            contract.stopped = market.runtime.now()
            return 400, {
                **made,
                "success": False,
                "error": "bid_too_low",
                "msg": "Your bid is below the price",
            }
        if market.knobs.no_instance:
            contract.ended = contract.created
        return 200, made

    def read(self, request: Request, number: int) -> Any:
        contract = self.market.contracts.get(number)
        if contract is None or not contract.alive:
            return 200, {"instances": None}
        return 200, {"instances": self._row(contract)}

    def destroy(self, request: Request, number: int) -> Any:
        contract = self.market.contracts.get(number)
        if contract is None or not contract.alive:
            return _failure(404, "no_such_instance", f"Instance {number} not found")
        self.market.end(contract)
        return 200, {"success": True}

    def destroy_many(self, request: Request) -> Any:
        for number in (request.get_json(silent=True) or {}).get("instance_ids", []):
            contract = self.market.contracts.get(int(number))
            if contract is not None:
                self.market.end(contract)
        return 200, {"success": True}

    def state(self, request: Request, number: int) -> Any:
        contract = self.market.contracts.get(number)
        if contract is None or not contract.alive:
            return _failure(404, "no_such_instance", f"Instance {number} not found")
        asked = request.get_json(silent=True) or {}
        if "label" in asked:
            contract.body = {**contract.body, "label": asked["label"]}
        if asked.get("state") == "stopped":
            self.market.outbid(contract)
        if asked.get("state") == "running" and contract.stopped is not None:
            text = "Required resources are currently unavailable, state change queued."
            return 200, {"success": False, "msg": text}
        return 200, {"success": True}

    def old_list(self, request: Request) -> Any:
        rows = [self._row(c) for c in self.market.listed()]
        return 200, {"instances_found": len(rows), "instances": rows}

    def list_page(self, request: Request) -> Any:
        rows = [self._row(c) for c in sorted(self.market.listed(), key=lambda c: c.id)]
        limit = int(request.args.get("limit", PAGE))
        limit = min(PAGE, limit) if limit > 0 else 5
        token = request.args.get("after_token")
        after = -1 if token is None else _token(token)
        if after is None:
            return _failure(400, "invalid_token", "bad after_token")
        rest = [r for r in rows if r["id"] > after]
        page = rest[:limit]
        following = _as_token(page[-1]["id"]) if len(rest) > limit else None
        return 200, {
            "success": True, "instances_found": len(page), "total_instances": len(rows),
            "label_counts": {}, "next_token": following, "instances": page,
        }  # fmt: skip

    def filters(self, request: Request) -> Any:
        return 200, {"success": True, "filters": []}

    def attach(self, request: Request, number: int) -> Any:
        contract = self.market.contracts.get(number)
        if contract is None or not contract.alive:
            return _failure(404, "no_such_instance", f"Instance {number} not found")
        self.market.attach(contract, str((request.get_json(silent=True) or {}).get("ssh_key", "")))
        return 200, {"success": True, "msg": "SSH key attached successfully"}

    def keys(self, request: Request, number: int) -> Any:
        contract = self.market.contracts.get(number)
        held = [{"id": n + 1, "public_key": k} for n, k in enumerate(contract.keys)] if contract else []
        return 200, {"success": True, "ssh_keys": json.dumps(held)}

    def detach(self, request: Request, number: int, key: int) -> Any:
        contract = self.market.contracts.get(number)
        if contract is None or not 0 < key <= len(contract.keys):
            return _failure(400, "no_ssh_key", "no such key")
        del contract.keys[key - 1]
        return 200, {"success": True}

    def logs(self, request: Request, number: int) -> Any:
        if number not in self.market.contracts:
            return _failure(404, "no_such_instance", f"Instance {number} not found")
        return 200, {"success": True, "result_url": f"{request.host_url}logs/{number}"}

    def log_file(self, request: Request, number: int) -> Any:
        contract = self.market.contracts[number]
        contract.logs_asked += 1
        if contract.logs_asked <= self.market.knobs.log_after:
            return 404, "<Error><Code>NoSuchKey</Code></Error>"
        return 200, f"container log of {number}\n{self.market.knobs.message or ''}\n"

    def bid(self, request: Request, number: int) -> Any:
        self.market.contracts[number].bid = float((request.get_json(silent=True) or {}).get("price", 0))
        return 200, {"success": True}

    def account_keys(self, request: Request) -> Any:
        if request.method == "POST":
            line = str((request.get_json(silent=True) or {}).get("ssh_key", "")).strip()
            self.market.account_keys.append(line)
            return 200, {"success": True, "key": {"id": len(self.market.account_keys), "public_key": line}}
        held = [{"id": n + 1, "user_id": 1, "public_key": k} for n, k in enumerate(self.market.account_keys)]
        return (200, held) if held else _failure(404, "not_found", "No SSH keys found")

    def user(self, request: Request) -> Any:
        return 200, money.user(self.market)

    def charges(self, request: Request) -> Any:
        return money.charges(self.market, request.query_string.decode())

    def invoices(self, request: Request) -> Any:
        return money.invoices(self.market, request.query_string.decode())

    def old_invoices(self, request: Request) -> Any:
        return money.old_invoices(self.market)

    def names(self, request: Request) -> Any:
        return 200, {"gpu_names": sorted({r["gpu_name"] for r in self.market.listings.rows})}

    def _row(self, contract: Contract) -> dict[str, Any]:
        return contract.row(self.runtime.now(), self.market.knobs, self.market.host)

    def _owns(self, told: str, request: Request, endpoint: str) -> bool:
        """Whether it is a machine's own key, used on that machine: read, stop, destroy."""
        owner = next((c for c in self.market.contracts.values() if told == f"Bearer {c.key}"), None)
        mine = owner is not None and f"/instances/{owner.id}/" in f"{request.path}/"
        return mine and endpoint in ("read", "destroy", "state")

    def _caller(self, request: Request) -> str:
        return request.headers.get("Authorization", request.remote_addr or "")

    def _too_often(self, endpoint: str, wait: float) -> Any:
        interval, form = INTERVALS[endpoint].seconds, self.market.knobs.too_often_form
        text = "API requests too frequent"
        bodies = {
            "text": text, "threshold": f"{text}: endpoint threshold={interval}",
            "detail": {"detail": f"{text}: endpoint threshold={interval}"},
            "json": {"success": False, "error": "rate_limit_exceeded", "msg": text, "retry_after": interval},
        }  # fmt: skip
        answer = as_response((429, bodies[form]))
        if self.market.knobs.retry_after:
            answer.headers["Retry-After"] = str(int(wait) + 1)
        return answer

    def _no_such_ask(self, ask: int) -> Any:
        form = self.market.knobs.gone_form
        text = f"error {'410/3907' if form == '410' else '404/3603'}: no_such_ask  Instance type by id {ask}"
        text += " is no longer available." if form == "410" else " is not available."
        code = "no_such_ask" if form == "410" else "invalid_args"
        return int(form), {"success": False, "error": code, "msg": text, "ask_id": ask}

    def _renumber(self) -> None:
        listings = self.market.listings
        listings.shift += 1
        for one in listings.free():
            one["ask_contract_id"] = one["id"] = 5000000 + listings.shift * 10000 + one["machine_id"] % 10000


def _body_fault(body: dict[str, Any], listing: dict[str, Any], *, strict: bool) -> Any:
    if not isinstance(body.get("image"), str) and not body.get("template_hash_id"):
        return _failure(400, "invalid_args", "image must be a str, not NoneType")
    if float(body.get("disk") or 10) > float(listing["disk_space"]):
        return _failure(400, "invalid_args", "error 400/3467: disk is larger than the offer's")
    if len(str(body.get("onstart") or "")) > 4048:
        return _failure(400, "invalid_args", "error 400/3471: args too long")
    price = body.get("price")
    if price is not None and float(price) < float(listing["min_bid"]):
        return _failure(400, "invalid_price", "price is below the minimum bid")
    if price is not None and not 0.001 <= float(price) <= 128:
        return _failure(400, "invalid_price", "price must be between 0.001 and 128")
    unknown = sorted(body.keys() - _BODY)
    return _failure(400, "invalid_args", f"unknown: {unknown}") if strict and unknown else None


def _failure(status: int, code: str, text: str) -> tuple[int, dict[str, Any]]:
    return status, {"success": False, "error": code, "msg": text}


def _as_token(number: int) -> str:
    return base64.b64encode(json.dumps({"values": {"id": number}}).encode()).decode()


def _token(text: str) -> int | None:
    try:
        return int(json.loads(base64.b64decode(text))["values"]["id"])
    except (ValueError, KeyError, TypeError):
        return None
