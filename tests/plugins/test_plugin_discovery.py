from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gipper.errors import ConfigError, PluginError
from gipper.plugins.discover import disabled_names, discover
from gipper.plugins.registry import Registry


def fresh(*, prefer=None, disabled=()):
    return Registry.discover(prefer=prefer or {}, disabled=disabled)


def test_entries_are_known_from_metadata(install, provider_source):
    """A provider's name, value, distribution and version are known without its module being imported."""
    install(
        "gipper-acme", "1.2", providers={"acme": "fake_acme:P"}, modules={"fake_acme": "raise SystemExit(9)"}
    )
    (found,) = [f for f in discover().found if f.name == "acme"]
    assert (found.group, found.value) == ("gipper.providers", "fake_acme:P")
    assert (found.distribution, found.version) == ("gipper-acme", "1.2")
    assert "fake_acme" not in sys.modules


def test_discovery_imports_no_plugin_in_a_fresh_interpreter(install, provider_source):
    """Listing provider names in a new process imports neither the plugins nor gipper's own local one."""
    site = install("gipper-acme", providers={"acme": "fake_acme:P"}, modules={"fake_acme": provider_source()})
    code = (
        "import sys; from gipper.plugins.registry import Registry\n"
        "names = Registry.discover(prefer={}, disabled=()).provider_names()\n"
        "assert 'acme' in names and 'local' in names, names\n"
        "heavy = {'fake_acme', 'gipper.builtin.local', 'paramiko', 'requests', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(site)}, check=True)


def test_d_086_same_plugin_seen_twice(install, provider_source):
    """A distribution that is on the path twice counts once: the first on the path."""
    install("gipper-acme", "1.0", folder="old", providers={"acme": "fake_acme:P"})
    install("gipper_acme", "2.0", folder="new", providers={"acme": "fake_acme:P"},
            modules={"fake_acme": provider_source()})  # fmt: skip
    registry = fresh()
    assert [f.version for f in registry.entries if f.name == "acme"] == ["2.0"]
    assert registry.load_provider("acme").version == "2.0"
    assert registry.problems == ()


@pytest.mark.parametrize("order", [("9.0", "10.0"), ("10.0", "9.0")])
def test_d_086_old_metadata_left_in_one_folder(install, order):
    """Of two metadata folders of one distribution side by side, the higher version counts."""
    for version in order:
        install("gipper-acme", version, providers={"acme": "fake_acme:P"})
    assert [f.version for f in discover().found if f.name == "acme"] == ["10.0"]


def test_d_086_listed_twice_in_both_groups(install, provider_source):
    """An entry that is listed in both groups is loaded once, as what it is."""
    install("gipper-acme", providers={"acme": "fake_acme:P"}, plugins={"acme": "fake_acme:P"},
            modules={"fake_acme": provider_source()})  # fmt: skip
    registry = fresh()
    assert registry.load_provider("acme").info.name == "acme"
    assert registry.load_team_plugins() == ()
    assert registry.problems == ()


def test_one_module_under_two_names_is_loaded_once(install):
    """A module that two entries name takes part once."""
    source = "from gipper.api import hookimpl\n@hookimpl\ndef gipper_receipt_written(receipt): pass\n"
    install("gipper-team", plugins={"a": "fake_team", "b": "fake_team"}, modules={"fake_team": source})
    registry = fresh()
    assert [m.name for m in registry.load_team_plugins()] == ["a"]
    assert registry.problems == ()


@pytest.mark.parametrize("name", ["acme", "gipper-acme", "Gipper_Acme"])
def test_disabled_by_entry_or_distribution(install, name):
    """GIPPER_DISABLED_PLUGINS switches off by the entry's or the distribution's name, and says so."""
    install("gipper-acme", providers={"acme": "fake_acme:P"})
    off = disabled_names({"GIPPER_DISABLED_PLUGINS": f" other , {name}"})
    registry = fresh(disabled=off)
    assert "acme" not in registry.provider_names()
    assert [f.name for f in registry.disabled] == ["acme"]
    with pytest.raises(ConfigError, match="GIPPER_DISABLED_PLUGINS"):
        registry.load_provider("acme")


def test_nothing_is_disabled_by_default():
    """An unset or empty GIPPER_DISABLED_PLUGINS switches nothing off."""
    assert disabled_names({}) == disabled_names({"GIPPER_DISABLED_PLUGINS": " , "}) == frozenset()


def test_damaged_entry_points_hide_nothing_else(install, provider_source):
    """A distribution whose entry points can't be parsed is a problem of its own, nobody else's."""
    install("gipper-bad", entry_points="[gipper.providers]\nnonsense without a sign\n")
    install("gipper-acme", providers={"acme": "fake_acme:P"}, modules={"fake_acme": provider_source()})
    registry = fresh()
    assert registry.load_provider("acme").distribution == "gipper-acme"
    assert [p.distribution for p in registry.problems] == ["gipper-bad"]


@pytest.mark.parametrize("order", [("gipper-one", "gipper-two"), ("gipper-two", "gipper-one")])
def test_d_085_two_plugins_one_name(install, provider_source, order):
    """Two that claim one name: neither is used, both are named, whichever was installed first."""
    for number, distribution in enumerate(order):
        install(distribution, f"1.{distribution[-1]}", folder=f"f{number}",
                providers={"acme": f"fake_{distribution[-3:]}:P"},
                modules={f"fake_{distribution[-3:]}": provider_source()})  # fmt: skip
    install(
        "gipper-other", providers={"other": "fake_other:P"}, modules={"fake_other": provider_source("other")}
    )
    registry = fresh()
    assert "acme" not in registry.provider_names()
    (conflict,) = registry.problems
    assert conflict.distribution == "gipper-one, gipper-two" and conflict.version == "1.e, 1.o"
    assert "gipper-one 1.e and gipper-two 1.o" in conflict.cause
    with pytest.raises(PluginError, match=r"gipper-one 1\.e and gipper-two 1\.o") as refused:
        registry.load_provider("acme")
    assert "prefer" in str(refused.value.hint)
    assert registry.load_provider("other").info.name == "other"
    assert "fake_one" not in sys.modules and "fake_two" not in sys.modules


@pytest.mark.parametrize("winner", ["gipper-one", "gipper-two"])
def test_d_085_prefer_picks(install, provider_source, winner):
    """plugins.prefer picks which distribution has a contested name, and then nothing is wrong."""
    for distribution in ("gipper-one", "gipper-two"):
        install(distribution, folder=distribution, providers={"acme": f"fake_{distribution[-3:]}:P"},
                modules={f"fake_{distribution[-3:]}": provider_source()})  # fmt: skip
    registry = fresh(prefer={"acme": winner.replace("-", "_").upper()})
    assert registry.load_provider("acme").distribution == winner
    assert registry.problems == ()


def test_prefer_that_names_nobody_picks_nobody(install):
    """A preference for a distribution that doesn't claim the name leaves the conflict as it is."""
    for distribution in ("gipper-one", "gipper-two"):
        install(distribution, folder=distribution, providers={"acme": "x:P"})
    assert "acme" not in fresh(prefer={"acme": "gipper-three"}).provider_names()


def test_unknown_provider_is_told_with_the_nearest_and_where_to_look(install):
    """Asking for a provider that isn't there names the nearest installed one, then the list of plugins."""
    install("gipper-acme", providers={"acme": "fake_acme:P"})
    with pytest.raises(ConfigError, match="no provider 'acne' is installed") as refused:
        fresh().load_provider("acne")
    assert "did you mean acme?" in refused.value.hint
    assert "gipper plugins" in refused.value.hint


def test_explicit_path_replaces_sys_path(tmp_path: Path):
    """Discovery on an empty path finds nothing."""
    assert discover(path=[str(tmp_path)]).found == ()
