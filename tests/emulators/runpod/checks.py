"""What the service refuses before it looks for a machine: closed bodies, rules between fields, query rules."""

from __future__ import annotations

import re
from typing import Any

_CREATE = {
    "name": str, "image": str, "gpu": dict, "cpu": dict, "cloud": str, "dataCenterIds": list, "disk": int,
    "mounts": dict, "ports": list, "env": dict, "registry": str, "args": str, "entrypoint": list, "cmd": list,
    "startSsh": bool, "startJupyter": bool, "templateId": str, "globalNetworking": bool,
}  # fmt: skip
_GPU = {
    "id": str, "count": int, "allowedCudaVersions": list, "minCudaVersion": str, "minRamPerGpu": int,
    "minVcpuCountPerGpu": int,
}  # fmt: skip
_PORT = re.compile(r"\d{1,5}/(tcp|http)")
_WITH_INCLUDE = ("product", "count", "cloud", "countryCodes", "cudaVersions", "minCudaVersion")

Fault = tuple[int, str, str, list[str]]


def create_fault(body: Any) -> Fault | None:
    """Why a create's body is refused; None where it is fine."""
    if not isinstance(body, dict):
        return 422, "Unprocessable Entity", "the body must be an object", []
    wrong = [*_wrong(body, _CREATE, "$"), *_wrong(body.get("gpu"), _GPU, "$.gpu")]
    missing = [f"$: missing property '{n}'" for n in ("name",) if n not in body]
    if wrong or missing:
        # A missing field makes the service accuse sound ones, too.
        noise = [f"$: additional properties '{n}' not allowed" for n in body] if missing else []
        return 422, "Unprocessable Entity", "validation failed", [*missing, *noise, *wrong]
    rule = _rule(body)
    return None if rule is None else (400, "Bad Request", rule, [])


def _wrong(value: Any, known: dict[str, type], where: str) -> list[str]:
    if not isinstance(value, dict):
        return []
    found = [f"{where}: additional properties '{n}' not allowed" for n in value if n not in known]
    for name, kind in known.items():
        given = value.get(name)
        if name in value and (not isinstance(given, kind) or (kind is int and isinstance(given, bool))):
            found.append(f"{where}.{name}: got {type(given).__name__}, want {kind.__name__}")
    return found


def _rule(body: dict[str, Any]) -> str | None:
    gpu = body.get("gpu")
    if (gpu is None) == (body.get("cpu") is None):
        return "exactly one of gpu and cpu must be given"
    if isinstance(gpu, dict) and "allowedCudaVersions" in gpu and "minCudaVersion" in gpu:
        return "allowedCudaVersions and minCudaVersion exclude each other"
    if "disk" not in body and "templateId" not in body:
        return "You must either provide a template id or pod configuration parameters"
    if body.get("disk", 1) < 1:
        return "disk must be at least 1"
    if body.get("cloud", "SECURE") not in ("SECURE", "COMMUNITY"):
        return "cloud must be SECURE or COMMUNITY"
    bad = [p for p in body.get("ports", []) if not _PORT.fullmatch(str(p))]
    if bad:
        return f"bad port {bad[0]}"
    return "too many variables" if len(body.get("env", {})) > 50 else None


def query_fault(asked: dict[str, str]) -> tuple[int, str, str] | None:
    """Why a question to the catalogue is refused."""
    include = asked.get("include")
    if include is None:
        given = [n for n in _WITH_INCLUDE if n in asked]
        return (400, "Bad Request", f"{given[0]} needs include") if given else None
    if "product" not in asked:
        return 400, "Bad Request", "include needs product"
    codes = [c for c in asked.get("countryCodes", "").split(",") if c]
    if any(not re.fullmatch(r"[A-Z]{2}", c) for c in codes):
        return 422, "Unprocessable Entity", "bad country code"
    if "cudaVersions" in asked and "minCudaVersion" in asked:
        return 400, "Bad Request", "cudaVersions and minCudaVersion exclude each other"
    return None
