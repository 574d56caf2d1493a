"""Both directions on a machine whose tar, find, stat, df and sh are busybox's."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gipper.errors import TransferError
from gipper.transfer.download import fetch_stream
from gipper.transfer.inputs import survey
from gipper.transfer.upload import send_stream
from gipper.values.jobs import Input

APPLETS = ("tar", "find", "stat", "df", "du", "tail", "cut", "mkdir", "wc")


@pytest.fixture
def busybox(tmp_path, open_local):
    """A channel with nothing but busybox on its PATH."""
    real = shutil.which("busybox")
    if real is None:
        assert not os.environ.get("CI"), "busybox must be installed in CI"
        pytest.skip("no busybox here")
    folder = tmp_path / "busybox"
    folder.mkdir()
    for name in APPLETS:
        (folder / name).symlink_to(real)
    return lambda script: open_local(script, env={"PATH": str(folder)})


@pytest.fixture
def top(tmp_path) -> Path:
    where = tmp_path / "in"
    (where / "d" / ("n" * 120)).mkdir(parents=True)
    (where / "d" / ("n" * 120) / "é - x").write_bytes(b"1" * 70_000)
    (where / "empty").mkdir()
    (where / "f").write_bytes(b"2")
    (where / "f").chmod(0o750)
    (where / "l").symlink_to("f")
    return where


def manifest(top: Path, runtime):
    found = survey(
        [Input(src=str(top), dst=".")], top, scanner=None, classify=None, progress=None, runtime=runtime
    )
    return found.manifests["."]


def test_a_tree_goes_up_twice_and_comes_back(tmp_path, busybox, runtime, top, see):
    """Names, modes, times, links and empty folders survive; sending again overwrites."""
    for _ in range(2):
        send_stream(busybox, manifest(top, runtime), f"{tmp_path}/up", runtime=runtime)
    fetched = fetch_stream(busybox, str(tmp_path), "up", tmp_path / "down", runtime=runtime)
    assert fetched.whole
    assert see(tmp_path / "up") == see(top) == see(tmp_path / "down")


def test_one_file_comes_back(tmp_path, busybox, runtime, top):
    """A file, also through a link, becomes the destination."""
    for source in ("f", "l"):
        fetched = fetch_stream(busybox, str(top), source, tmp_path / "got", runtime=runtime)
        assert fetched.whole
        assert (tmp_path / "got").read_bytes() == b"2"
        (tmp_path / "got").unlink()


def test_a_full_disk_is_told(busybox, runtime, tmp_path, small_disk):
    """busybox's df is understood before, its tar's complaint on the way."""
    (tmp_path / "big").mkdir()
    (tmp_path / "big" / "f").write_bytes(os.urandom(9_000_000))
    with pytest.raises(TransferError, match="no space: "):
        send_stream(busybox, manifest(tmp_path / "big", runtime), f"{small_disk}/up", runtime=runtime)
    (tmp_path / "busybox" / "df").unlink()
    with pytest.raises(TransferError, match="disk is full"):
        send_stream(busybox, manifest(tmp_path / "big", runtime), f"{small_disk}/up", runtime=runtime)


def test_a_file_that_changes_is_noticed(tmp_path, busybox, runtime, top):
    """Without a word from tar, the states before and after tell."""

    class Grows:
        """Lengthens one file at the first read."""

        def __init__(self, inner) -> None:
            self.inner = inner

        def read(self, n: int) -> bytes:
            data = self.inner.read(n)
            with open(top / "d" / ("n" * 120) / "é - x", "ab") as file:
                file.write(b"more")
            return data

        def __getattr__(self, name: str):
            return getattr(self.inner, name)

    fetched = fetch_stream(lambda s: Grows(busybox(s)), str(top), "d", tmp_path / "down", runtime=runtime)
    assert fetched.changed == ("n" * 120 + "/é - x",)
