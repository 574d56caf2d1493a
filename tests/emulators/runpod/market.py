"""The market: its catalogue, and pods as they really are, from the create to the last cent."""

from __future__ import annotations

import secrets
import string
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import attrs
from emulators.housing import Housing, Lodging, Wish, a_port
from emulators.meter import Line, total
from emulators.runpod.knobs import Knobs

from gipper.runtime import Runtime

DISK_MONTH = Decimal("0.10")
MONTH_H = 730


def gpu(ident: str, **changes: Any) -> dict[str, Any]:
    """An ordinary type of GPU in the catalogue; `stock` is by data centre, `country` by data centre."""
    usual: dict[str, Any] = {
        "id": ident, "name": ident.removeprefix("NVIDIA ").removeprefix("GeForce "), "pool": "POOL",
        "manufacturer": "NVIDIA", "memory": 24, "secure": True, "community": True,
        "price": {"secure": 0.61, "community": 0.33, "serverless": 1.05},
        "maxCount": {"secure": 8, "community": 4}, "cuda": ["12.8", "13.0"],
        "stock": {"EU-SE-1": ("SE", "HIGH"), "US-TX-3": ("US", "LOW")},
    }  # fmt: skip
    return {**usual, **changes}


@attrs.define(kw_only=True)
class Pod:
    """One rental. `running` is when its container started, `ended` when it was terminated."""

    id: str
    body: Mapping[str, Any]
    created: datetime
    usd_h: Decimal
    center: str | None
    host: str
    key: str
    running: datetime | None = None
    ended: datetime | None = None
    stopped: datetime | None = None
    lodging: Lodging | None = None
    outside: dict[tuple[int, str], int] = attrs.field(factory=dict)
    locked: bool = False

    @property
    def name(self) -> str:
        """What the renter called it."""
        return str(self.body["name"])

    @property
    def alive(self) -> bool:
        """Whether it exists and bills."""
        return self.ended is None

    def lines(self) -> list[Line]:
        """What it costs: compute from its allocation, disk with it."""
        until = min(filter(None, (self.stopped, self.ended)), default=None)
        disk = Decimal(str(self.body["disk"])) * DISK_MONTH / MONTH_H
        return [
            Line(kind="gpuAmount", usd_h=self.usd_h, since=self.created, until=until),
            Line(kind="diskAmount", usd_h=disk, since=self.created, until=until),
        ]


@attrs.define(kw_only=True)
class Market:
    """One account with `key` on the market."""

    runtime: Runtime
    housing: Housing
    gpus: list[dict[str, Any]]
    knobs: Knobs = attrs.field(factory=Knobs)
    key: str = "rpa_TESTKEY0123456789ABCDEF"
    credit: Decimal = Decimal(25)
    host: str = "127.0.0.1"
    own_clock: bool = False
    pods: dict[str, Pod] = attrs.field(factory=dict)
    creates: int = 0
    asked_to_end: list[str] = attrs.field(factory=list)

    def alive(self) -> list[Pod]:
        """Pods that exist and bill now."""
        return [p for p in self.pods.values() if p.alive]

    def metered(self, pod: Pod) -> Decimal:
        """What one has really cost so far, unrounded."""
        now = self.runtime.now()
        return total(pod.lines(), pod.created, now + timedelta(days=1), now)

    def credit_left(self) -> Decimal:
        """Prepaid dollars left."""
        return self.credit - sum((self.metered(p) for p in self.pods.values()), Decimal(0))

    def find(self, ident: str) -> dict[str, Any] | None:
        """The type of GPU of exactly that id."""
        return next((g for g in self.gpus if g["id"] == ident), None)

    def create(self, body: Mapping[str, Any], kind: dict[str, Any], center: str | None) -> Pod:
        """A new pod; its container starts by itself, asked or not."""
        self.creates += 1
        cloud = str(body.get("cloud", "SECURE")).casefold()
        price = Decimal(str(kind["price"][cloud])) * int(body["gpu"].get("count", 1))
        pod = Pod(
            id=_ident(), body=dict(body), created=self.runtime.now(), usd_h=price, center=center,
            host=str(kind.get("host", f"host-{len(self.pods) % 3}")), key=f"rpa_POD{secrets.token_hex(12)}",
            locked=self.knobs.locked,
        )  # fmt: skip
        self.pods[pod.id] = pod
        if not self.knobs.never_ready:
            self.runtime.spawn(f"boot {pod.id}", lambda: self._boot(pod, self.knobs.running_s))
        return pod

    def _boot(self, pod: Pod, after_s: float) -> None:
        self.runtime.sleep(after_s)
        if pod.ended is None:
            self.start(pod)

    def start(self, pod: Pod) -> None:
        """Its container runs."""
        ports = [(int(p.partition("/")[0]), "tcp") for p in pod.body.get("ports", [])]
        ports = [p for p in ports if p[0] != 22]
        pod.outside = {port: a_port("tcp") for port in ports}
        env = {str(k): str(v) for k, v in (pod.body.get("env") or {}).items()}
        wish = Wish(
            env={**env, "RUNPOD_POD_ID": pod.id, "RUNPOD_API_KEY": pod.key, "RUNPOD_PUBLIC_IP": self.host,
                 "RUNPOD_GPU_COUNT": str(pod.body["gpu"].get("count", 1)), "RUNPOD_DC_ID": pod.center or ""},
            ports=ports, outside=pod.outside, keys=env.get("PUBLIC_KEY", "").splitlines(),
            gpu=self.knobs.host(pod.host), own_clock=self.own_clock,
        )  # fmt: skip
        lodging = self.housing.open(wish)
        pod.lodging, pod.running = lodging, self.runtime.now()
        if pod.ended is not None:
            lodging.close()

    def end(self, pod: Pod) -> None:
        """Terminate it; idempotent."""
        self.asked_to_end.append(pod.id)
        if pod.ended is None and not self.knobs.delete_ignored:
            self.vanish(pod)

    def vanish(self, pod: Pod) -> None:
        """It is gone, whoever did it."""
        pod.ended = self.runtime.now()
        if pod.lodging is not None:
            pod.lodging.close()

    def stop(self, pod: Pod) -> None:
        """Its container exits; its disk is kept."""
        pod.stopped = self.runtime.now()
        if pod.lodging is not None:
            pod.lodging.close()

    def listed(self) -> Iterator[Pod]:
        """What the list shows, newest first: late at first, and for a while after the end."""
        now = self.runtime.now()
        for pod in reversed(self.pods.values()):
            late = (now - pod.created).total_seconds() < self.knobs.appear_s
            over = pod.ended is not None
            lingers = over and (now - pod.ended).total_seconds() < self.knobs.linger_s  # type: ignore[operator]
            if not late and (not over or lingers):
                yield pod


def _ident() -> str:
    letters = string.ascii_lowercase + string.digits
    return "".join(secrets.choice(letters) for _ in range(14))
