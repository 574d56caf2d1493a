"""Doctor on the markets' side. Nobody is asked whose key isn't set, and nobody for longer than 20 s."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from gipper.diagnosis_finding import Finding, trouble, warning, well
from gipper.errors import GipperError, ProviderError

if TYPE_CHECKING:
    from gipper.core import Gipper
    from gipper.lifecycle.book import Book
    from gipper.plugins.handle import Provider
    from gipper.values.machines import Machine

T = TypeVar("T")
PATIENCE_S: Final = 20.0
_CLOCK_OFF_S: Final = 60.0


def plugins(gipper: Gipper) -> Iterator[Finding]:
    """What is installed, and what failed to load."""
    usable = gipper.providers()
    gipper.registry.load_team_plugins()
    yield well("providers", ", ".join(p.name for p in usable) or "none")
    for problem in gipper.registry.problems:
        yield trouble("plugin", str(problem), "update or uninstall it; `gipper plugins` has the details")


def keys(gipper: Gipper) -> Iterator[Finding]:
    """Each provider's key: is it set, does the market take it."""
    from gipper.reaptimer import dotenv

    for provider in gipper.providers():
        if provider.key_name is None:
            continue
        if not provider.has_key():
            yield warning(
                "key", f"{provider.key_name} is not set: {provider.title} is left out",
                f"export {provider.key_name}=..., or write it into {dotenv(gipper)} (chmod 600)",
            )  # fmt: skip
        else:
            yield _told(gipper, "key", partial(_key, gipper, provider))


def clock(gipper: Gipper) -> Iterator[Finding]:
    """This host's clock against those of the markets that were asked."""
    for provider in _keyed(gipper):
        offset = _offset(provider)
        if offset is None:
            continue
        if abs(offset) <= _CLOCK_OFF_S:
            yield well("clock", f"within {abs(offset):.0f} s of {provider.title}'s")
            continue
        way = "behind" if offset > 0 else "ahead of"
        yield warning(
            "clock", f"this host's clock is {abs(offset):,.0f} s {way} {provider.title}'s",
            "set it: timedatectl set-ntp true",
        )  # fmt: skip


def machines(gipper: Gipper) -> Iterator[Finding]:
    """What the markets list of gipper's that is not in this ledger: forgotten, or somebody else's."""
    from gipper.lifecycle.book import KINDS, Book

    for provider in _keyed(gipper):
        try:
            listed = _within(gipper, f"list of {provider.name}", provider.list_ours)
        except GipperError as error:
            yield _failed(gipper, f"machines of {provider.name}", error)
            continue
        book = Book.of(gipper.ledger.read(kinds=KINDS))
        yield from (f for m in listed if (f := _judged(gipper, book, m)) is not None)


def _keyed(gipper: Gipper) -> list[Provider]:
    return [p for p in gipper.providers() if p.key_name is not None and p.has_key()]


def _key(gipper: Gipper, provider: Provider) -> Finding:
    check = _within(gipper, f"key of {provider.name}", provider.check_key)
    if check is not None and not check.ok:
        text = gipper.redactor.text(f"{provider.key_name}: {check.problem}")
        return trouble("key", text, "make a new key with that scope")
    return well("key", f"{provider.key_name} is set" + ("" if check is None else " and works"))


def _judged(gipper: Gipper, book: Book, machine: Machine) -> Finding | None:
    from gipper.naming import PREFIX, MachineName

    name = MachineName.parse(machine.name)
    which = f"{machine.provider} {machine.id} ({machine.name})"
    if name is None:
        if not machine.name.startswith(PREFIX):
            return None
        cure = "look at it in the market's console; gipper pod reap --unknown ends it"
        return warning("machines", f"{which} bears no name that gipper gives", cure)
    if name.inst != gipper.installation.inst:
        text = f"{which} is another installation's ({name.inst}), until {name.end:%Y-%m-%d %H:%M} UTC"
        cure = "look at `gipper pod ls` there; gipper pod reap ends it 30 minutes after that time"
        return warning("machines", text, cure)
    if machine.name not in book.pods:
        return trouble("machines", f"{which} is ours and not in the ledger", "gipper pod reap")
    return None


def _offset(provider: Provider) -> float | None:
    told = provider.market_time().ahead.total_seconds()
    return told or None


def _told(gipper: Gipper, what: str, ask: Callable[[], Finding]) -> Finding:
    try:
        return ask()
    except GipperError as error:
        return _failed(gipper, what, error)


def _failed(gipper: Gipper, what: str, error: GipperError) -> Finding:
    return trouble(what, gipper.redactor.text(error.message), error.hint or "try again later")


def _within(gipper: Gipper, what: str, ask: Callable[[], T]) -> T:
    runtime = gipper.runtime
    task = runtime.spawn(f"doctor: {what}", ask)
    if runtime.wait_any([task.done], runtime.monotonic() + PATIENCE_S) is None:
        raise ProviderError(f"the {what} was not answered within {PATIENCE_S:.0f} s", hint="try again later")
    return task.result()
