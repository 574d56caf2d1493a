"""How a rent ended: which words of a provider and its wrappers count, and what is in doubt.

Only OfferGone, NoCapacity and Refused, raised by the provider's own implementation or by a wrapper
before its yield, say that nothing was created. Whatever else comes out of the call leaves open whether
a machine exists.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final, get_args

import attrs

from gipper.errors import Doubtful, NoCapacity, OfferGone, Refused, RefusedKind
from gipper.markers import PROJECT, hookimpl
from gipper.values.machines import Machine, RentRequest

_NOTHING_CREATED: Final = (OfferGone, NoCapacity, Refused)
_KINDS: Final = get_args(RefusedKind)


class DoubtfulRent(Doubtful):
    """Nobody knows how the rent ended.

    `seen` is the machine that the provider itself returned, if it did, whatever its wrappers made of
    it. Its name may differ from the one asked for: compare before acting on it.
    """

    def __init__(self, message: str, *, seen: Machine | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.seen = seen


@attrs.define(kw_only=True, eq=False)
class Sighting:
    """What core saw of one rent call, from inside all wrappers."""

    entered: bool = False
    answer: object = None
    error: BaseException | None = None
    early: BaseException | None = None

    @property
    def machine(self) -> Machine | None:
        """The machine that the provider itself returned."""
        return self.answer if isinstance(self.answer, Machine) else None

    def says_nothing_created(self, error: BaseException) -> bool:
        """True where `error` is the provider's word, or a wrapper's before its yield.

        It must be the very object: what a wrapper raises after its yield, be it of the same class, is
        raised by someone who can't know.
        """
        if error is not (self.error if self.entered else self.early):
            return False
        return isinstance(error, _NOTHING_CREATED) and getattr(error, "kind", _KINDS[0]) in _KINDS


class RentWatch:
    """Watches every rent of one provider; several may be under way at once."""

    def __init__(self) -> None:
        self._open: dict[int, Sighting] = {}

    @contextmanager
    def sighting(self, request: RentRequest) -> Iterator[Sighting]:
        """A new sighting for the call that is about to be made with this very `request` object."""
        seen = self._open[id(request)] = Sighting()
        try:
            yield seen
        finally:
            del self._open[id(request)]

    def observer(self) -> _Watcher:
        """The plugin that must be the innermost wrapper."""
        return _Watcher(_marked(self._observe, trylast=True))

    def fence(self, plugin: object) -> _Watcher | None:
        """The plugin that goes just outside `plugin`'s wrapper of rent; None where it has none."""
        options = getattr(getattr(plugin, "gipper_rent", None), f"{PROJECT}_impl", None) or {}
        if not options.get("wrapper"):
            return None
        first, last = bool(options.get("tryfirst")), bool(options.get("trylast"))
        return _Watcher(_marked(self._fence, tryfirst=first, trylast=last), inside_first=last)

    def _observe(self, request: RentRequest) -> Generator[None, object, object]:
        seen = self._open[id(request)]
        seen.entered = True
        try:
            answer = yield
        except BaseException as error:
            seen.error = error
            raise
        seen.answer = answer
        return answer

    def _fence(self, request: RentRequest) -> Generator[None, object, object]:
        seen = self._open[id(request)]
        try:
            return (yield)
        except BaseException as error:
            # The innermost fence hears first, so this is what a wrapper raised before its yield.
            if not seen.entered and seen.early is None:
                seen.early = error
            raise


class _Watcher:
    """A plugin with one wrapper. `inside_first`: register it before the plugin that it fences, because
    of two trylast wrappers the later one is the inner one."""

    def __init__(self, rent: Callable[..., Any], *, inside_first: bool = False) -> None:
        self.gipper_rent = rent
        self.inside_first = inside_first


def _marked(
    watch: Callable[[RentRequest], Generator[None, object, object]],
    *,
    tryfirst: bool = False,
    trylast: bool = False,
) -> Callable[..., Any]:
    @hookimpl(wrapper=True, tryfirst=tryfirst, trylast=trylast)
    def gipper_rent(request: RentRequest) -> Generator[None, object, object]:
        return (yield from watch(request))

    return gipper_rent


def settled(
    call: Callable[[], object],
    seen: Sighting,
    request: RentRequest,
    provider: str,
    told: Callable[[BaseException], str],
) -> Machine:
    """Make the call; the provider's own machine, or one of the four errors and nothing else.

    `told` words an exception. Raises OfferGone, NoCapacity, Refused as they came, else DoubtfulRent.
    """
    try:
        answer = call()
    except BaseException as error:
        # KeyboardInterrupt too: a machine may exist, and only the caller's look-up by name finds it.
        if seen.says_nothing_created(error):
            raise
        raise in_doubt(_words(error, told), request, seen) from error
    fault = _fault(answer, seen, request, provider)
    if fault is not None or not isinstance(answer, Machine):
        raise in_doubt(f"provider {provider}: gipper_rent {fault}", request, seen)
    return answer


def in_doubt(why: str, request: RentRequest, seen: Sighting) -> DoubtfulRent:
    """The error for a rent that may or may not have made a machine."""
    return DoubtfulRent(
        f"{why}; whether machine {request.name} exists isn't known",
        seen=seen.machine,
        hint="it is looked for by its name; `gipper pod ls` shows what is listed now",
    )


def _words(error: BaseException, told: Callable[[BaseException], str]) -> str:
    return error.message if isinstance(error, Doubtful) else told(error)


def _fault(answer: object, seen: Sighting, request: RentRequest, provider: str) -> str | None:
    own = seen.answer
    if not seen.entered:
        return "was not asked: a wrapper answered in its place"
    if seen.error is not None:
        return f"raised {type(seen.error).__name__}, but a wrapper returned an answer all the same"
    if not isinstance(own, Machine):
        return f"returned {type(own).__name__ if own is not None else 'nothing'} instead of a Machine"
    if answer is not own:
        return f"made machine {own.id}, but a wrapper returned something else than it got"
    if own.provider != provider or not isinstance(own.id, str) or not own.id:
        return f"returned a machine of provider {own.provider!r} with id {own.id!r}"
    if own.name != request.name:
        return f"returned machine {own.id} under the name {own.name!r}"
    return None
