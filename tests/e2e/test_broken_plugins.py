"""Broken plugins beside each other: local works, and each is named with what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support_cli import World, distribution, others

GOOD_HOOK = "from gipper.api import hookimpl\n\n\n@hookimpl\n"
BROKEN = {
    "gipper-boom": ("boom", "raise RuntimeError('no such library')\n", None, "no such library"),
    "gipper-typo": ("typo", GOOD_HOOK + "def gipper_adjust_cost(offers, job, phases):\n    return {}\n",
                    "gipper_adjust_cost", "gipper_adjust_costs"),
    "gipper-args": ("args", GOOD_HOOK + "def gipper_exclude_offers(offers, jobs):\n    return {}\n",
                    "gipper_exclude_offers", "jobs"),
    "gipper-exits": ("exits", "import sys\nsys.exit(3)\n", None, "SystemExit"),
}  # fmt: skip
TWIN = """
from gipper.api import ProviderInfo, hookimpl


class Twin:
    @staticmethod
    @hookimpl
    def gipper_provider():
        return ProviderInfo(name="twin", title="Twin")
"""


@pytest.fixture(scope="module")
def crowded(shared: World) -> World:
    """A user with all broken plugins installed."""
    site = shared.home / "site"
    for name, (module, text, _hook, _cause) in BROKEN.items():
        distribution(site, name, {f"p_{module}": text}, {"gipper.plugins": {module: f"p_{module}"}})
    for name in ("gipper-twin-a", "gipper-twin-b"):
        module = name.replace("-", "_")
        distribution(site, name, {module: TWIN}, {"gipper.providers": {"twin": f"{module}:Twin"}})
    shared.env["PYTHONPATH"] = str(site)
    return shared


def test_local_works_beside_broken_plugins(crowded: World) -> None:
    """`gipper pod run` on local succeeds, and tells each broken plugin once."""
    done = crowded.gipper("pod", "run", crowded.job("mkdir out; echo hi > out/a"))
    assert done.code == 0, done.all
    assert crowded.out("a").read_text() == "hi\n"
    for name in BROKEN:
        assert done.err.count(name) == 1, f"{name} in:\n{done.err}"
    assert "Traceback" not in done.all


def test_gipper_plugins_names_each_with_its_cause(crowded: World) -> None:
    """Distribution, version, hook and cause of each; the two that claim one name are both named."""
    done = crowded.gipper("plugins", "--json")
    assert done.code == 0, done.all
    problems = {p["distribution"]: p for p in json.loads(done.out)["problems"]}
    for name, (_module, _text, hook, cause) in BROKEN.items():
        assert problems[name]["version"] == "1.2.3"
        assert hook is None or problems[name]["hook"] == hook
        assert cause in problems[name]["cause"], problems[name]
    contested = [p for d, p in problems.items() if "gipper-twin-a" in d and "gipper-twin-b" in d]
    assert len(contested) == 1 and "plugins.prefer" in contested[0]["cause"] + str(contested[0]), problems
    table = crowded.gipper("plugins")
    for name in (*BROKEN, "gipper-twin-a", "gipper-twin-b"):
        assert name in table.out


def test_ls_and_reap_work_beside_broken_plugins(crowded: World) -> None:
    """Looking after machines isn't stopped by plugins that are broken."""
    assert crowded.gipper("pod", "ls").code == 0
    assert crowded.gipper("pod", "reap").code == 0


def test_a_disabled_plugin_is_not_told(crowded: World) -> None:
    """GIPPER_DISABLED_PLUGINS silences a broken one."""
    off = ",".join([*BROKEN, "twin", *others()])
    done = crowded.gipper(
        "pod", "run", "--dry-run", crowded.job("true"), env={"GIPPER_DISABLED_PLUGINS": off}
    )
    assert done.code == 0 and "left out" not in done.err, done.all
    assert Path(crowded.home).exists()
