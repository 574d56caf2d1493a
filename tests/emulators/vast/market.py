"""The market: accounts, listings, contracts, and what happens to them in time."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import attrs
from emulators.housing import Housing, Wish, a_port
from emulators.meter import total
from emulators.vast.contracts import GB, Contract, env_of, published
from emulators.vast.knobs import Knobs
from emulators.vast.offers import Listings

from gipper.runtime import Runtime


@attrs.define(kw_only=True)
class Market:
    """One account with `key` on the market. `host` is the address that machines are told to have."""

    runtime: Runtime
    housing: Housing
    listings: Listings
    knobs: Knobs = attrs.field(factory=Knobs)
    key: str = "vast-key-0123456789abcdef"
    credit: Decimal = Decimal(25)
    host: str = "127.0.0.1"
    own_clock: bool = False
    contracts: dict[int, Contract] = attrs.field(factory=dict)
    account_keys: list[str] = attrs.field(factory=list)
    creates: int = 0
    asked_to_end: list[int] = attrs.field(factory=list)
    gone_at: dict[int, datetime] = attrs.field(factory=dict)

    def alive(self) -> list[Contract]:
        """Contracts that exist and bill now."""
        return [c for c in self.contracts.values() if c.alive]

    def labels(self) -> list[str | None]:
        """The labels of those that are alive."""
        return [c.label for c in self.alive()]

    def machine_seconds(self) -> float:
        """Seconds that all machines have existed."""
        now = self.runtime.now()
        return sum(((c.ended or now) - c.created).total_seconds() for c in self.contracts.values())

    def metered(self, contract: Contract) -> Decimal:
        """What one has really cost so far, unrounded."""
        now = self.runtime.now()
        spent = total(contract.lines(), contract.created, now + timedelta(days=1), now)
        return spent + sum(contract.traffic_usd().values(), Decimal(0))

    def credit_left(self) -> Decimal:
        """Prepaid dollars left."""
        return self.credit - sum((self.metered(c) for c in self.contracts.values()), Decimal(0))

    def settle(self) -> None:
        """An account without money: everything stops, and the disks bill on."""
        if self.credit_left() <= 0:
            for contract in self.alive():
                if contract.stopped is None:
                    self.outbid(contract)

    def create(self, listing: dict[str, Any], body: dict[str, Any]) -> Contract:
        """A new contract; its container starts by itself, asked or not."""
        self.creates += 1
        self.listings.taken.add(listing["ask_contract_id"])
        price = body.get("price")
        contract = Contract(
            id=7001001 + len(self.contracts), listing=listing, body=body, created=self.runtime.now(),
            key=f"instance-key-{secrets.token_hex(16)}", bid=None if price is None else float(price),
            keys=list(self.account_keys),
        )  # fmt: skip
        self.contracts[contract.id] = contract
        if not self.knobs.stuck_loading and self.knobs.status is None:
            self.runtime.spawn(f"boot {contract.id}", lambda: self._boot(contract, self.knobs.running_s))
        return contract

    def _boot(self, contract: Contract, after_s: float) -> None:
        self.runtime.sleep(after_s)
        self.settle()
        if contract.ended is None and contract.stopped is None:
            self.start(contract)

    def start(self, contract: Contract) -> None:
        """Its container runs."""
        ports = published(contract.body)
        contract.outside = {port: a_port(port[1]) for port in ports}
        wish = Wish(
            env=self._environment(contract), onstart=str(contract.body.get("onstart") or ""), ports=ports,
            outside=contract.outside, keys=[] if self.knobs.key_never else contract.keys,
            gpu=self.knobs.host(contract.listing["machine_id"]), own_clock=self.own_clock,
        )  # fmt: skip
        lodging = self.housing.open(wish)
        contract.lodging, contract.running = lodging, self.runtime.now()
        if contract.ended is not None:
            lodging.close()

    def attach(self, contract: Contract, line: str) -> None:
        """Let a key into one machine, now or when it starts."""
        contract.keys.append(line.strip())
        if contract.lodging is not None and not self.knobs.key_never:
            contract.lodging.authorize(line)

    def end(self, contract: Contract) -> None:
        """Destroy it; idempotent."""
        self.asked_to_end.append(contract.id)
        if contract.ended is None and not self.knobs.delete_ignored:
            self.vanish(contract)

    def vanish(self, contract: Contract) -> None:
        """It is gone, whoever did it."""
        contract.ended = self.runtime.now()
        if contract.lodging is not None:
            contract.lodging.close()

    def outbid(self, contract: Contract) -> None:
        """Somebody pays more: it is stopped, its disk bills on."""
        contract.stopped = self.runtime.now()
        if contract.lodging is not None:
            contract.lodging.close()

    def listed(self) -> Iterator[Contract]:
        """What the lists show: late at first, and for a while after the end."""
        now = self.runtime.now()
        for contract in self.contracts.values():
            late = (now - contract.created).total_seconds() < self.knobs.appear_s
            over = contract.ended is not None
            lingers = over and (now - contract.ended).total_seconds() < self.knobs.linger_s  # type: ignore[operator]
            if not late and (not over or lingers):
                yield contract

    def _environment(self, contract: Contract) -> dict[str, str]:
        own = {k: v for k, v in env_of(contract.body).items() if not k.startswith(("-p", "-h"))}
        mapped = {f"VAST_{p.upper()}_PORT_{n}": str(out) for (n, p), out in contract.outside.items()}
        return {
            **own, **mapped, "PUBLIC_IPADDR": self.host, "CONTAINER_ID": str(contract.id),
            "CONTAINER_API_KEY": contract.key, "VAST_CONTAINERLABEL": f"C.{contract.id}",
            "GPU_COUNT": str(contract.listing["num_gpus"]), "DATA_DIRECTORY": "/workspace/",
        }  # fmt: skip


def gigabytes(count: int) -> float:
    """Bytes as GB."""
    return count / GB
