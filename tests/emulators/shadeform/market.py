"""The market: its catalogue, the account's SSH keys, and machines as they really are, to the last second."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import attrs
from emulators.housing import Housing, Lodging, Wish
from emulators.meter import Line, total
from emulators.shadeform.knobs import Knobs

from gipper.runtime import Runtime

MANAGED = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAManagedByTheMarket managed"
PRIVATE = (
    "-----BEGIN OPENSSH PRIVATE KEY-----\nbm90LWEta2V5LW9mLWFueWJvZHk\n-----END OPENSSH PRIVATE KEY-----"
)


@attrs.define(kw_only=True)
class Instance:
    """One machine. `usd_h` is its price; moments are None until they come."""

    id: str
    body: Mapping[str, Any]
    kind: Mapping[str, Any]
    created: datetime
    usd_h: Decimal
    auto_delete: Mapping[str, Any]
    active: datetime | None = None
    failed: str | None = None
    deleting: datetime | None = None
    details: str = ""
    lodging: Lodging | None = None

    @property
    def name(self) -> str:
        """What the renter called it."""
        return str(self.body["name"])

    @property
    def alive(self) -> bool:
        """Whether it may bill: until its deletion begins."""
        return self.deleting is None

    @property
    def is_spot(self) -> bool:
        """Whether it was rented as spot."""
        return self.body.get("rental_type") == "spot"

    def lines(self) -> list[Line]:
        """What it costs: from active to deleting."""
        if self.active is None:
            return []
        return [Line(kind="gpu", usd_h=self.usd_h, since=self.active, until=self.deleting)]


@attrs.define(kw_only=True)
class SshKey:
    """One key of the account's list. `private` is told by the market for pairs that it made."""

    id: str
    name: str
    public: str
    is_default: bool = False
    private: str | None = None


@attrs.define(kw_only=True)
class Market:
    """One account with `key` on the market; `strangers` are ids of machines of another account."""

    runtime: Runtime
    housing: Housing
    kinds: list[dict[str, Any]]
    knobs: Knobs = attrs.field(factory=Knobs)
    key: str = "sf_TESTKEY0123456789abcdef"
    host: str = "127.0.0.1"
    own_clock: bool = False
    instances: dict[str, Instance] = attrs.field(factory=dict)
    ssh_keys: list[SshKey] = attrs.field(factory=list)
    strangers: set[str] = attrs.field(factory=set)
    creates: int = 0
    restarts: list[str] = attrs.field(factory=list)
    asked_to_end: list[str] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.ssh_keys.append(
            SshKey(
                id=new_id(), name="Shadeform Managed Key", public=MANAGED, is_default=True, private=PRIVATE
            )
        )

    def alive(self) -> list[Instance]:
        """Machines that exist and may bill now."""
        self.settle()
        return [i for i in self.instances.values() if i.alive]

    def metered(self, instance: Instance, until: datetime | None = None) -> Decimal:
        """What one has really cost so far, unrounded."""
        now = until or self.runtime.now()
        return total(instance.lines(), instance.created, now + timedelta(days=1), now)

    def find(self, cloud: object, name: object) -> dict[str, Any] | None:
        """The type of that cloud and name."""
        return next((k for k in self.kinds if (k["cloud"], k["shade_instance_type"]) == (cloud, name)), None)

    def create(self, body: Mapping[str, Any], kind: Mapping[str, Any], usd_h: Decimal) -> Instance:
        """A new machine, recorded; its cloud is called afterwards."""
        self.creates += 1
        made = Instance(
            id=new_id(), body=dict(body), kind=kind, created=self.runtime.now(),
            usd_h=usd_h * self.knobs.price_factor, auto_delete=dict(body.get("auto_delete") or {}),
        )  # fmt: skip
        self.instances[made.id] = made
        if self.knobs.stuck is None:
            self.runtime.spawn(f"boot {made.id}", lambda: self._boot(made))
        return made

    def _boot(self, made: Instance) -> None:
        knobs = self.knobs
        self.runtime.sleep(knobs.creating_s + knobs.provider_s)
        if knobs.late_error is not None:
            self.fail(made, knobs.late_error)
            return
        self.runtime.sleep(knobs.pending_s)
        if made.alive and made.failed is None:
            self.start(made)

    def start(self, made: Instance) -> None:
        """The virtual machine runs."""
        key = next((k for k in self.ssh_keys if k.id == made.body.get("ssh_key_id")), self.default_key)
        envs = {str(e["name"]): str(e["value"]) for e in made.body.get("envs") or []}
        lodging = self.housing.open(Wish(
            env=envs, keys=[key.public], gpu=self.knobs.host(place_of(made)), own_clock=self.own_clock
        ))  # fmt: skip
        made.lodging, made.active = lodging, self.runtime.now()
        if not made.alive:
            lodging.close()

    @property
    def default_key(self) -> SshKey:
        """The key of machines that name none."""
        return next(k for k in self.ssh_keys if k.is_default)

    def fail(self, made: Instance, details: str) -> None:
        """Its creation failed; the row stays until somebody deletes it."""
        made.failed = made.details = details

    def preempt(self, made: Instance) -> None:
        """A spot machine is taken back."""
        made.details = "preempted"
        self.over(made, self.runtime.now())

    def end(self, made: Instance) -> None:
        """Delete it; idempotent."""
        self.asked_to_end.append(made.id)
        if not self.knobs.delete_ignored:
            self.over(made, self.runtime.now())

    def vanish(self, made: Instance) -> None:
        """It is gone at once, whoever did it."""
        self.over(made, self.runtime.now() - timedelta(days=1))

    def over(self, made: Instance, when: datetime) -> None:
        """Its deletion begins, and what runs there ends."""
        if made.deleting is None:
            made.deleting = when
            if made.lodging is not None:
                made.lodging.close()

    def settle(self) -> None:
        """Do what the market's own timers should have done by now."""
        now = self.runtime.now()
        for made in self.instances.values():
            due = min(filter(None, (_date(made), _spent(made))), default=None)
            if made.alive and due is not None and due <= now:
                self.over(made, due)

    def gone(self, made: Instance) -> bool:
        """Whether its deletion is complete."""
        if made.deleting is None:
            return False
        return (self.runtime.now() - made.deleting).total_seconds() >= self.knobs.deleting_s

    def listed(self) -> Iterator[Instance]:
        """What the list shows: late at first, and until the deletion is complete."""
        now = self.runtime.now()
        for made in self.instances.values():
            if (now - made.created).total_seconds() >= self.knobs.appear_s and not self.gone(made):
                yield made


def place_of(made: Instance) -> str:
    """Where it is, as gipper names hosts here."""
    return f"{made.body['cloud']}/{made.body['region']}"


def _date(made: Instance) -> datetime | None:
    told = made.auto_delete.get("date_threshold")
    return None if told is None else datetime.fromisoformat(str(told))


def _spent(made: Instance) -> datetime | None:
    told = made.auto_delete.get("spend_threshold")
    if told is None or made.active is None or not made.usd_h:
        return None
    return made.active + timedelta(hours=float(Decimal(str(told)) / made.usd_h))


def new_id() -> str:
    """A UUID, as the market names everything."""
    return str(uuid.uuid4())
