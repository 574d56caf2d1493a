"""`FakeMarket`: a priced market in this process, whose every verb can be told to go wrong.

    market = FakeMarket(runtime, name="acme")
    market.script("rent", "acts_and_raises")   # the next rent; later ones go well again
    registry.add_provider(market.provider_class(), distribution="acme", version="1")

`market.alive()` are the machines that really exist and bill, whatever the verbs say.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import attrs

from gipper.errors import Doubtful, NoCapacity, OfferGone, ProviderError, Refused
from gipper.markers import hookimpl
from gipper.money import cost, usd
from gipper.runtime import Event, Runtime
from gipper.values.bills import Watchdog
from gipper.values.machines import Address, Machine, MachineState, RentRequest
from gipper.values.offers import GpuModel, Listing, Offer, OfferQuery
from gipper.values.plugins import ProviderInfo

FAULTS: Final[dict[str, tuple[str, ...]]] = {
    "list_offers": ("fail", "none", "bad_key", "garbage", "hang"),
    "rent": (
        "offer_gone", "no_capacity", "refused_request", "refused_account", "refused_offer", "doubtful",
        "raises", "acts_and_raises", "acts_and_doubtful", "none", "acts_and_none", "wrong_name",
        "misnamed", "twin", "late", "late_twin", "dearer", "interrupt", "acts_and_interrupt", "nonsense",
    ),
    "describe": ("fail", "none", "error_state", "gone"),
    "list_ours": ("fail", "none", "cut_short", "lag"),
    "terminate": ("fail", "acts_and_fails", "ignored"),
    "watchdog": ("fail", "none"),
    "set_end": ("fail",),
}  # fmt: skip


@attrs.define
class FakeMachine:
    """A machine as it really is. `visible_at`: from when on listings and describe show it."""

    id: str
    name: str
    usd_h: Decimal
    created: datetime
    visible_at: datetime
    ended: datetime | None = None
    hidden_at: datetime | None = None
    state: MachineState = MachineState.RUNNING
    addresses: tuple[Address, ...] = ()
    host_id: str | None = None


@attrs.define
class FakeMarket:
    """One account on one market. `boot` gives the addresses of a machine (None = none ever).

    `watchdog` is the shell command by which a machine ends itself, `watchdog_reads` the variables that
    it needs; without it the market has no such hook. `timer` = the market wants `gipper_set_end`; what it
    was told is in `timers`. A verb that hangs goes on once `released` is set; `mend` sets it, too.
    """

    runtime: Runtime
    name: str = "acme"
    usd_h: Decimal = Decimal("0.40")
    appear_s: float | None = 5.0
    settle_s: float = 1.0
    gone_patience_s: float = 60.0
    late_s: float = 3.0
    lag_s: float = 2.0
    offers: list[Offer] = attrs.field(factory=list)
    boot: Callable[[FakeMachine], tuple[Address, ...]] | None = None
    unboot: Callable[[FakeMachine], None] | None = None
    watchdog: str | None = None
    watchdog_reads: tuple[str, ...] = ()
    timer: bool = False
    timers: dict[str, datetime] = attrs.field(factory=dict)
    machines: dict[str, FakeMachine] = attrs.field(factory=dict)
    calls: list[tuple[str, Any]] = attrs.field(factory=list)
    released: Event = attrs.field(
        default=attrs.Factory(lambda self: self.runtime.event(), takes_self=True), repr=False
    )
    _script: dict[str, deque[str]] = attrs.field(factory=lambda: defaultdict(deque))
    _forever: dict[str, str] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        if not self.offers:
            self.offers = [self.offer("o1"), self.offer("o2"), self.offer("o3")]

    def offer(self, offer_id: str, **changes: Any) -> Offer:
        """An ordinary offer of this market with some fields changed."""
        base = Offer(
            provider=self.name, id=offer_id, usd_h=self.usd_h, gpu_count=1, region="US", where="US",
            gpu=GpuModel(name="RTX 4090", memory_gb=24, compute_capability=(8, 9)),
            host_id=f"host-{offer_id}", disk_gb=500.0, cloud="COMMUNITY",
        )  # fmt: skip
        return attrs.evolve(base, **changes)

    def script(self, verb: str, *faults: str, forever: bool = False) -> None:
        """The next calls of `verb` go wrong in these ways; "ok" is a good call in between."""
        for fault in faults:
            if fault != "ok" and fault not in FAULTS[verb]:
                raise ValueError(f"{verb} has no fault {fault!r}")
        if forever:
            (self._forever[verb],) = faults
        else:
            self._script[verb].extend(faults)

    def mend(self) -> None:
        """Forget every scripted fault; what hangs goes on."""
        self.released.set()
        self._script.clear()
        self._forever.clear()

    def alive(self) -> list[FakeMachine]:
        """Machines that exist and bill now."""
        return [m for m in self.machines.values() if m.ended is None]

    def metered(self) -> Decimal:
        """Dollars that all machines have really cost so far."""
        now = self.runtime.now()
        return sum(
            (cost(m.usd_h, ((m.ended or now) - m.created).total_seconds()) for m in self.machines.values()),
            usd(0),
        )

    def kill(self, machine_id: str) -> None:
        """The machine ends by itself, or somebody else ends it."""
        machine = self.machines[machine_id]
        if machine.ended is None:
            machine.ended = self.runtime.now()
            if self.unboot is not None:
                self.unboot(machine)

    def info(self) -> ProviderInfo:
        """How the market describes itself."""
        return ProviderInfo(
            name=self.name, title=self.name.title(), ready_s=1.0, cpu=True, udp=True,
            appear_s=self.appear_s, settle_s=self.settle_s, gone_patience_s=self.gone_patience_s,
            bootstrap=False,
        )  # fmt: skip

    def provider_class(self) -> type:
        """A provider plugin class bound to this market."""
        market = self
        guarded = (_Guarded,) if self.watchdog is not None else ()
        timed = (_Timed,) if self.timer else ()

        class FakeProvider(*guarded, *timed, _Verbs):  # type: ignore[misc]
            @staticmethod
            @hookimpl
            def gipper_provider() -> ProviderInfo:
                return market.info()

            def __init__(self, context: object) -> None:
                super().__init__(market)

        return FakeProvider

    def next_fault(self, verb: str, detail: Any = None) -> str:
        """Record a call and say how it goes."""
        self.calls.append((verb, detail))
        queue = self._script[verb]
        return queue.popleft() if queue else self._forever.get(verb, "ok")

    def create(self, name: str, usd_h: Decimal, *, late: bool = False) -> FakeMachine:
        """Bring a machine into being."""
        now = self.runtime.now()
        visible = now + timedelta(seconds=self.late_s if late else 0)
        machine = FakeMachine(
            id=f"{self.name}-{len(self.machines) + 1}",
            name=name,
            usd_h=usd_h,
            created=now,
            visible_at=visible,
        )
        if self.boot is not None:
            machine.addresses = self.boot(machine)
        self.machines[machine.id] = machine
        return machine

    def shown(self, machine: FakeMachine) -> bool:
        """Whether the market's own lists show the machine now."""
        now = self.runtime.now()
        return machine.visible_at <= now and machine.ended is None

    def as_told(self, machine: FakeMachine) -> Machine:
        """The machine as the market's API words it."""
        return Machine(
            provider=self.name, id=machine.id, name=machine.name, state=machine.state,
            usd_h=machine.usd_h, created=machine.created, addresses=machine.addresses,
            host_id=machine.host_id,
        )  # fmt: skip


_REFUSALS: Final[dict[str, Callable[[], BaseException]]] = {
    "offer_gone": lambda: OfferGone("the offer is gone"),
    "no_capacity": lambda: NoCapacity("no capacity for this request"),
    "refused_request": lambda: Refused("invalid env", kind="request"),
    "refused_account": lambda: Refused("insufficient funds", kind="account"),
    "refused_offer": lambda: Refused("this host is not for you", kind="offer"),
    "doubtful": lambda: Doubtful("the answer was lost"),
    "raises": lambda: RuntimeError("something broke"),
    "interrupt": KeyboardInterrupt,
}


class _Verbs:
    """The verbs of `FakeMarket`, each through its script."""

    def __init__(self, market: FakeMarket) -> None:
        self.market = market

    @hookimpl
    def gipper_list_offers(self, query: OfferQuery) -> Any:
        fault = self.market.next_fault("list_offers", query)
        if fault == "fail":
            raise ProviderError("the market answered HTTP 500")
        if fault == "bad_key":
            raise ProviderError("the market answered HTTP 401: the key was rejected", hint="set another key")
        if fault == "garbage":
            return Listing(items=_garbage(self.market))
        if fault == "hang":
            self.market.runtime.wait_any([self.market.released])
        return None if fault == "none" else Listing(items=tuple(self.market.offers))

    @hookimpl
    def gipper_rent(self, offer: Offer, request: RentRequest) -> Any:
        fault = self.market.next_fault("rent", request)
        if fault in _REFUSALS:
            raise _REFUSALS[fault]()
        if fault == "none":
            return None
        if fault == "nonsense":
            return "a machine"
        return self._rented(fault, offer, request)

    def _rented(self, fault: str, offer: Offer, request: RentRequest) -> Any:
        market = self.market
        name = "something-else" if fault == "misnamed" else request.name
        price = offer.usd_h * 2 if fault == "dearer" else offer.usd_h
        machine = market.create(name, price, late=fault == "late")
        if fault in ("twin", "late_twin"):
            market.create(request.name, offer.usd_h, late=fault == "late_twin")
        told = market.as_told(machine)
        if fault == "wrong_name":
            return attrs.evolve(told, name="something-else")
        if fault == "acts_and_raises":
            raise RuntimeError("the connection broke after the create")
        if fault == "acts_and_doubtful":
            raise Doubtful("the answer was lost after the create")
        if fault == "acts_and_interrupt":
            raise KeyboardInterrupt
        return None if fault in ("acts_and_none", "late") else told

    @hookimpl
    def gipper_describe(self, machine_id: str) -> Any:
        fault = self.market.next_fault("describe", machine_id)
        machine = self.market.machines.get(machine_id)
        if fault == "fail":
            raise ProviderError("the market answered HTTP 502")
        if machine is None or not self.market.shown(machine) or fault == "none":
            return None
        told = self.market.as_told(machine)
        states = {"error_state": MachineState.ERROR, "gone": MachineState.GONE}
        return attrs.evolve(told, state=states.get(fault, told.state))

    @hookimpl
    def gipper_list_ours(self) -> Any:
        fault = self.market.next_fault("list_ours")
        if fault == "fail":
            raise ProviderError("the market answered HTTP 500")
        if fault == "cut_short":
            raise ProviderError("page 2 of 3 could not be read")
        shown = [] if fault == "lag" else [m for m in self.market.machines.values() if self.market.shown(m)]
        return None if fault == "none" else Listing(items=tuple(self.market.as_told(m) for m in shown))

    @hookimpl
    def gipper_terminate(self, machine_id: str) -> None:
        fault = self.market.next_fault("terminate", machine_id)
        if fault not in ("fail", "ignored") and machine_id in self.market.machines:
            self.market.kill(machine_id)
        if fault in ("fail", "acts_and_fails"):
            raise ProviderError("the market answered HTTP 401")


def _garbage(market: FakeMarket) -> tuple[Any, ...]:
    """What a plugin that believes its market too much might pass on."""
    odd: tuple[dict[str, Any], ...] = (
        {"usd_h": Decimal("NaN")}, {"usd_h": Decimal(-1)}, {"usd_h": "cheap"}, {"id": ""},
        {"provider": "another"}, {"down_mbps": "fast"}, {"disk_gb": "plenty"}, {"gpu": "RTX 4090"},
        {"download_usd_per_gb": Decimal("Infinity")}, {"upload_usd_per_gb": Decimal("NaN")},
    )  # fmt: skip
    return (None, "text", *(attrs.evolve(market.offer(f"odd-{n}"), **o) for n, o in enumerate(odd)))


class _Guarded:
    """The watchdog of a market that has one."""

    market: FakeMarket

    @hookimpl
    def gipper_watchdog(self, machine: Machine) -> Any:
        fault = self.market.next_fault("watchdog", machine.id)
        if fault == "fail":
            raise ProviderError("the market answered HTTP 500")
        assert self.market.watchdog is not None
        if fault == "none":
            return None
        return Watchdog(command=self.market.watchdog, reads=self.market.watchdog_reads)


class _Timed:
    """The timer of a market that has one."""

    market: FakeMarket

    @hookimpl
    def gipper_set_end(self, machine_id: str, timer_at: datetime) -> None:
        if self.market.next_fault("set_end", machine_id) == "fail":
            raise ProviderError("the market answered HTTP 400")
        self.market.timers[machine_id] = timer_at
