"""Sentences about the class itself, and about offers."""

from __future__ import annotations

from decimal import Decimal

from gipper.errors import GipperError, KeyMissing, ProviderError
from gipper.testing.contract.sentence import Broken, Check
from gipper.testing.contract.stage import Stage, holds, needs, staged


def _plain_info(stage: Stage) -> None:
    first, second = (stage.bench.provider_class.gipper_provider() for _ in range(2))  # type: ignore[attr-defined]
    holds(first == second, "two calls describe the provider differently")
    holds(first == stage.info, "core was told something else")


def _names_a_missing_key(stage: Stage) -> None:
    names = stage.info.key_names
    needs(bool(names), "the provider needs no key")
    with staged(type(stage.bench)(stage.bench.folder / "keyless"), without_key=True) as keyless:
        error = keyless.fails(keyless.listed, KeyMissing)
    holds(any(name in error.message for name in names), f"the message is {error.message!r}")


def _something(stage: Stage) -> None:
    listing = stage.listing()
    holds(bool(listing.items), "the listing is empty")
    ids = [offer.id for offer in listing]
    holds(len(set(ids)) == len(ids), "an id stands there twice")
    bad = [
        o.id for o in listing if not isinstance(o.usd_h, Decimal) or not o.usd_h.is_finite() or o.usd_h < 0
    ]
    holds(not bad, f"the price of {bad} is no amount of dollars")


def _nothing_dropped(stage: Stage) -> None:
    dropped = [
        note
        for note in stage.listing().notes
        if "left out: price is no amount" in note or "id given twice" in note
    ]
    holds(not dropped, f"core had to leave offers out: {dropped}")


def _places(stage: Stage) -> None:
    odd = {o.region for o in stage.listing() if o.region and not (len(o.region) == 2 and o.region.isupper())}
    holds(not odd, f"the regions {sorted(odd)} are no ISO 3166 alpha-2 codes")


def _disk_in_the_price(stage: Stage) -> None:
    small = {o.id: o.usd_h for o in stage.listing(disk_gb=40.0)}
    large = {o.id: o.usd_h for o in stage.listing(disk_gb=200.0)}
    cheaper = [key for key in small.keys() & large.keys() if large[key] < small[key]]
    holds(not cheaper, f"200 GB cost less than 40 GB at {cheaper}")
    holds(bool(small.keys() & large.keys()), "no offer stands in both listings")


def _fails(stage: Stage) -> None:
    stage.arrange("offers_fail")
    stage.must_fail(stage.listing)


def _garbage(stage: Stage) -> None:
    stage.arrange("offers_garbage")
    stage.must_fail(stage.listing)


def _empty(stage: Stage) -> None:
    stage.arrange("offers_empty")
    try:
        listing = stage.listing()
    except GipperError as error:
        raise Broken(f"it was {type(error).__name__}: {error.message}") from error
    holds(not listing.items, f"{len(listing)} offers were listed")


def _refused_key(stage: Stage) -> None:
    needs(not stage.info.keyless_offers, "offers are listed without a key")
    stage.arrange("key_refused")
    stage.must_fail(stage.listing)


def _adjusted(stage: Stage) -> None:
    from gipper.values.estimates import Phases
    from gipper.values.jobs import Job, RunTable

    offers = stage.listing().items
    phases = Phases(ready=60.0, setup=0.0, upload=30.0, fetch=0.0, compute=600.0, download=30.0)
    job = Job(name="contract", run=RunTable(command="true"), folder=stage.bench.folder)
    try:
        found = stage.provider.adjust_costs(offers, job, {o.id: phases for o in offers})
    except ProviderError as error:
        raise Broken(error.message) from error
    except GipperError as error:
        raise Broken(error.message) from error
    strange = found.keys() - {o.id for o in offers}
    holds(not strange, f"adjustments for offers that weren't asked about: {sorted(strange)}")
    holds(all(a.label.strip() for lines in found.values() for a in lines), "an adjustment has no label")


CHECKS = (
    Check("info-1", "The class describes itself the same at each call.", _plain_info),
    Check("info-2", "A key that isn't set is told by the name of its variable.", _names_a_missing_key),
    Check("offers-1", "Offers have ids of their own and prices that are dollars.", _something),
    Check("offers-2", "No offer has to be left out by core for its id or price.", _nothing_dropped),
    Check("offers-3", "A region is an ISO 3166 alpha-2 code, or None where it isn't known.", _places),
    Check("offers-4", "The price holds the disk asked for: more disk never costs less.", _disk_in_the_price),
    Check("offers-5", "A market that fails is an error, never an empty listing.", _fails),
    Check("offers-6", "An answer that can't be read is an error, never an empty listing.", _garbage),
    Check("offers-7", "A market that has nothing gives an empty listing, no error.", _empty),
    Check("offers-8", "A key that is refused is an error, never an empty listing.", _refused_key),
    Check(
        "costs-1",
        "Adjustments are labelled, and for offers that were asked about.",
        _adjusted,
        "gipper_adjust_costs",
    ),
)
