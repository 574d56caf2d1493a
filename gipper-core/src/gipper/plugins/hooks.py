"""Which hooks there are, who may implement them, and which arguments each has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from types import FunctionType, ModuleType
from typing import Final, Literal

from gipper import hookspecs
from gipper.markers import PROJECT

Kind = Literal["builtin", "provider", "team", "job"]

PREFIX: Final = "gipper_"
INFO: Final = "gipper_provider"
REQUIRED: Final = (
    INFO,
    "gipper_list_offers",
    "gipper_rent",
    "gipper_describe",
    "gipper_list_ours",
    "gipper_terminate",
)
OPTIONAL: Final = (
    "gipper_billed",
    "gipper_account",
    "gipper_check_key",
    "gipper_authorize",
    "gipper_watchdog",
    "gipper_set_end",
    "gipper_diagnose",
    "gipper_leftovers",
)
VERBS: Final = frozenset(REQUIRED + OPTIONAL)
WRAPPABLE: Final = frozenset({"gipper_list_offers", "gipper_rent"})
OWN_MARKET: Final = frozenset({"gipper_exclude_offers", "gipper_adjust_costs", "gipper_preflight"})
COMMANDS: Final = "gipper_commands"


def hook_arguments(specs: ModuleType = hookspecs) -> Mapping[str, tuple[str, ...]]:
    """Every hook with the names of its arguments, read from the specifications."""
    return {
        name: fn.__code__.co_varnames[: fn.__code__.co_argcount]
        for name, fn in vars(specs).items()
        if isinstance(fn, FunctionType) and hasattr(fn, f"{PROJECT}_spec")
    }


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` is most likely a slip of, or None."""
    return next(iter(get_close_matches(name, sorted(known), n=1, cutoff=0.6)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean X?`, or nothing where no known name is near."""
    near = nearest(name, known)
    return f"; did you mean {near}?" if near else ""
