"""A provider's handle over a bench, as core makes it, and what checks do with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs

from gipper.errors import GipperError, KeyMissing, ProviderError
from gipper.http import make_session
from gipper.plugins.context import Context
from gipper.plugins.handle import Provider
from gipper.plugins.registry import Registry
from gipper.plugins.urls import key_hosts
from gipper.testing.contract.bench import Bench, Unsupported
from gipper.testing.contract.sentence import Broken
from gipper.values.machines import Machine, MachineState, RentRequest
from gipper.values.offers import Listing, Offer, OfferQuery

T = TypeVar("T")
NAME: Final = "gipper-contr-0000000000-{}-0000zz"
_ASK_S: Final = 120.0
# A machine that runs shows its address within its usual time, three times over.
_READY_TIMES: Final = 3.0


class BenchKeys:
    """The bench's key for every name; None = not set."""

    def __init__(self, value: str | None) -> None:
        self.value = value

    def require(self, name: str) -> str:
        """The key. Raises KeyMissing."""
        if self.value is None:
            raise KeyMissing(f"{name} is not set (environment or configured .env; see GIPPER_ENV)")
        return self.value


@attrs.define
class Stage:
    """`told` collects everything that a user might see: errors and machines, for the checks on secrets."""

    bench: Bench
    provider: Provider
    told: list[str] = attrs.field(factory=list)
    _names: int = 0

    @property
    def info(self) -> Any:
        """What the provider says of itself."""
        return self.provider.info

    def arrange(self, scenario: str) -> None:
        """See `Bench.arrange`."""
        self.bench.arrange(scenario)

    def listing(self, **wishes: Any) -> Listing[Offer]:
        """What is on offer."""
        table = self.info.job_table
        given = {"options": table() if table else None, **self.bench.query(), **wishes}
        query = OfferQuery(deadline=self.bench.runtime.monotonic() + _ASK_S, **given)
        return self.note(lambda: self.provider.list_offers(query))

    def offer(self, **wishes: Any) -> Offer:
        """The first thing on offer."""
        found = self.listing(**wishes)
        if not found.items:
            raise Broken("nothing is on offer although the bench arranged that all is well")
        return found.items[0]

    def request(self, **wishes: Any) -> RentRequest:
        """A request as core makes it, with a name of its own."""
        self._names += 1
        end = self.bench.runtime.now() + timedelta(hours=1)
        table = self.info.job_table
        given = {"options": table() if table else None, **wishes}
        return RentRequest(
            name=NAME.format(self._names), public_key=self.bench.public_key(), end=end,
            boot_watchdog_s=4200.0, timer_at=end + timedelta(hours=1), **given,
        )  # fmt: skip

    def rented(self, **wishes: Any) -> Machine:
        """A machine."""
        ports = wishes.get("ports", ())
        udp = any(p.protocol == "udp" for p in ports)
        offer = self.offer(**({"udp": True} if udp else {"tcp": True} if ports else {}))
        request = self.request(**wishes)
        return self.note(lambda: self.provider.rent(offer, request))

    def described(self, machine_id: str) -> Machine | None:
        """The machine as it is told now."""
        return self.note(lambda: self.provider.describe(machine_id))

    def listed(self) -> Listing[Machine]:
        """The account's machines."""
        return self.note(self.provider.list_ours)

    def ready(self, machine: Machine) -> Machine:
        """The machine once it runs and shows an address."""

        def there() -> Machine | None:
            found = self.described(machine.id)
            up = found is not None and found.state is MachineState.RUNNING and bool(found.addresses)
            return found if up else None

        return self.until(there, max(30.0, _READY_TIMES * self.info.ready_s), "it shows an address")

    def appeared(self, machine: Machine) -> Machine:
        """The machine as the list shows it, once it must."""
        limit = 600.0 if self.info.appear_s is None else self.info.appear_s

        def there() -> Machine | None:
            return next((m for m in self.listed() if m.id == machine.id), None)

        return self.until(there, limit, "the list shows it")

    def until(self, there: Callable[[], T | None], seconds: float, what: str) -> T:
        """What `there` finds, asked again until then. Raises Broken."""
        runtime = self.bench.runtime
        deadline = runtime.monotonic() + seconds
        while True:
            found = there()
            if found:
                return found
            if runtime.monotonic() >= deadline:
                raise Broken(f"not within {seconds:.0f} s: {what}")
            runtime.sleep(min(1.0, max(0.05, seconds / 20)))

    def note(self, ask: Callable[[], T]) -> T:
        """The answer; it, or the error, is kept for the checks on secrets."""
        try:
            answer = ask()
        except GipperError as error:
            self.told.append(f"{error} {error.hint or ''}")
            raise
        self.told.append(repr(answer))
        return answer

    def fails(self, ask: Callable[[], Any], expected: type[GipperError], **fields: Any) -> GipperError:
        """The error that `ask` must raise. Raises Broken where it doesn't, or raises another."""
        try:
            answer = self.note(ask)
        except expected as error:
            wrong = {k: getattr(error, k, None) for k, v in fields.items() if getattr(error, k, None) != v}
            if wrong:
                raise Broken(f"it was {type(error).__name__} with {wrong}") from error
            return error
        except GipperError as error:
            raise Broken(f"it was {type(error).__name__}: {error.message}") from error
        raise Broken(f"nothing was raised; the answer was {_short(answer)}")

    def must_fail(self, ask: Callable[[], Any]) -> None:
        """`ask` must raise an error of the provider."""
        self.fails(ask, ProviderError)


@contextmanager
def staged(bench: Bench, *, key: str | None = None, without_key: bool = False) -> Iterator[Stage]:
    """A stage over a bench; the bench is closed at the end."""
    # Everybody else's tests may run without it.
    from gipper.redact import Redactor

    redactor = Redactor()
    value = None if without_key else key or bench.key
    try:
        loaded = Registry().add_provider(bench.provider_class, distribution="under-test", version="0")
        info = loaded.info
        if value is not None:
            redactor.add(value, info.key_name or "KEY")
        keys = BenchKeys(value)
        table = bench.settings or (info.settings_table() if info.settings_table else None)

        def http() -> Any:
            session = make_session(
                provider=info.name, runtime=bench.runtime, redact=redactor.text,
                key_hosts=key_hosts(info, table), secret_headers=info.secret_headers,
            )  # fmt: skip
            bench.install(session)
            return session

        folder = Path(bench.folder) / "provider"
        context = Context(info, table, bench.runtime, folder, keys, http, env=bench.env())
        # Nothing is redacted here: a key in a text must be found, not hidden.
        yield Stage(bench, Provider(loaded, context, keys))
    finally:
        bench.close()


def needs(condition: bool, why: str) -> None:
    """Raises Unsupported with `why` unless the condition holds."""
    if not condition:
        raise Unsupported(why)


def holds(condition: bool, why: str) -> None:
    """Raises Broken with `why` unless the condition holds."""
    if not condition:
        raise Broken(why)


def _short(answer: object) -> str:
    text = repr(answer)
    return text if len(text) < 120 else text[:117] + "..."
