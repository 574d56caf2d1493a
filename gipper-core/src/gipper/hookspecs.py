"""The hooks: what gipper asks of plugins. Each docstring is that hook's manual.

Verbs (`gipper_list_offers` to `gipper_leftovers`) belong to a provider's class. The other hooks may be
implemented by a provider's class, by modules in the entry-point group `gipper.plugins`, and some by a
job's own hooks file. Arguments are plain positional names; an implementation names only those it uses.
"""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from gipper.markers import hookspec

if TYPE_CHECKING:
    import click

    from gipper.remote import Remote
    from gipper.values.bills import Account, Bill, Diagnosis, KeyCheck, Leftover, Watchdog
    from gipper.values.estimates import CostAdjustment, Phases
    from gipper.values.jobs import Job
    from gipper.values.machines import Machine, RentRequest
    from gipper.values.offers import Listing, Offer, OfferQuery
    from gipper.values.plugins import CheckResult, ProviderInfo
    from gipper.values.receipts import Receipt


@hookspec(firstresult=True)
def gipper_provider() -> ProviderInfo:
    """Describe the provider. A static method, called on the class before anything is built.

    Returns a `ProviderInfo`; it must not read keys, files or the network. Required. Since 1.
    """


@hookspec(firstresult=True)
def gipper_list_offers(query: OfferQuery) -> Listing[Offer]:
    """Everything on the market that may fit `query`; core filters again, so too much does no harm.

    Complete, or raises ProviderError; where the market cuts its answer, `Listing.notes` says so. The
    query's deadline is on the runtime's monotonic clock. `Offer.usd_h` includes the disk asked for.
    Required; may be wrapped by others. Since 1.
    """


@hookspec(firstresult=True)
def gipper_rent(offer: Offer, request: RentRequest) -> Machine:
    """Rent `offer`. From this call on the machine bears `request.name`.

    Returns the `Machine`. Raises OfferGone, NoCapacity or Refused (kind request, account or offer)
    where nothing was created, and Doubtful where nobody knows. Anything else (another exception, None,
    a machine of another name) is Doubtful to core. Never repeats a create by itself. Required; may be
    wrapped by others: a wrapper may refuse before its yield, and must return what it got. Since 1.
    """


@hookspec(firstresult=True)
def gipper_describe(machine_id: str) -> Machine | None:
    """The machine as the market tells of it now; None only on the market's own "not found".

    `addresses` in the order to try. Raises ProviderError where it can't be asked. Required. Since 1.
    """


@hookspec(firstresult=True)
def gipper_list_ours() -> Listing[Machine]:
    """Every machine of this account in any state that may bill, complete over all pages.

    Raises ProviderError rather than leave something out; never empty for an error. Machines of other
    tools may be in it: core goes by the name. Required. Since 1.
    """


@hookspec(firstresult=True)
def gipper_terminate(machine_id: str) -> None:
    """Ask the market to end and delete the machine. Idempotent; returning claims nothing.

    Required. Since 1.
    """


@hookspec(firstresult=True)
def gipper_billed(since: datetime, until: datetime) -> Sequence[Bill] | None:
    """Itemised charges per machine for the window; None where the market has no bills. Optional. Since 1."""


@hookspec(firstresult=True)
def gipper_account() -> Account | None:
    """Credit, spend per hour, limits; unknown stays None. Optional. Since 1."""


@hookspec(firstresult=True)
def gipper_check_key() -> KeyCheck:
    """Whether the key works and may do all that gipper needs; names a missing scope. Optional. Since 1."""


@hookspec(firstresult=True)
def gipper_authorize(machine: Machine, public_key: str) -> None:
    """Let `public_key` log in to `machine`. Idempotent.

    Called at the first describe, when the machine runs, and once on "permission denied". Optional. Since 1.
    """


@hookspec(firstresult=True)
def gipper_watchdog(machine: Machine) -> Watchdog | None:
    """The shell command that ends this one machine from inside, without the client. Optional. Since 1."""


@hookspec(firstresult=True)
def gipper_set_end(machine_id: str, timer_at: datetime) -> None:
    """Set the market's own timer; called once after create, only where rent couldn't. Optional. Since 1."""


@hookspec(firstresult=True)
def gipper_diagnose(machine_id: str) -> Diagnosis | None:
    """Why the machine didn't come up: short provider text and who is at fault. Optional. Since 1."""


@hookspec(firstresult=True)
def gipper_leftovers(machine_id: str) -> Sequence[Leftover]:
    """What still bills after the machine is gone (volumes, addresses). Optional. Since 1."""


@hookspec
def gipper_exclude_offers(offers: Sequence[Offer], job: Job) -> Mapping[str, str] | None:
    """Offer ids to leave out, each with its reason. Called once per market; any reason excludes.

    An error ends planning with the plugin's name; nothing is rented. Since 1.
    """


@hookspec
def gipper_adjust_costs(
    offers: Sequence[Offer], job: Job, phases: Mapping[str, Phases]
) -> Mapping[str, Sequence[CostAdjustment]] | None:
    """Labelled corrections by offer id, for what rate x wall time gets wrong. Called once per market.

    `phases` holds the predicted seconds of each offer. An error ends planning. Since 1.
    """


@hookspec
def gipper_preflight(remote: Remote, job: Job, machine: Machine) -> CheckResult | None:
    """Check the machine before any byte of the job goes up.

    Called one implementation at a time (built-ins, provider, team, job), each with its own time limit
    and receipt; wrappers are refused. Raises BadHost or Unsuitable; may return environment for the
    job. Since 1.
    """


@hookspec
def gipper_classify_upload(path: str, head: bytes) -> str | None:
    """A reason why the input at `path` looks sensitive, or None. `head` is its first MiB at most.

    An error refuses the upload. Since 1.
    """


@hookspec
def gipper_receipt_written(receipt: Receipt) -> None:
    """Watch the ledger. Called for each plugin by itself, outside the ledger's lock, at most 2 s.

    Errors are told and never fatal. Since 1.
    """


@hookspec
def gipper_commands(group: click.Group) -> None:
    """Add commands to `gipper`. Only from the entry-point group `gipper.plugins`. Since 1."""
