from __future__ import annotations

import os
import stat

import pytest

from gipper.errors import ConfigError, KeyMissing, PluginError
from gipper.plugins.context import Context
from gipper.runtime import RealRuntime
from gipper.values.plugins import ProviderInfo


@pytest.fixture
def context(tmp_path, keys):
    def make(make_http=object, folder=None, **values):
        info = ProviderInfo(name="acme", title="A", key_names=("ACME_KEY", "ACME_OTHER"))
        return Context(
            info, "table", RealRuntime(), folder or tmp_path / "d" / "acme", keys(**values), make_http
        )

    return make


def test_building_opens_nothing(context, tmp_path):
    """A new context has read no key, made no folder, and opened no session."""

    def http():
        raise AssertionError("opened")

    made = context(make_http=http)
    assert made.settings == "table" and list(tmp_path.iterdir()) == []
    assert "ACME_KEY" not in repr(made)


def test_data_folder_is_private_whatever_the_umask(context):
    """The folder appears when first asked for, with mode 700, also where it was wider before."""
    made = context()
    before = os.umask(0)
    try:
        folder = made.data_folder
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o755)
    assert stat.S_IMODE(made.data_folder.stat().st_mode) == 0o700


def test_folder_that_can_t_be_made(context, tmp_path):
    """A file in the way is a configuration error that names the folder."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="file/acme"):
        _ = context(folder=tmp_path / "file" / "acme").data_folder


def test_secret_is_the_provider_s_own(context):
    """A provider gets its main key, its other declared keys, and nobody else's."""
    made = context(ACME_KEY="k1", VAST_KEY="k3")
    assert made.secret() == made.secret("ACME_KEY") == "k1"
    with pytest.raises(KeyMissing):
        made.secret("ACME_OTHER")
    with pytest.raises(PluginError, match="VAST_KEY"):
        made.secret("VAST_KEY")


def test_session_is_shared(context):
    """http() makes one session and gives the same one each time."""
    made = context()
    assert made.http() is made.http()
