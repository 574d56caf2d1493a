from __future__ import annotations

import json
import subprocess
import sys

from support_cli import others

from gipper.cli.plugins import show
from gipper.plugins.registry import Registry


def registry(install, provider_source) -> Registry:
    install("gipper-acme", "1.2", providers={"acme": "fake_acme:P"}, modules={"fake_acme": provider_source()})
    bad = provider_source("bad", replace={"gipper_describe": "    def gipper_describe(self): pass\n"})
    install("gipper-bad", "0.3", providers={"bad": "fake_bad:P"}, modules={"fake_bad": bad})
    return Registry.discover(prefer={}, disabled=["local"])


def test_plugins_are_listed_with_hooks_and_problems(install, provider_source, capsys):
    """`gipper plugins` shows name, kind, distribution, version, hooks, state, and then each problem."""
    show(registry(install, provider_source), as_json=False)
    lines = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    words = [[w.strip() for w in line if w.strip()] for line in lines]
    assert words[0] == ["name", "kind", "distribution", "version", "hooks", "state"]
    assert words[1] == [
        "acme", "provider", "gipper-acme", "1.2",
        "describe list_offers list_ours provider rent terminate", "ok",
    ]  # fmt: skip
    assert words[2] == ["bad", "provider", "gipper-bad", "0.3", "-", "failed"]
    assert words[-1][:4] == ["gipper-bad", "0.3", "bad", "gipper_describe"]
    assert "not marked with @hookimpl" in words[-1][4]


def test_json_has_both(install, provider_source, capsys):
    """With --json the plugins and the problems are one object."""
    show(registry(install, provider_source), as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert {p["name"]: p["state"] for p in told["plugins"] if p["name"] not in others()} == {
        "acme": "ok",
        "bad": "failed",
        "local": "disabled",
    }
    assert [(p["plugin"], p["hook"]) for p in told["problems"]] == [("bad", "gipper_describe")]


def test_nothing_wrong_prints_no_second_table(provider_class, capsys):
    """Without problems there is one table only."""
    quiet = Registry()
    quiet.add_provider(provider_class())
    show(quiet, as_json=False)
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_a_plugin_adds_commands_to_the_command_line(install, tmp_path):
    """A word that gipper doesn't know is looked for among the team's plugins, in a real process."""
    source = (
        "import click\nfrom gipper.api import hookimpl\n"
        "@click.command()\ndef hello(): click.echo('hello from a plugin')\n"
        "@hookimpl\ndef gipper_commands(group): group.add_command(hello)\n"
    )
    bad = "from gipper.api import hookimpl\n@hookimpl\ndef gipper_commands(group): raise ValueError('oops')\n"
    install("gipper-bad", "0.3", plugins={"bad": "fake_bad"}, modules={"fake_bad": bad})
    site = install("gipper-team", plugins={"team": "fake_team"}, modules={"fake_team": source})
    env = {"PYTHONPATH": str(site), "GIPPER_DATA": str(tmp_path / "d"), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "gipper", "hello"], env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "hello from a plugin\n"), done.stderr
    assert done.stderr.count("plugin bad 0.3 (distribution gipper-bad)") == 1
