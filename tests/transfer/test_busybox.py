"""Both directions on a machine whose tar, find, stat, df and sh are busybox's."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from support_root import as_ordinary_user, need_program

from gipper.errors import TransferError
from gipper.runtime import RealRuntime
from gipper.transfer.download import fetch_stream
from gipper.transfer.inputs import survey
from gipper.transfer.scripts import upload
from gipper.transfer.tarwrite import TarWriter
from gipper.transfer.upload import send_stream
from gipper.values.jobs import Input

APPLETS = ("tar", "find", "stat", "df", "du", "tail", "cut", "mkdir", "wc")


@pytest.fixture
def busybox(tmp_path, open_local):
    """A channel with nothing but busybox on its PATH."""
    real = need_program("busybox")
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


@pytest.mark.parametrize("tar", ["gnu", "busybox"])
def test_modes_arrive_for_an_ordinary_user(tar, open_folder):
    """Without root too, tar keeps each mode whatever the umask; what the job file names is 0755."""
    program = need_program("tar" if tar == "gnu" else "busybox")
    top, up, tools = open_folder / "in", open_folder / "home" / "up", open_folder / "tools"
    (top / "d").mkdir(parents=True)
    for name, mode in (("plain", 0o644), ("d/script", 0o775), ("d/closed", 0o604), ("d", 0o770)):
        (top / name).touch()
        (top / name).chmod(mode)
    for folder in (up.parent, tools):
        folder.mkdir()
    up.parent.chmod(0o777)
    (tools / "tar").symlink_to(program)
    job = [Input(src=str(top), dst="x/y")]
    manifest = survey(job, top, scanner=None, classify=None, progress=None, runtime=RealRuntime()).manifests
    script = upload(str(up), "mark", kib=1, files=1)
    done = subprocess.run(
        ["/bin/sh", "-c", script], input=b"".join(TarWriter(manifest["."]).blocks()), capture_output=True,
        env={"PATH": f"{tools}:{os.environ['PATH']}"}, check=False, cwd="/", **as_ordinary_user(),
    )  # fmt: skip
    assert done.stdout == b"mark 0\n", done.stderr
    modes = {str(p.relative_to(up)): p.stat().st_mode & 0o777 for p in [up, *up.rglob("*")]}
    assert modes == {
        ".": 0o700, "x": 0o755, "x/y": 0o755, "x/y/d": 0o770, "x/y/plain": 0o644,
        "x/y/d/script": 0o775, "x/y/d/closed": 0o604,
    }  # fmt: skip


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
