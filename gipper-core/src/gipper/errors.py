"""Every error that gipper raises on purpose, each with the exit code that it ends the command with.

A message says what happened, to which run, machine and money; ``hint`` is what to type next.
"""

from __future__ import annotations

from typing import Literal

RefusedKind = Literal["request", "account", "offer"]
ConnectKind = Literal["unreachable", "auth", "host_key", "protocol"]


class GipperError(Exception):
    """Base of all expected errors; shown as ``message`` and ``hint``, never as a traceback."""

    exit_code = 4

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ConfigError(GipperError):
    """Wrong use, job file, settings, keys or data folder: nothing was rented."""

    exit_code = 2


class ProblemsError(ConfigError):
    """Several mistakes of one file, reported together, one line each."""

    def __init__(self, title: str, problems: tuple[str, ...], *, hint: str | None = None) -> None:
        super().__init__("\n".join([title, *(f"  {p}" for p in problems)]), hint=hint)
        self.problems = problems


class LedgerError(ConfigError):
    """The ledger is damaged, newer than this gipper, or can't be written: renting is refused."""


class NoOffer(GipperError):
    """No offer fits the job, or every host that was tried was bad."""

    exit_code = 3


class CapRefused(GipperError):
    """A cap, a budget or a policy forbids the rent."""

    exit_code = 3


class ProviderError(GipperError):
    """A provider answered with an error, or could not be asked."""


class KeyMissing(ProviderError):
    """The provider's key is not set."""


class PluginError(GipperError):
    """A plugin broke its contract; the message names distribution, version and hook."""


class RentError(ProviderError):
    """Base of the four answers by which a rent says how it ended."""


class OfferGone(RentError):
    """The offer was taken by someone else or withdrawn; nothing was created."""


class NoCapacity(RentError):
    """The market has no machine for this offer now; nothing was created."""


class Refused(RentError):
    """The market refused; nothing was created. ``kind`` says what was at fault."""

    def __init__(self, message: str, *, kind: RefusedKind, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.kind: RefusedKind = kind


class Doubtful(RentError):
    """Nobody knows whether a machine was created: it must be looked for by its name."""


class HostVerdict(GipperError):
    """Base of the two verdicts of a preflight check."""

    exit_code = 3


class BadHost(HostVerdict):
    """The host is broken: it is replaced and the failure counts against it."""


class Unsuitable(HostVerdict):
    """The host works but doesn't suit this job: it is replaced, without blame."""


class RemoteError(GipperError):
    """Something on the rented machine, or on the way to it, failed."""


class ConnectFailed(RemoteError):
    """No address of the machine let us in; ``kind`` is the last and most telling cause."""

    def __init__(self, message: str, *, kind: ConnectKind, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.kind: ConnectKind = kind


class ConnectionLost(RemoteError):
    """An open connection died or stopped answering; a new one must be dialled."""


class CommandTimeout(RemoteError):
    """A remote command did not end within its deadline; it may still be running."""


class TransferError(RemoteError):
    """Files could not be moved (disk full, permission, changed under way); the text says which."""


class Stopped(GipperError):
    """A blocking step was given up because the user asked to stop."""

    exit_code = 130


class NotProvedGone(GipperError):
    """A machine that should be gone is not proved gone: it may still cost money."""

    exit_code = 5
