"""What an author provides: their class, and a market on which each check can arrange what it needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gipper.runtime import RealRuntime, Runtime
from gipper.values.machines import Machine

# name -> what the market does from then on; "well" takes everything back.
SCENARIOS: Final[Mapping[str, str]] = {
    "well": "everything works, something is on offer",
    "offers_empty": "nothing is on offer",
    "offers_fail": "asking for offers is answered with a server's error",
    "offers_garbage": "asking for offers is answered with a web page, or with what can't be read",
    "key_refused": "the key is not accepted, by no call",
    "rent_offer_gone": "the offer was taken by somebody else meanwhile",
    "rent_no_capacity": "nothing is free for this offer",
    "rent_refused_request": "the market refuses what the request asks for",
    "rent_refused_account": "the account may not rent (no money, no right)",
    "rent_lost_before": "the create never reaches the market, and no answer comes",
    "rent_lost_after": "the create makes a machine, and its answer is lost",
    "rent_unreadable": "the create makes a machine, and its answer can't be read",
    "describe_fails": "reading a machine is answered with a server's error",
    "list_fails": "listing is answered with a server's error",
    "list_later_page_fails": "the first page of the list comes, a later one does not",
    "machine_stops": "the only machine stops by itself, and is kept by the market",
    "machine_vanishes": "the only machine is gone, and nobody asked for that",
    "end_fails": "ending a machine is answered with a server's error",
    "end_slow": "a machine that was ended is shown for a little while",
    "account_fails": "asking for the account is answered with a server's error",
}


class Unsupported(Exception):
    """A bench can't arrange what was asked for; the text says why, and is printed in the report."""


class Bench:
    """One account on a market that the author runs. Subclass it; every check gets a new one.

    Set `provider_class` (and `settings`, the provider's settings table, where the default won't do), `key`
    (any made-up value) and `runtime` (a `SimRuntime` makes checks quick). `env` may hold the variable that
    moves the API to a toy server on loopback; `install` may mount a transport into the session instead.
    """

    provider_class: type
    settings: object = None
    key: str | None = "made-up-key-0123456789"
    runtime: Runtime
    # How many machines "list_later_page_fails" and "all pages" need; 1 where the list has no pages.
    page: int = 1
    # An id as the market words them, of a machine that was never there.
    unknown_id: str = "999999999999"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runtime = RealRuntime()

    def env(self) -> Mapping[str, str]:
        """The environment that the provider's base URLs are read from."""
        return {}

    def install(self, session: Any) -> None:
        """Mount what stands in for the network: `session.mount(url, adapter)`."""

    def arrange(self, scenario: str) -> None:
        """Make the market behave so from now on. Raises Unsupported; "well" must work."""
        if scenario != "well":
            raise Unsupported(f"this bench can't arrange: {SCENARIOS[scenario]}")

    def alive(self) -> Collection[str]:
        """The names of all machines that really exist on the market now, whatever its API says."""
        raise NotImplementedError

    def creates(self) -> int:
        """How many requests for a new machine have reached the market so far."""
        raise NotImplementedError

    def leaks(self) -> Sequence[str]:
        """Where the key was seen outside its header (URL, body). Raises Unsupported where nobody looks."""
        raise Unsupported("this bench doesn't look at requests")

    def public_key(self) -> str:
        """The SSH key that machines are to let in."""
        return "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMadeUpMadeUpMadeUpMadeUpMadeUpMadeUpMade contract"

    def query(self) -> Mapping[str, Any]:
        """Fields of `OfferQuery` that this market needs to have something on offer."""
        return {}

    def stop_of(self, machine: Machine) -> None:
        """A machine was ended by a check: anything to put away."""

    def close(self) -> None:
        """Put everything away; called after each check."""
