"""Sentences about renting."""

from __future__ import annotations

from gipper.errors import Doubtful, GipperError, NoCapacity, OfferGone, Refused
from gipper.testing.contract.sentence import Broken, Check
from gipper.testing.contract.stage import Stage, holds, needs


def _bears_the_name(stage: Stage) -> None:
    machine = stage.rented()
    holds(bool(machine.id), "the machine has no id")
    holds(machine.name in stage.bench.alive(), f"the market knows no machine {machine.name!r}")


def _is_listed_under_it(stage: Stage) -> None:
    needs(stage.info.appear_s is not None, "appear_s isn't promised")
    machine = stage.rented()
    holds(stage.appeared(machine).name == machine.name, "the list shows it under another name")


def _asks_once(stage: Stage) -> None:
    before = stage.bench.creates()
    stage.rented()
    made = stage.bench.creates() - before
    holds(made == 1, f"{made} requests for a machine reached the market")


def _gone(stage: Stage) -> None:
    _refusal(stage, "rent_offer_gone", OfferGone)


def _full(stage: Stage) -> None:
    _refusal(stage, "rent_no_capacity", NoCapacity)


def _bad_request(stage: Stage) -> None:
    _refusal(stage, "rent_refused_request", Refused, kind="request")


def _bad_account(stage: Stage) -> None:
    _refusal(stage, "rent_refused_account", Refused, kind="account")


def _refusal(stage: Stage, scenario: str, error: type[GipperError], **fields: str) -> None:
    offer, request = stage.offer(), stage.request()
    stage.arrange(scenario)
    stage.fails(lambda: stage.provider.rent(offer, request), error, **fields)
    holds(not stage.bench.alive(), f"a machine exists all the same: {sorted(stage.bench.alive())}")


def _lost_after(stage: Stage) -> None:
    _doubt(stage, "rent_lost_after")


def _unreadable(stage: Stage) -> None:
    _doubt(stage, "rent_unreadable")


def _doubt(stage: Stage, scenario: str) -> None:
    offer, request, before = stage.offer(), stage.request(), stage.bench.creates()
    stage.arrange(scenario)
    stage.fails(lambda: stage.provider.rent(offer, request), Doubtful)
    made = stage.bench.creates() - before
    holds(made == 1, f"{made} requests for a machine reached the market")
    stage.arrange("well")
    holds(request.name in stage.bench.alive(), "the bench made no machine in this scenario")


def _lost_before(stage: Stage) -> None:
    offer, request, before = stage.offer(), stage.request(), stage.bench.creates()
    stage.arrange("rent_lost_before")
    try:
        machine = stage.note(lambda: stage.provider.rent(offer, request))
    except (Doubtful, NoCapacity, OfferGone, Refused):
        made = stage.bench.creates() - before
        holds(made <= 1, f"{made} requests for a machine reached the market")
        return
    raise Broken(f"a machine was returned: {machine.id}")


CHECKS = (
    Check("rent-1", "The machine bears the request's name from the rent on.", _bears_the_name),
    Check("rent-2", "It is in the list, under that name, by appear_s.", _is_listed_under_it),
    Check("rent-3", "A rent sends one request for a machine.", _asks_once),
    Check("rent-4", "An offer that is gone is OfferGone, and nothing was made.", _gone),
    Check("rent-5", "No capacity is NoCapacity, and nothing was made.", _full),
    Check("rent-6", "A refused request is Refused(request), and nothing was made.", _bad_request),
    Check("rent-7", "A refused account is Refused(account), and nothing was made.", _bad_account),
    Check("rent-8", "An answer that was lost is Doubtful, and the create isn't repeated.", _lost_after),
    Check("rent-9", "An answer that can't be read is Doubtful, and the create isn't repeated.", _unreadable),
    Check("rent-10", "A create that never arrived is no machine, and isn't repeated.", _lost_before),
)
