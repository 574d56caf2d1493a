"""Sentences about money and secrets."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Final

from gipper.errors import GipperError
from gipper.testing.contract.sentence import Broken, Check
from gipper.testing.contract.stage import Stage, holds, needs
from gipper.testing.sim import SimRuntime

_HOUR: Final = timedelta(hours=1)


def _bills_grow(stage: Stage) -> None:
    runtime = stage.bench.runtime
    needs(isinstance(runtime, SimRuntime), "time isn't simulated, so that no bill would grow")
    since = runtime.now() - _HOUR
    machine = stage.ready(stage.rented())
    sums = []
    for _ in range(4):
        runtime.sleep(3600.0)
        sums.append(_billed(stage, machine.id, since))
    holds(sums == sorted(sums), f"they shrank: {sums}")
    holds(sums[-1] > 0, "nothing was ever billed for a machine that ran for hours")


def _billed(stage: Stage, machine_id: str, since: object) -> Decimal:
    now = stage.bench.runtime.now()
    try:
        found = stage.provider.billed(since, now + _HOUR)  # type: ignore[arg-type]
    except GipperError as error:
        raise Broken(error.message) from error
    holds(found is not None, "the hook is there, and says that the market has no bills")
    return sum((b.usd for b in found or () if b.machine_id == machine_id), Decimal(0))


def _no_bills_before(stage: Stage) -> None:
    now = stage.bench.runtime.now()
    found = stage.note(lambda: stage.provider.billed(now - 72 * _HOUR, now - 48 * _HOUR))
    holds(not found, f"charges for days before the first machine: {found}")


def _account(stage: Stage) -> None:
    found = stage.note(stage.provider.account)
    figures = () if found is None else (found.credit_usd, found.usd_h, found.limit_usd)
    odd = [f for f in figures if f is not None and not isinstance(f, Decimal)]
    holds(not odd, f"{odd} are no dollars")


def _account_fails(stage: Stage) -> None:
    stage.arrange("account_fails")
    stage.must_fail(stage.provider.account)


def _no_key_is_told(stage: Stage) -> None:
    key = stage.bench.key
    needs(bool(key and stage.info.key_names), "the provider needs no key")
    machine = stage.rented()
    stage.described(machine.id)
    stage.listed()
    for scenario in ("offers_fail", "key_refused"):
        _try(stage, scenario)
    shown = [text for text in (*stage.told, repr(stage.provider)) if key in text]  # type: ignore[operator]
    holds(not shown, f"it stands in: {shown[0][:200] if shown else ''}")


def _try(stage: Stage, scenario: str) -> None:
    from gipper.testing.contract.bench import Unsupported

    try:
        stage.arrange(scenario)
    except Unsupported:
        return
    for ask in (stage.listing, stage.listed):
        try:
            ask()
        except GipperError:
            continue


def _no_key_goes_astray(stage: Stage) -> None:
    machine = stage.rented()
    stage.described(machine.id)
    stage.listed()
    stage.provider.terminate(machine.id)
    leaks = stage.bench.leaks()
    holds(not leaks, f"it was seen in {leaks[:3]}")


CHECKS = (
    Check(
        "bills-1",
        "What is billed for a machine grows while it runs, and never shrinks.",
        _bills_grow,
        "gipper_billed",
    ),
    Check(
        "bills-2", "Nothing is billed for a time before the first machine.", _no_bills_before, "gipper_billed"
    ),
    Check("account-1", "Figures of the account are dollars, or unknown.", _account, "gipper_account"),
    Check(
        "account-2", "An account that can't be read is an error, never 0.", _account_fails, "gipper_account"
    ),
    Check("secret-1", "The key stands in no error, no machine and no repr.", _no_key_is_told),
    Check("secret-2", "The key travels in a header and nowhere else.", _no_key_goes_astray),
)
