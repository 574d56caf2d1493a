"""How the API words a pod and a type of GPU."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from emulators.runpod.knobs import Knobs
from emulators.runpod.market import Market, Pod

_LEVELS = ("NONE", "LOW", "MEDIUM", "HIGH")


def pod_row(pod: Pod, now: datetime, knobs: Knobs, host: str) -> dict[str, Any]:
    """One pod, as REST v2 tells of it."""
    status = status_of(pod, now, knobs)
    body, runtime = pod.body, runtime_of(pod, now, knobs, host, status)
    return {
        "id": pod.id, "name": pod.name, "status": status, "actions": _actions(status), "image": body.get("image"),
        "args": "", "disk": body["disk"], "mounts": body.get("mounts", {}), "ports": body.get("ports", []),
        "env": body.get("env", {}), "registry": body.get("registry"),
        "gpu": {"id": body["gpu"]["id"], "count": body["gpu"].get("count", 1), "vcpuCount": 16, "memory": 8},
        "cloud": body.get("cloud", "SECURE"), "dataCenterId": pod.center, "cudaVersion": "13.0",
        "ssh": _ssh(pod, host, runtime), "template": None,
        "cost": 0 if knobs.cost_zero or status == "EXITED" else float(pod.usd_h), "locked": pod.locked,
        "globalNetworking": {"enabled": False}, "runtime": runtime,
        "createdAt": f"{pod.created:%Y-%m-%dT%H:%M:%SZ}",
        "startedAt": None if pod.running is None else f"{pod.running:%Y-%m-%dT%H:%M:%SZ}",
    }  # fmt: skip


def status_of(pod: Pod, now: datetime, knobs: Knobs) -> str:
    """The status that is observed."""
    if pod.ended is not None:
        return "TERMINATED"
    if pod.stopped is not None:
        return "EXITED"
    if pod.running is not None:
        return "RUNNING"
    return "STARTING" if (now - pod.created).total_seconds() >= knobs.starting_s else "PROVISIONING"


def runtime_of(pod: Pod, now: datetime, knobs: Knobs, host: str, status: str) -> dict[str, Any] | None:
    """What runs; None unless it does."""
    if status != "RUNNING" or pod.running is None:
        return None
    up = (now - pod.running).total_seconds()
    told: dict[str, Any] = {
        "uptime": int(up) % 4 if knobs.crash_loop else int(up), "gpus": [{"util": 0, "memoryUtil": 0}],
        "cpu": {"util": 3}, "memory": {"util": 1}, "ports": [],
    }  # fmt: skip
    if (now - pod.created).total_seconds() < knobs.ports_s or knobs.crash_loop or pod.lodging is None:
        return told
    http = {"private": 8888, "public": 60088, "type": "http", "ip": "100.65.0.7"}
    address = "10.1.2.3" if knobs.no_public_address else host
    ports = [(22, pod.lodging.ssh_port), *((n, out) for (n, _), out in pod.outside.items())]
    told["ports"] = [http, *({"private": n, "public": out, "type": "tcp", "ip": address} for n, out in ports)]
    return told


def _ssh(pod: Pod, host: str, runtime: dict[str, Any] | None) -> dict[str, Any]:
    mapped = [p for p in (runtime or {}).get("ports", []) if p["private"] == 22]
    if not mapped or mapped[0]["ip"] != host:
        return {"proxy": None, "direct": None}
    user = f"{pod.id}-6441077c"
    proxy = {"host": "ssh.runpod.io", "port": 22, "username": user, "command": f"ssh {user}@ssh.runpod.io"}
    port = mapped[0]["public"]
    direct = {"host": host, "port": port, "username": "root", "command": f"ssh root@{host} -p {port}"}
    return {"proxy": proxy, "direct": direct}


def _actions(status: str) -> list[str]:
    return {"RUNNING": ["stop", "restart", "terminate"], "EXITED": ["start", "terminate"],
            "ERROR": ["start", "terminate"]}.get(status, ["stop", "terminate"])  # fmt: skip


def gpu_row(kind: dict[str, Any], asked: dict[str, str]) -> dict[str, Any] | None:
    """One type of GPU; None where the question leaves it out."""
    told = {k: v for k, v in kind.items() if k not in ("stock", "cuda", "host")}
    if asked.get("include") != "AVAILABILITY":
        return told
    countries = [c for c in asked.get("countryCodes", "").split(",") if c]
    centers = {
        c: level for c, (country, level) in kind["stock"].items() if not countries or country in countries
    }  # fmt: skip
    if countries and not centers:
        return None
    cloud = asked.get("cloud", "SECURE").casefold()
    best = max((level for level in centers.values()), key=_LEVELS.index, default="NONE")
    fits = int(asked.get("count", "1")) <= kind["maxCount"][cloud] and _cuda_fits(kind, asked)
    told["availability"] = best if kind[cloud] and fits else "NONE"
    if centers:
        told["dataCenters"] = [{"id": c, "name": c, "availability": level} for c, level in centers.items()]
    told["cudaVersions"] = [{"version": v, "available": v in kind["cuda"]} for v in ("12.4", "12.8", "13.0")]
    return told


def _cuda_fits(kind: dict[str, Any], asked: dict[str, str]) -> bool:
    if "cudaVersions" in asked:
        return bool(set(kind["cuda"]) & set(asked["cudaVersions"].split(",")))
    least = asked.get("minCudaVersion")
    return least is None or any(_version(v) >= _version(least) for v in kind["cuda"])


def _version(text: str) -> list[int]:
    return [int(p) for p in text.split(".")]


def old_pod(market: Market, pod: Pod, now: datetime) -> dict[str, Any]:
    """One pod, as GraphQL tells of it: what was asked, not what is."""
    runtime = runtime_of(pod, now, market.knobs, market.host, status_of(pod, now, market.knobs))
    kinds = {"tcp": True, "http": False}
    ports = None if runtime is None else [
        {"ip": p["ip"], "isIpPublic": kinds[p["type"]], "privatePort": p["private"], "publicPort": p["public"],
         "type": p["type"]} for p in runtime["ports"]
    ]  # fmt: skip
    body = pod.body
    return {
        "id": pod.id, "name": pod.name, "imageName": body.get("image"), "machineId": pod.host,
        "desiredStatus": "EXITED" if pod.stopped else "RUNNING", "costPerHr": float(pod.usd_h),
        "containerDiskInGb": body["disk"], "gpuCount": body["gpu"].get("count", 1), "dockerArgs": "",
        "env": [f"{k}={v}" for k, v in body.get("env", {}).items()], "ports": ",".join(body.get("ports", [])),
        "uptimeSeconds": 0, "vcpuCount": 16, "memoryInGb": 8, "volumeInGb": 0, "volumeMountPath": "/workspace", "podType": "RESERVED",
        "dockerId": None, "lastStatusChange": "Rented by User", "port": None,
        "runtime": None if runtime is None else {"uptimeInSeconds": runtime["uptime"], "ports": ports},
        "machine": {"podHostId": f"{pod.id}-6441077c", "gpuDisplayName": body["gpu"]["id"]},
    }  # fmt: skip
