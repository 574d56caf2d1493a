"""Where a provider's API may be moved to, which hosts may be told its key, and whose addresses are believed."""

from __future__ import annotations

from decimal import Decimal

import attrs
import pytest

from gipper.errors import ConfigError, PluginError, ProviderError
from gipper.http import make_session
from gipper.plugins.answers import elsewhere
from gipper.plugins.context import Context
from gipper.plugins.urls import base_url, key_hosts, on_loopback
from gipper.runtime import RealRuntime
from gipper.values.machines import Address, Machine
from gipper.values.plugins import BaseUrl, ProviderInfo

BASE = BaseUrl(name="ACME_URL", default="https://api.acme.example", hosts=("acme.example",))
INFO = ProviderInfo(name="acme", title="Acme", base_urls=(BASE,))


@attrs.frozen(kw_only=True)
class Table:
    """A provider's settings that can move its API."""

    base_url: str | None = None


@pytest.mark.parametrize(
    ("setting", "told", "expected"),
    [
        (None, None, "https://api.acme.example"),
        (None, "  ", "https://api.acme.example"),
        (None, "http://127.0.0.1:8770/", "http://127.0.0.1:8770"),
        (None, "https://beta.acme.example", "https://beta.acme.example"),
        ("https://proxy.corp.example/acme/", "http://127.0.0.1:1", "https://proxy.corp.example/acme"),
    ],
)
def test_settings_win_then_the_environment_then_the_default(setting, told, expected):
    """The first of settings, environment and default that says something is used, without a last slash."""
    env = {} if told is None else {"ACME_URL": told}
    assert base_url("acme", BASE, Table(base_url=setting), env) == expected


@pytest.mark.parametrize(
    "told",
    ["https://evil.example", "http://api.acme.example", "https://acme.example.evil.example", "ftp://127.0.0.1",
     "https://user:pw@api.acme.example", "nonsense", "https://notacme.example"],
)  # fmt: skip
def test_the_environment_can_t_send_a_key_elsewhere(told):
    """From the environment only loopback and the market's own hosts are taken; the text names the variable."""
    with pytest.raises(ConfigError, match="ACME_URL"):
        base_url("acme", BASE, Table(), {"ACME_URL": told})


def test_a_setting_without_https_is_refused():
    """The settings may name any host, but nothing unencrypted except loopback."""
    with pytest.raises(ConfigError, match="only https"):
        base_url("acme", BASE, Table(base_url="http://proxy.corp.example"), {})


def test_keys_go_to_declared_hosts_only():
    """A header with a key goes to the market's hosts, to the host of the settings, and nowhere else."""
    hosts = key_hosts(INFO, Table(base_url="https://proxy.corp.example"))
    assert hosts == {"api.acme.example", "acme.example", "proxy.corp.example"}
    assert key_hosts(ProviderInfo(name="x", title="X"), None) is None
    session = make_session(
        provider="acme", runtime=RealRuntime(), redact=lambda t: t.replace("k3y-value", "<redacted>"),
        key_hosts=hosts, secret_headers=("X-Key",),
    )  # fmt: skip
    for headers in ({"Authorization": "Bearer x"}, {"x-key": "1"}, {"Odd": "k3y-value"}):
        with pytest.raises(ProviderError, match="not a host of this market"):
            session.get("https://store.elsewhere.example/log", headers=headers)


def test_a_context_knows_only_declared_urls(tmp_path, keys):
    """A plugin gets the URLs that its info declares; another name is the plugin's mistake."""
    other = BaseUrl(name="ACME_GRAPH_URL", default="https://graph.acme.example", setting="graph_url")
    info = attrs.evolve(INFO, base_urls=(BASE, other))
    env = {"ACME_URL": "http://127.0.0.1:9"}
    context = Context(info, Table(), RealRuntime(), tmp_path, keys(), object, env=env)
    assert context.base_url() == "http://127.0.0.1:9"
    assert context.base_url("ACME_GRAPH_URL") == "https://graph.acme.example"
    with pytest.raises(PluginError, match="OTHER_URL"):
        context.base_url("OTHER_URL")


def test_only_a_market_on_loopback_may_have_machines_there():
    """All of a provider's APIs must be on loopback before its machines may be this computer."""
    other = BaseUrl(name="ACME_GRAPH_URL", default="https://graph.acme.example")
    both = attrs.evolve(INFO, base_urls=(BASE, other))
    here = {"ACME_URL": "http://127.0.0.1:9"}
    assert on_loopback(INFO, None, here)
    assert not on_loopback(INFO, None, {})
    assert not on_loopback(both, None, here)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.9.9.9", "::1", "localhost", "0.0.0.0", "::", "::ffff:127.0.0.1", "::ffff:0.0.0.0"],
)
def test_a_market_far_away_can_t_have_us_log_in_to_ourselves(host):
    """Addresses that end on this computer are dropped, the others stay in their order."""
    far = Address(host="203.0.113.5", port=22)
    given = Machine(
        provider="acme", id="1", name="n", usd_h=Decimal(1), addresses=(Address(host=host, port=22), far)
    )
    assert elsewhere(given).addresses == (far,)
