from __future__ import annotations

from decimal import Decimal

import pytest

from gipper.api import BadHost, CheckResult, CostAdjustment, Machine, Offer, Phases, hookimpl
from gipper.errors import PluginError

PHASES = Phases(ready=1, setup=1, upload=1, fetch=1, compute=1, download=1)
BLAME = r"plugin acme 1\.2 \(distribution gipper-acme\): "


def machine() -> Machine:
    return Machine(provider="acme", id="m1", name="n")


def good(i) -> Offer:
    return Offer(provider="acme", id=f"o{i}", usd_h=Decimal("1"))


def boom(error):
    def verb(self):
        raise error

    return verb


def collecting(module, name, hook, function):
    return module(name, **{hook: hookimpl(function)})


def test_exclusions_carry_plugin_and_reason(make_provider, module, job):
    """Each plugin's reasons are kept apart, in the order built-in, provider, team, job."""
    hook = "gipper_exclude_offers"
    provider = make_provider(
        exclude_offers=lambda self, offers: {offers[0].id: "own"},
        builtin=[collecting(module, "b", hook, lambda: None)],
        team=[collecting(module, "t", hook, lambda job: {"o1": f"not for {job.name}", "o2": "no"})],
        job=[collecting(module, "j", hook, lambda offers: {})],
    )
    found = provider.exclude_offers([good(1), good(2)], job)
    assert found == {"o1": (("acme", "own"), ("t", "not for t")), "o2": (("t", "no"),)}


@pytest.mark.parametrize("answer", [["o1"], {"o1": ""}, {"o1": None}, {1: "x"}, "o1"])
def test_nonsense_exclusion_ends_planning(make_provider, module, job, answer):
    """An exclusion that isn't id to reason raises PluginError with the plugin's name (exit 4)."""
    team = [collecting(module, "t", "gipper_exclude_offers", lambda: answer)]
    with pytest.raises(PluginError, match=r"plugin t 3\.0 .*gipper_exclude_offers") as caught:
        make_provider(team=team).exclude_offers([good(1)], job)
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("hook", ["gipper_exclude_offers", "gipper_adjust_costs"])
def test_error_in_a_collect_hook_is_blamed(make_provider, module, job, hook):
    """An exception in exclude or adjust becomes a PluginError that names plugin and hook."""

    def bad():
        raise KeyError("oops")

    provider = make_provider(team=[collecting(module, "t", hook, bad)])
    with pytest.raises(
        PluginError, match=rf"plugin t 3\.0 \(distribution gipper-t\): {hook} raised KeyError"
    ):
        if hook == "gipper_exclude_offers":
            provider.exclude_offers([good(1)], job)
        else:
            provider.adjust_costs([good(1)], job, {"o1": PHASES})


def test_adjustments_add_up_in_order(make_provider, module, job):
    """Adjustments of several plugins for one offer are kept one after the other."""
    fee, tax = CostAdjustment(label="fee", usd=0.5), CostAdjustment(label="tax", factor=1.2)
    provider = make_provider(
        adjust_costs=lambda self, phases: {"o1": [fee]} if phases["o1"] is PHASES else {},
        team=[collecting(module, "t", "gipper_adjust_costs", lambda offers: {"o1": (tax,), "o2": ()})],
    )
    assert provider.adjust_costs([good(1)], job, {"o1": PHASES}) == {"o1": (fee, tax), "o2": ()}


@pytest.mark.parametrize(
    "value",
    [
        CostAdjustment(label=""), CostAdjustment(label=" "), CostAdjustment(label=None),
        CostAdjustment(label="x", usd=float("nan")), CostAdjustment(label="x", factor=float("inf")),
        CostAdjustment(label="x", factor=-1.0), CostAdjustment(label="x", usd="1"),
        CostAdjustment(label="x", usd=True), CostAdjustment(label="x", usd=Decimal(1)), 0.5,
    ],
)  # fmt: skip
def test_senseless_adjustment_is_refused(make_provider, module, job, value):
    """A correction without a label or with a number that is none ends planning with blame."""
    team = [collecting(module, "t", "gipper_adjust_costs", lambda: {"o1": [value]})]
    with pytest.raises(PluginError, match=r"plugin t 3\.0 .*'o1'"):
        make_provider(team=team).adjust_costs([good(1)], job, {})


def test_plugins_can_t_change_the_phases(make_provider, module, job):
    """The phases that a plugin is shown can't be altered for the next one."""

    def meddle(phases):
        phases.clear()

    team = [collecting(module, "t", "gipper_adjust_costs", meddle)]
    phases = {"o1": PHASES}
    with pytest.raises(PluginError, match="AttributeError"):
        make_provider(team=team).adjust_costs([good(1)], job, phases)
    assert phases == {"o1": PHASES}


def check(name, seen, **order):
    def gipper_preflight(remote, job, machine):
        seen.append((name, remote, machine.id))
        return CheckResult(env={"WHO": name})

    return hookimpl(gipper_preflight, **order)


def test_preflight_order_is_fixed(make_provider, module, job):
    """Checks come as built-ins, provider, team, job, whatever tryfirst and trylast say."""
    seen: list[tuple[str, object, str]] = []
    provider = make_provider(
        preflight=lambda self, machine: seen.append(("acme", None, machine.id)),
        builtin=[module("idle", gipper_preflight=check("idle", seen, trylast=True)),
                 module("cuda", gipper_preflight=check("cuda", seen))],
        team=[module("t", gipper_preflight=check("t", seen, tryfirst=True))],
        job=[module("j", gipper_preflight=check("j", seen, tryfirst=True))],
    )  # fmt: skip
    checks = provider.preflight_checks()
    assert [c.name for c in checks] == ["idle", "cuda", "acme", "t", "j"]
    answers = [c.call("remote", job, machine()) for c in checks]
    assert [name for name, _, _ in seen] == ["idle", "cuda", "acme", "t", "j"]
    assert answers[0] == CheckResult(env={"WHO": "idle"}) and answers[2] is None


@pytest.mark.parametrize("answer", [True, {"env": {}}, CheckResult(env={"A": 1}), CheckResult(facts=3)])
def test_nonsense_check_result_is_blamed(make_provider, job, answer):
    """A check must answer a CheckResult whose environment is text."""
    (only,) = make_provider(preflight=lambda self: answer).preflight_checks()
    with pytest.raises(PluginError, match=f"{BLAME}gipper_preflight returned"):
        only.call("remote", job, machine())


def test_verdicts_come_through_and_bugs_are_blamed(make_provider, job):
    """BadHost is the check's word; any other exception is the plugin's fault and named so."""
    (bad,) = make_provider(preflight=boom(BadHost("no gpu"))).preflight_checks()
    with pytest.raises(BadHost, match="no gpu"):
        bad.call("remote", job, machine())
    (bug,) = make_provider(preflight=boom(TypeError("x"))).preflight_checks()
    with pytest.raises(PluginError, match=f"{BLAME}gipper_preflight raised TypeError: x"):
        bug.call("remote", job, machine())


def test_one_module_in_two_places_runs_once(make_provider, module, job):
    """The same module given as team's and as job's takes part once, in its first place."""
    seen: list[tuple[str, object, str]] = []
    twice = module("t", gipper_preflight=check("t", seen))
    assert [c.name for c in make_provider(team=[twice], job=[twice]).preflight_checks()] == ["t"]
