"""Installed plugins of a team that touch no provider: checks alone, a policy on renting, a forbidden wrap."""

from __future__ import annotations

import json

import pytest
from support_cli import World, distribution

CHECKS = """
from gipper.api import CheckResult, hookimpl


@hookimpl
def gipper_preflight(remote):
    return CheckResult(facts={"kernel": remote.ask("uname -s").text}, env={"TEAM_CHECKED": "yes"})
"""
POLICY = """
from decimal import Decimal

from gipper.api import Refused, hookimpl

MOST_USD_H = Decimal(2)


@hookimpl(wrapper=True)
def gipper_rent(offer):
    if offer.usd_h > MOST_USD_H:
        raise Refused(f"the team pays at most ${MOST_USD_H}/h", kind="offer")
    return (yield)
"""
WRAPS_TERMINATE = """
from gipper.api import hookimpl


@hookimpl(wrapper=True)
def gipper_terminate(machine_id):
    return (yield)
"""
# The local market behind a second price list: the dear offer looks best, the cheap one is next.
TWO_PRICES = """
from decimal import Decimal

import attrs

from gipper.api import hookimpl


@hookimpl(wrapper=True)
def gipper_list_offers(query):
    found = yield
    one = found.items[0]
    dear = attrs.evolve(one, id="dear", usd_h=Decimal("2.50"), host_id=None, reliability=1.0)
    cheap = attrs.evolve(one, id="cheap", usd_h=Decimal("1.50"), host_id=None)
    return attrs.evolve(found, items=(dear, cheap))


@hookimpl
def gipper_adjust_costs(offers):
    from gipper.api import CostAdjustment

    return {"cheap": [CostAdjustment(label="so that the dear one comes first", usd=0.1)]}
"""


def install(user: World, **modules: str) -> None:
    """One distribution for each module, called gipper-NAME."""
    site = user.home / "site"
    for name, text in modules.items():
        distribution(
            site, f"gipper-{name}", {f"team_{name}": text}, {"gipper.plugins": {name: f"team_{name}"}}
        )
    user.env["PYTHONPATH"] = str(site)


def test_a_plugin_of_checks_alone(user: World) -> None:
    """Its check has a receipt under its name, its environment reaches the job, the run names its version."""
    install(user, checks=CHECKS)
    done = user.gipper("pod", "run", user.job("mkdir out; echo $TEAM_CHECKED > out/a"))
    assert done.code == 0 and user.out("a").read_text() == "yes\n", done.all
    (check,) = [r for r in user.receipts("preflight") if r["check"] == "checks"]
    assert check["verdict"] == "passed" and check["facts"] == {"kernel": "Linux"}
    assert user.receipts("run.start")[0]["plugins"]["checks"] == "gipper-checks 1.2.3"


def test_a_policy_refuses_dear_offers_and_the_run_goes_on(user: World) -> None:
    """Over $2/h nothing is created: the best offer is refused before the market is asked, the next one runs."""
    install(user, policy=POLICY, prices=TWO_PRICES)
    done = user.gipper("pod", "run", user.job("mkdir out; echo hi > out/a"))
    assert done.code == 0 and user.out("a").read_text() == "hi\n", done.all
    assert [r["offer"] for r in user.receipts("pod.intent")] == ["dear", "cheap"]
    (failed,) = user.receipts("pod.create_failed")
    assert "at most $2/h" in str(dict(failed.payload)) and "pod.create_doubtful" not in user.kinds()
    assert user.kinds().count("pod.create") == 1


def test_a_policy_that_refuses_all_is_exit_3(user: World) -> None:
    """Where every offer is too dear nothing is rented, and no machine is in doubt."""
    install(user, policy=POLICY)
    user.settings(provider={"local": {"usd_h": 2.5}})
    done = user.gipper("pod", "run", user.job("true"))
    assert done.code == 3 and "at most $2/h" in done.err, done.all
    assert "pod.create" not in user.kinds() and user.gipper("pod", "reap").code == 0


@pytest.mark.parametrize("verb", ["terminate", "describe", "list_ours", "billed"])
def test_a_plugin_that_wraps_another_verb_is_refused_by_name(user: World, verb: str) -> None:
    """It is left out, told with distribution, version and hook; runs and teardown go on without it."""
    argument = {"list_ours": "", "billed": "since"}.get(verb, "machine_id")
    text = WRAPS_TERMINATE.replace("gipper_terminate(machine_id)", f"gipper_{verb}({argument})")
    install(user, grip=text)
    shown = json.loads(user.gipper("plugins", "--json").out)
    (problem,) = shown["problems"]
    assert (problem["distribution"], problem["version"]) == ("gipper-grip", "1.2.3")
    assert problem["hook"] == f"gipper_{verb}" and "without wrappers" in problem["cause"]
    if verb == "terminate":
        done = user.gipper("pod", "run", user.job("mkdir out && echo hi > out/x"))
        assert done.code == 0 and "gipper_terminate" in done.err and "gipper-grip" in done.err, done.all
        user.sound()
