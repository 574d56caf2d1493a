"""REST v2 as far as gipper uses it, as an OpenAPI document of our own: fields, kinds, what must be there.

`Schema` judges requests that were taken and the answers to them; `document()` is for tools that invent requests.
"""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator
from werkzeug.wrappers import Request, Response

Json = dict[str, Any]
TEXT: Json = {"type": "string"}
TEXTS: Json = {"type": "array", "items": TEXT}
FLAG: Json = {"type": "boolean"}
WHOLE: Json = {"type": "integer"}
NUMBER: Json = {"type": "number"}
MAYBE_TEXT: Json = {"type": ["string", "null"]}
LEVEL: Json = {"enum": ["NONE", "LOW", "MEDIUM", "HIGH"]}
CLOUD: Json = {"enum": ["SECURE", "COMMUNITY"]}


def told(required: Json, optional: Json | None = None) -> Json:
    """An object of an answer: others may be added to it one day."""
    return {"type": "object", "properties": {**required, **(optional or {})}, "required": list(required)}


def asked(required: Json, optional: Json | None = None) -> Json:
    """An object of a request: it is closed."""
    return {**told(required, optional), "additionalProperties": False}


def listed(item: Json) -> Json:
    """A list of these."""
    return {"type": "array", "items": item}


def maybe(schema: Json) -> Json:
    """This, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


_COMMON: Json = {
    "image": TEXT, "args": TEXT, "disk": {"type": "integer", "minimum": 1}, "ports": TEXTS,
    "env": {"type": "object", "additionalProperties": TEXT}, "registry": MAYBE_TEXT,
}  # fmt: skip
_MOUNTS: Json = {
    "type": "object",
    "properties": {"persistent": {"type": "object"}, "network": listed({"type": "object"})},
    "additionalProperties": False,
}
_PORT = told({"private": WHOLE, "public": WHOLE, "type": {"enum": ["tcp", "http"]}, "ip": TEXT})
_RUNTIME = told({"uptime": WHOLE, "ports": listed(_PORT)}, {"gpus": listed({"type": "object"})})
_DOOR = told({"host": TEXT, "port": WHOLE, "username": TEXT, "command": TEXT})
POD = told(
    {
        "id": TEXT, "name": TEXT, "cloud": CLOUD, "mounts": _MOUNTS, "dataCenterId": MAYBE_TEXT,
        "status": {"enum": ["PROVISIONING", "STARTING", "RUNNING", "EXITED", "ERROR", "TERMINATED"]},
        "actions": listed({"enum": ["start", "stop", "restart", "terminate"]}), "cudaVersion": MAYBE_TEXT,
        "ssh": told({"proxy": maybe(_DOOR), "direct": maybe(_DOOR)}), "template": MAYBE_TEXT, "cost": NUMBER,
        "locked": FLAG, "globalNetworking": told({"enabled": FLAG}), "runtime": maybe(_RUNTIME),
        "createdAt": {"type": "string", "format": "date-time"}, "startedAt": MAYBE_TEXT,
    },
    {**_COMMON, "gpu": told({"id": TEXT, "count": WHOLE}, {"vcpuCount": WHOLE, "memory": WHOLE})},
)  # fmt: skip
CREATE = asked(
    {"name": TEXT},
    {
        **_COMMON, "cloud": CLOUD, "dataCenterIds": TEXTS, "globalNetworking": FLAG, "mounts": _MOUNTS,
        "startSsh": FLAG, "startJupyter": FLAG, "templateId": TEXT, "cpu": {"type": "object"},
        "entrypoint": TEXTS, "cmd": TEXTS,
        "gpu": asked(
            {"id": TEXT},
            {"count": {"type": "integer", "minimum": 1}, "allowedCudaVersions": TEXTS, "minCudaVersion": TEXT,
             "minRamPerGpu": WHOLE, "minVcpuCountPerGpu": WHOLE},
        ),
    },
)  # fmt: skip
GPU = told(
    {
        "id": TEXT, "name": TEXT, "pool": MAYBE_TEXT, "manufacturer": TEXT, "memory": WHOLE, "secure": FLAG,
        "community": FLAG, "price": told({}, {n: {"type": ["number", "null"]} for n in ("secure", "community")}),
        "maxCount": told({"secure": WHOLE, "community": WHOLE}),
    },
    {
        "availability": LEVEL, "dataCenters": listed(told({"id": TEXT, "name": TEXT, "availability": LEVEL})),
        "cudaVersions": listed(told({"version": TEXT, "available": FLAG})),
    },
)  # fmt: skip
_AMOUNTS: Json = dict.fromkeys(("totalAmount", "gpuAmount", "cpuAmount", "diskAmount"), NUMBER)
_RECORD = told({"startTime": TEXT, "endTime": TEXT, "podId": TEXT, **_AMOUNTS})
PROBLEM = told({"title": TEXT, "status": WHOLE, "detail": TEXT}, {"errors": TEXTS})
_PAGES = told({"nextCursor": MAYBE_TEXT, "hasNextPage": FLAG})
_IDENT: Json = {"name": "ident", "in": "path", "required": True, "schema": TEXT}
_MOMENT: Json = {"type": "string", "format": "date-time"}


def _query(**schemas: Json) -> list[Json]:
    return [{"name": name, "in": "query", "schema": schema} for name, schema in schemas.items()]


# endpoint → (method, path, parameters, body, status of success, answer)
OPERATIONS: dict[str, tuple[str, str, list[Json], Json | None, int, Json | None]] = {
    "catalog": ("get", "/v2/catalog/gpus", _query(
        include=TEXT, product={"enum": ["POD", "CLUSTER", "SERVERLESS"]}, count=WHOLE, cloud=CLOUD,
        countryCodes=TEXT, cudaVersions=TEXT, minCudaVersion=TEXT,
    ), None, 200, told({"gpus": listed(GPU)})),
    "create": ("post", "/v2/pods", [], CREATE, 201, POD),
    "list": ("get", "/v2/pods", _query(includeClusterPods=FLAG, limit=WHOLE, cursor=TEXT),
             None, 200, told({"pods": listed(POD)}, {"pagination": _PAGES})),
    "read": ("get", "/v2/pods/{ident}", [_IDENT], None, 200, POD),
    "destroy": ("delete", "/v2/pods/{ident}", [_IDENT], None, 204, None),
    "patch": ("patch", "/v2/pods/{ident}", [_IDENT], asked({}, {"locked": FLAG, "name": TEXT}), 200, POD),
    "billing": ("get", "/v2/billing/pods", _query(
        startTime=_MOMENT, endTime=_MOMENT, bucketSize={"enum": ["hour", "day", "week", "month", "year"]},
        podId=TEXT,
    ), None, 200, told({"records": listed(_RECORD), "metadata": told({"recordCount": WHOLE, "uniquePodCount": WHOLE})})),
}  # fmt: skip


def document() -> Json:
    """The whole as an OpenAPI document."""
    paths: Json = {}
    for name, (method, path, parameters, body, status, answer) in OPERATIONS.items():
        good: Json = {"description": "done"}
        if answer is not None:
            good["content"] = {"application/json": {"schema": answer}}
        refused = {"description": "refused", "content": {"application/problem+json": {"schema": PROBLEM}}}
        codes = ("400", "401", "402", "403", "404", "409", "413", "422", "429")
        operation: Json = {
            "operationId": name, "parameters": parameters,
            "responses": {str(status): good, **dict.fromkeys(codes, refused)},
        }  # fmt: skip
        if body is not None:
            content = {"application/json": {"schema": body}}
            operation["requestBody"] = {"required": True, "content": content}
        paths.setdefault(path, {})[method] = operation
    return {"openapi": "3.1.0", "info": {"title": "emulated market", "version": "2"}, "paths": paths}


class Schema:
    """Judges what goes over the wire; `off` collects what doesn't fit, in words."""

    def __init__(self) -> None:
        self.off: list[str] = []
        self.judged = 0

    def judge(self, endpoint: str, request: Request, response: Response) -> None:
        """A request that was taken must fit, and so must its answer; a refusal must be a problem."""
        if endpoint not in OPERATIONS:
            return
        self.judged += 1
        _, _, parameters, body, status, answer = OPERATIONS[endpoint]
        if response.status_code >= 400:
            self._fits(f"{endpoint}: refusal", PROBLEM, response.get_json())
            return
        if response.status_code != status:
            self.off.append(f"{endpoint}: status {response.status_code} instead of {status}")
        unknown = set(request.args) - {p["name"] for p in parameters}
        self.off += [f"{endpoint}: parameter {name} isn't known" for name in sorted(unknown)]
        if body is not None:
            self._fits(f"{endpoint}: request", body, request.get_json(silent=True))
        if answer is not None:
            self._fits(f"{endpoint}: answer", answer, response.get_json())

    def _fits(self, what: str, schema: Json, value: Any) -> None:
        found = Draft202012Validator(schema).iter_errors(value)
        self.off += [f"{what}: {e.json_path}: {e.message[:200]}" for e in found]
