from __future__ import annotations

import sys

import pytest
from support_cli import others

from gipper.errors import ConfigError, PluginError
from gipper.plugins.listing import plugin_rows
from gipper.plugins.registry import Registry

BROKEN = {
    "ImportError": "raise ImportError('no such library')",
    "SyntaxError": "def broken(:",
    "RuntimeError": "raise RuntimeError('boom')",
    "SystemExit": "import sys; sys.exit(0)",
    "AttributeError": "class Q: pass",
}


def fresh() -> Registry:
    return Registry.discover(prefer={}, disabled=())


@pytest.mark.parametrize("error", BROKEN)
def test_d_084_broken_plugin_hides_no_other(install, provider_source, error):
    """A plugin that fails to import is left out with its name and version; the others work."""
    install("gipper-bad", "0.3", providers={"bad": "fake_bad:P"}, modules={"fake_bad": BROKEN[error]})
    install(
        "gipper-acme", folder="b", providers={"acme": "fake_acme:P"}, modules={"fake_acme": provider_source()}
    )
    registry = fresh()
    with pytest.raises(PluginError, match=r"plugin bad 0\.3 \(distribution gipper-bad\)") as refused:
        registry.load_provider("bad")
    assert error in str(refused.value)
    assert registry.load_provider("acme").info.name == "acme"
    assert [(p.distribution, p.version, p.entry) for p in registry.problems] == [("gipper-bad", "0.3", "bad")]


@pytest.mark.parametrize("error", BROKEN)
def test_d_084_broken_team_module_hides_no_other(install, error):
    """A broken module of the second group leaves the good ones in place and is told once."""
    good = "from gipper.api import hookimpl\n@hookimpl\ndef gipper_receipt_written(receipt): pass\n"
    value = "fake_bad:missing" if error == "AttributeError" else "fake_bad"
    install("gipper-bad", plugins={"aaa": value}, modules={"fake_bad": BROKEN[error]})
    install("gipper-good", plugins={"zzz": "fake_good"}, modules={"fake_good": good})
    registry = fresh()
    assert [m.name for m in registry.load_team_plugins()] == ["zzz"]
    assert [m.name for m in registry.load_team_plugins()] == ["zzz"]
    assert [p.entry for p in registry.problems] == ["aaa"]


def test_failure_is_kept_and_told_once(install):
    """A plugin that failed isn't imported again, and its problem is listed once."""
    source = "import sys\nsys.fake_count = getattr(sys, 'fake_count', 0) + 1\nraise ImportError('x')\n"
    install("gipper-bad", providers={"bad": "fake_bad:P"}, modules={"fake_bad": source})
    registry = fresh()
    try:
        for _ in range(3):
            with pytest.raises(PluginError):
                registry.load_provider("bad")
        assert sys.fake_count == 1
        assert len(registry.problems) == 1
    finally:
        del sys.fake_count


def test_only_the_asked_provider_is_imported(install, provider_source):
    """Loading one provider imports no other."""
    install("gipper-acme", providers={"acme": "fake_acme:P"}, modules={"fake_acme": provider_source()})
    install(
        "gipper-other", providers={"other": "fake_other:P"}, modules={"fake_other": provider_source("other")}
    )
    first, second = (fresh().load_provider("acme") for _ in range(2))
    assert first.cls is second.cls
    assert "fake_other" not in sys.modules


def test_keyboard_interrupt_at_import_passes_through(install):
    """Ctrl-C while a plugin is imported isn't taken for the plugin's failure."""
    install("gipper-bad", providers={"bad": "fake_bad:P"}, modules={"fake_bad": "raise KeyboardInterrupt"})
    with pytest.raises(KeyboardInterrupt):
        fresh().load_provider("bad")


def test_d_087_api_99(install, provider_source):
    """A plugin for another API version is refused with both versions, and with nothing else."""
    source = provider_source(
        api=99, replace={"gipper_describe": ""}, extra="    def gipper_future(self): pass\n"
    )
    install("gipper-acme", "9.9", providers={"acme": "fake_acme:P"}, modules={"fake_acme": source})
    registry = fresh()
    with pytest.raises(PluginError, match="needs gipper API 99, this is 1"):
        registry.load_provider("acme")
    (only,) = registry.problems
    assert (only.version, only.hook) == ("9.9", "gipper_provider")


def test_two_registries_do_not_meet(provider_class):
    """What one registry was given, another one doesn't know."""
    one, other = Registry(), Registry()
    one.add_provider(provider_class())
    assert one.provider_names() == ("acme",)
    assert other.provider_names() == ()
    with pytest.raises(ConfigError):
        other.load_provider("acme")


def test_refused_class_leaves_nothing_behind(provider_class):
    """A class that fails its check can't be asked for afterwards; a good one under its name can be added."""
    registry = Registry()
    bad = provider_class(describe=lambda self, nonsense: None)
    with pytest.raises(PluginError, match="no argument 'nonsense'"):
        registry.add_provider(bad)
    assert registry.provider_names() == ()
    registry.add_provider(provider_class())
    with pytest.raises(PluginError, match="already there"):
        registry.add_provider(provider_class())


def test_added_module_is_a_team_plugin(module):
    """A module added by hand is checked and takes part like an installed one."""
    from gipper.api import hookimpl

    registry = Registry()
    registry.add_plugin(module("mine", gipper_receipt_written=hookimpl(lambda receipt: None)))
    assert [(m.name, m.kind) for m in registry.load_team_plugins()] == [("mine", "team")]
    with pytest.raises(PluginError, match="it is a verb"):
        registry.add_plugin(module("bad", gipper_terminate=hookimpl(lambda machine_id: None)))
    assert len(registry.load_team_plugins()) == 1


def test_rows_show_every_state(install, provider_source):
    """The listing shows loaded, failed, contested and disabled plugins, each with its distribution."""
    install("gipper-acme", providers={"acme": "fake_acme:P"}, modules={"fake_acme": provider_source()})
    install("gipper-bad", "0.3", providers={"bad": "fake_bad:P"}, modules={"fake_bad": "import nope_nope"})
    install("gipper-one", providers={"both": "x:P"})
    install("gipper-two", providers={"both": "x:P"})
    install("gipper-off", plugins={"off": "x"})
    registry = Registry.discover(prefer={}, disabled=["off", "local"])
    found = {(r.name, r.distribution): r.state for r in plugin_rows(registry)}
    # Markets may be installed beside the tests.
    states = {key: state for key, state in found.items() if key[0] not in others()}
    assert states == {
        ("acme", "gipper-acme"): "ok",
        ("bad", "gipper-bad"): "failed",
        ("both", "gipper-one"): "conflict",
        ("both", "gipper-two"): "conflict",
        ("local", "gipper-core"): "disabled",
        ("off", "gipper-off"): "disabled",
    }
