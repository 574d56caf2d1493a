"""The market's contracts: machines as they really are, from the create to the last cent."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, cast

import attrs
from emulators.housing import Lodging
from emulators.meter import Line
from emulators.vast.knobs import Knobs

GB = 1_000_000_000
_MONTH_H = 720
PULLING = "a1b2c3d4: Downloading [====>   ] 310MB/1.2GB"


@attrs.define(kw_only=True)
class Contract:
    """One rental. `running` is when its container started, `ended` when it was destroyed."""

    id: int
    listing: Mapping[str, Any]
    body: Mapping[str, Any]
    created: datetime
    key: str
    bid: float | None = None
    running: datetime | None = None
    ended: datetime | None = None
    stopped: datetime | None = None
    lodging: Lodging | None = None
    outside: dict[tuple[int, str], int] = attrs.field(factory=dict)
    keys: list[str] = attrs.field(factory=list)
    moved_gb: tuple[float, float] = (0.0, 0.0)
    logs_asked: int = 0

    @property
    def label(self) -> str | None:
        """What the renter called it."""
        return cast("str | None", self.body.get("label"))

    @property
    def alive(self) -> bool:
        """Whether it exists and bills."""
        return self.ended is None

    def lines(self) -> list[Line]:
        """What it costs: the GPU while it runs, the disk from its creation on."""
        disk = Decimal(str(self.listing["storage_cost"])) * Decimal(str(self.body["disk"])) / _MONTH_H
        found = [Line(kind="disk", usd_h=disk, since=self.created, until=self.ended)]
        if self.running is not None:
            until = min(filter(None, (self.stopped, self.ended)), default=None)
            gpu = Decimal(str(self.listing["dph_base"] if self.bid is None else self.bid))
            found.append(Line(kind="gpu", usd_h=gpu, since=self.running, until=until))
        return found

    def traffic_usd(self) -> dict[str, Decimal]:
        """Dollars for bytes in ("bwd") and out ("bwu")."""
        down, up = (Decimal(str(gb)) for gb in self.moved_gb)
        fees = (Decimal(str(self.listing.get(f) or 0)) for f in ("inet_down_cost", "inet_up_cost"))
        return dict(zip(("bwd", "bwu"), (a * b for a, b in zip((down, up), fees, strict=True)), strict=True))

    def row(self, now: datetime, knobs: Knobs, host: str) -> dict[str, Any]:
        """As the API tells of it."""
        age = (now - self.created).total_seconds()
        listing = self.listing
        is_bid = self.bid is not None if knobs.always_bid is None else knobs.always_bid
        storage = round(float(listing["storage_cost"]) * float(self.body["disk"]) / _MONTH_H, 5)
        gpu = float(listing["dph_base"] if self.bid is None else self.bid)
        return {
            "id": self.id, "machine_id": listing["machine_id"], "host_id": listing["host_id"],
            "bundle_id": listing["bundle_id"], "label": self.label, **self._status(age, knobs),
            "image_uuid": str(self.body.get("image", "")).replace("@vastai-automatic-tag", "cuda-12.8-auto"),
            "image_runtype": self.body.get("runtype", "ssh"), "image_args": [],
            "extra_env": [[k, v] for k, v in env_of(self.body).items()], "onstart": self.body.get("onstart"),
            **self._way_in(age, knobs, host), "start_date": self.created.timestamp(),
            "end_date": (self.created + timedelta(seconds=float(listing["duration"]))).timestamp(),
            "duration": float(listing["duration"]) - age, "uptime_mins": round(age / 60, 1),
            "dph_base": gpu, "dph_total": (gpu + storage) * knobs.dearer, "storage_cost": listing["storage_cost"],
            "storage_total_cost": storage, "min_bid": listing["min_bid"], "is_bid": is_bid,
            "inet_up_cost": listing["inet_up_cost"], "inet_down_cost": listing["inet_down_cost"],
            "num_gpus": listing["num_gpus"], "gpu_name": listing["gpu_name"], "gpu_ram": listing["gpu_ram"],
            "gpu_totalram": listing["gpu_total_ram"], "gpu_util": 0.0, "disk_space": float(self.body["disk"]),
            "disk_usage": -1, "disk_util": -1, "driver_version": listing["driver_version"],
            "cuda_max_good": listing["cuda_max_good"], "reliability2": listing["reliability2"],
            "verification": listing["verification"], "geolocation": listing["geolocation"], "static_ip": True,
            "template_hash_id": None, "time_remaining": "",
        }  # fmt: skip

    def _status(self, age: float, knobs: Knobs) -> dict[str, Any]:
        intended = "stopped" if self.stopped else "running"
        told: dict[str, Any] = {
            "actual_status": None, "intended_status": intended, "cur_state": intended, "next_state": intended,
            "status_msg": None,
        }  # fmt: skip
        if self.stopped:
            told |= {"actual_status": "exited", "status_msg": "container exited"}
        elif self.running is not None:
            told |= {
                "actual_status": "running",
                "status_msg": f"success, running {self.body.get('image')}/ssh\n",
            }
        elif knobs.stuck_loading or age >= knobs.pulling_s:
            told |= {"actual_status": "loading", "status_msg": PULLING}
        if knobs.message is not None:
            told["status_msg"] = knobs.message
        return {**told, **(knobs.status or {})}

    def _way_in(self, age: float, knobs: Knobs, host: str) -> dict[str, Any]:
        proxy = self.lodging.ssh_port if self.lodging is not None else 21000 + self.id % 1000
        told: dict[str, Any] = {"ssh_host": host, "ssh_idx": "5", "ssh_port": proxy, "machine_dir_ssh_port": 20022,
                                "direct_port_count": self.listing.get("direct_port_count")}  # fmt: skip
        if self.running is None or self.lodging is None or age < knobs.ports_s:
            return {**told, "public_ipaddr": None, **({"ports": None} if knobs.ports_null else {})}
        direct = 9 if knobs.direct_blocked else self.lodging.ssh_port
        ports = {"22/tcp": _bound(direct)} | {f"{n}/{p}": _bound(out) for (n, p), out in self.outside.items()}
        return {**told, "public_ipaddr": f"{host}\n", "ports": ports}


def env_of(body: Mapping[str, Any]) -> dict[str, str]:
    """The create's `env`; text instead of an object is ignored, as the service does."""
    env = body.get("env")
    return {str(k): str(v) for k, v in env.items()} if isinstance(env, dict) else {}


def published(body: Mapping[str, Any]) -> list[tuple[int, str]]:
    """(inside port, protocol) of each `-p` in the create's `env`."""
    found = []
    for name in env_of(body):
        if name.startswith("-p"):
            number, _, protocol = name.removeprefix("-p").strip().rpartition(":")[2].partition("/")
            found.append((int(number), protocol or "tcp"))
    return found


def _bound(port: int) -> list[dict[str, str]]:
    return [{"HostIp": "0.0.0.0", "HostPort": str(port)}, {"HostIp": "::", "HostPort": str(port)}]
