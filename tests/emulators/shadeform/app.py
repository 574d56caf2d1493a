"""Shadeform's API over the emulated market: paths, answers and refusals as the service's.

market, app = make_shadeform(runtime, housing, kinds=[kind("massedcompute", "A6000")])
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import attrs
from emulators.housing import Housing
from emulators.shadeform import catalog
from emulators.shadeform.checks import create_fault, key_fault, update_fault
from emulators.shadeform.knobs import Knobs
from emulators.shadeform.market import Instance, Market, SshKey, new_id
from emulators.shadeform.schema import Schema
from emulators.shadeform.shapes import instance_row, key_row, status_of, type_rows
from emulators.web import MarketApp, Route, as_response
from werkzeug.wrappers import Request, Response

from gipper.runtime import Runtime

SOLD_OUT = {"error_code": "OUT_OF_STOCK", "error": "Out of stock"}
NOT_UNIQUE = {"error_code": "CONFLICT", "error": "name must be unique"}
# The market publishes no such text: only that it needs a wallet with money.
NO_MONEY = {"error_code": "INSUFFICIENT_FUNDS", "error": "Insufficient funds in wallet"}
_FILTERS = ("cloud", "region", "num_gpus", "gpu_type", "shade_instance_type", "available", "sort")


def make_shadeform(
    runtime: Runtime, housing: Housing, kinds: Sequence[dict[str, Any]] = (), **changes: Any
) -> tuple[Market, ShadeformApp]:
    """A market with this catalogue; `changes` are the account's or the knobs'."""
    account = {k: changes.pop(k) for k in ("key", "host", "own_clock") if k in changes}
    market = Market(
        runtime=runtime,
        housing=housing,
        kinds=list(kinds) or catalog.usual(),
        knobs=Knobs(**changes),
        **account,
    )
    return market, ShadeformApp(market)


class ShadeformApp(MarketApp):
    """The service."""

    def __init__(self, market: Market) -> None:
        self.market = market
        self.schema = Schema()
        one, key = "/v1/instances/<string:ident>", "/v1/sshkeys/<string:ident>"
        routes = [
            Route(methods=("GET",), path="/v1/instances/types", endpoint="types", call=self.types),
            Route(methods=("POST",), path="/v1/instances/create", endpoint="create", call=self.create),
            Route(methods=("GET",), path="/v1/instances", endpoint="list", call=self.list_all),
            Route(methods=("GET",), path=f"{one}/info", endpoint="read", call=self.read),
            Route(methods=("POST",), path=f"{one}/delete", endpoint="destroy", call=self.destroy),
            Route(methods=("POST",), path=f"{one}/restart", endpoint="restart", call=self.restart),
            Route(methods=("POST",), path=f"{one}/update", endpoint="update", call=self.update),
            Route(methods=("GET",), path="/v1/sshkeys", endpoint="keys", call=self.keys),
            Route(methods=("POST",), path="/v1/sshkeys/add", endpoint="add_key", call=self.add_key),
            Route(methods=("GET",), path=f"{key}/info", endpoint="key", call=self.key),
            Route(methods=("POST",), path=f"{key}/setdefault", endpoint="default_key", call=self.default_key),
            Route(methods=("POST",), path=f"{key}/delete", endpoint="delete_key", call=self.delete_key),
            *(Route(methods=("GET",), path=f"/v1/{path}", endpoint="empty", call=self.empty(name))
              for path, name in (("clusters", "clusters"), ("clusters/types", "cluster_types"),
                                 ("volumes", "volumes"), ("volumes/types", "volume_types"),
                                 ("templates", "templates"))),
        ]  # fmt: skip
        super().__init__(market.runtime, map(self._judged, routes), lambda: [market.key])

    def _judged(self, route: Route) -> Route:
        """The route, with each request that reaches it and each answer held against the schema."""

        def call(request: Request, **parts: str) -> Response:
            response = as_response(route.call(request, **parts))
            self.schema.judge(request, response)
            return response

        return attrs.evolve(route, call=call)

    def refuse(self, request: Request, endpoint: str) -> Any:
        """The key, and who may go without; the market's own timers have run by now."""
        self.market.settle()
        told = request.headers.get("X-API-KEY")
        if told == self.market.key or (
            not told and endpoint == "types" and self.market.knobs.anonymous_types
        ):
            return None
        return 401, {"message": "Invalid API key"}

    def no_route(self, request: Request) -> Any:
        return 404, {"message": "not found"}

    def types(self, request: Request) -> Any:
        asked = {name: request.args[name] for name in _FILTERS if name in request.args}
        if asked.get("sort", "price") != "price" or asked.get("available", "true") not in ("true", "false"):
            return 400, "invalid query"
        return 200, {"instance_types": type_rows(self.market.kinds, asked)}

    def create(self, request: Request) -> Any:
        body = request.get_json(silent=True)
        fault = create_fault(body)
        if fault is not None:
            return 400, {"message": fault}
        given = {name: value for name, value in body.items() if value is not None}
        if self.market.knobs.wallet_empty:
            return 409, NO_MONEY
        key = given.get("ssh_key_id")
        if key is not None and key not in {k.id for k in self.market.ssh_keys}:
            return 400, {"message": "ssh key not found"}
        kind = self.market.find(given["cloud"], given["shade_instance_type"])
        place = None if kind is None or self.market.knobs.stale else _place(kind, given)
        if kind is None or place is None:
            return 409, _no_place(kind, given)
        if "os" in given and given["os"] not in kind["configuration"]["os_options"]:
            return 400, {"message": f"os {given['os']} is not an option of this type"}
        return 200, {"id": self.market.create(given, kind, _price(kind, place)).id}

    def list_all(self, request: Request) -> Any:
        return 200, {"instances": [instance_row(i, self.market, info=False) for i in self.market.listed()]}

    def read(self, request: Request, ident: str) -> Any:
        made = self._there(ident)
        if not isinstance(made, Instance):
            return made
        if self.market.gone(made) and not self.market.knobs.deleted_shown:
            return _not_found()
        return 200, instance_row(made, self.market, info=True)

    def destroy(self, request: Request, ident: str) -> Any:
        made = self._there(ident)
        if not isinstance(made, Instance):
            return made
        if self.market.gone(made):
            return _not_found()
        early = made.active is None and made.failed is None
        if self.market.knobs.delete_needs_active and early:
            return 409, {
                "error_code": "NOT_ACTIVE",
                "error": "instance can only be deleted once it is active",
            }
        self.market.end(made)
        return self._done()

    def restart(self, request: Request, ident: str) -> Any:
        made = self._there(ident)
        if not isinstance(made, Instance):
            return made
        if status_of(made, self.market) != "active":
            return 409, {"error_code": "NOT_ACTIVE", "error": "instance is not active"}
        self.market.restarts.append(ident)
        return self._done()

    def update(self, request: Request, ident: str) -> Any:
        made, body = self._there(ident), request.get_json(silent=True)
        if not isinstance(made, Instance):
            return made
        fault = update_fault(body)
        if fault is not None:
            return 400, {"message": fault}
        if "auto_delete" in body:
            made.auto_delete = dict(body["auto_delete"] or {})
        made.body = {**made.body, **{k: body[k] for k in ("name", "alert", "tags") if k in body}}
        return self._done()

    def keys(self, request: Request) -> Any:
        return 200, {"ssh_keys": [key_row(k) for k in self.market.ssh_keys]}

    def add_key(self, request: Request) -> Any:
        body = request.get_json(silent=True)
        fault = key_fault(body)
        if fault is not None:
            return 400, {"message": fault}
        if self.market.knobs.names_unique and body["name"] in {k.name for k in self.market.ssh_keys}:
            return 409, NOT_UNIQUE
        # The service may write its own comment behind a key.
        words = [*body["public_key"].split()[:2], "added-by-api"]
        made = SshKey(id=new_id(), name=body["name"], public=" ".join(words))
        self.market.ssh_keys.append(made)
        return 200, {"id": made.id}

    def key(self, request: Request, ident: str) -> Any:
        found = self._key(ident)
        return _not_found() if found is None else (200, key_row(found))

    def default_key(self, request: Request, ident: str) -> Any:
        found = self._key(ident)
        if found is None:
            return _not_found()
        for key in self.market.ssh_keys:
            key.is_default = key is found
        return self._done()

    def delete_key(self, request: Request, ident: str) -> Any:
        found = self._key(ident)
        if found is None:
            return _not_found()
        in_use = any(
            i.body.get("ssh_key_id") == ident
            for i in self.market.instances.values()
            if not self.market.gone(i)
        )
        if found.is_default or found.private is not None or in_use:
            return 409, {
                "error_code": "CONFLICT",
                "error": "the managed key, the default key and keys in use stay",
            }
        self.market.ssh_keys.remove(found)
        return self._done()

    def empty(self, name: str) -> Any:
        """An account that has none of these."""
        return lambda request: (200, {name: []})

    def _key(self, ident: str) -> SshKey | None:
        return next((k for k in self.market.ssh_keys if k.id == ident), None)

    def _there(self, ident: str) -> Any:
        """The machine, or the answer that there is none."""
        if ident in self.market.strangers:
            return 403, {"message": "Forbidden"}
        return self.market.instances.get(ident) or _not_found()

    def _done(self) -> Response:
        """Several changes are answered with nothing."""
        return Response(status=200)


def _place(kind: dict[str, Any], body: dict[str, Any]) -> dict[str, Any] | None:
    """The entry of the region and rental type that is free."""
    wanted = body.get("rental_type", "on_demand")
    fits = (p for p in kind["availability"] if p["region"] == body["region"] and p["available"])
    return next((p for p in fits if p.get("rental_type", "on_demand") == wanted), None)


def _no_place(kind: dict[str, Any] | None, body: dict[str, Any]) -> dict[str, Any]:
    regions = () if kind is None else [p["region"] for p in kind["availability"]]
    if body.get("rental_type") == "spot" and body["region"] in regions:
        return {"error_code": "SPOT_UNAVAILABLE", "error": "spot is not available for this type and region"}
    return SOLD_OUT


def _price(kind: dict[str, Any], place: dict[str, Any]) -> Decimal:
    told = place.get("hourly_price")
    return Decimal(str(told)) if told is not None else Decimal(kind["hourly_price"] or 0) / 100


def _not_found() -> Any:
    return 404, {"message": "instance not found"}
