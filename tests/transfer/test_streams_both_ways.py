"""Uploads and downloads through a real shell and a real tar, with full disks, cuts and restless files."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gipper.errors import ConnectionLost, Stopped, TransferError
from gipper.runtime import RealRuntime
from gipper.transfer.download import fetch_stream
from gipper.transfer.inputs import survey
from gipper.transfer.staging import PREFIX
from gipper.transfer.upload import send_stream
from gipper.values.jobs import Input


def manifest(top: Path):
    found = survey(
        [Input(src=str(top), dst=".")], top, scanner=None, classify=None, progress=None, runtime=RealRuntime()
    )
    return found.manifests["."]


def fill(top: Path, files: int = 20, size: int = 5000) -> None:
    for n in range(files):
        (top / f"d{n % 3}").mkdir(parents=True, exist_ok=True)
        (top / f"d{n % 3}" / f"f{n}").write_bytes(os.urandom(size))


@pytest.fixture
def fake_tar(tmp_path, open_local):
    """A channel on which `tar` is a script of the test; the real one is $REAL."""

    def opener(body: str):
        bin_dir = tmp_path / "bin"
        bin_dir.mkdir(exist_ok=True)
        (bin_dir / "tar").write_text("#!/bin/sh\nREAL=/usr/bin/tar\n" + textwrap.dedent(body))
        (bin_dir / "tar").chmod(0o755)
        env = {**os.environ, "PATH": f"{bin_dir}:{os.environ['PATH']}"}
        return lambda script: open_local(script, env=env)

    return opener


PLAIN = """
    [ "$1" = --version ] && { echo "some other tar"; exit 0; }
"""


def test_a_tree_goes_up_and_comes_back_the_same(tmp_path, open_local, runtime, see):
    """Upload then download gives names, modes, times, links, empty folders and hashes back."""
    top = tmp_path / "in"
    fill(top)
    (top / "empty").mkdir()
    (top / "l").symlink_to("d0/f0")
    (top / "d0/f0").chmod(0o750)
    sent = send_stream(open_local, manifest(top), f"{tmp_path}/a b/'up'", runtime=runtime)
    fetched = fetch_stream(open_local, f"{tmp_path}/a b", "'up'", tmp_path / "down", runtime=runtime)
    assert see(tmp_path / "a b/'up'") == see(top) == see(tmp_path / "down")
    assert (sent.files, sent.bytes, sent.changed) == (20, 100_000, ())
    assert fetched.whole
    assert {(p, s, h) for p, s, h in fetched.files} == {
        (e.path, e.size, e.sha256) for e in manifest(top).entries if e.type == "file"
    }


NAME = st.one_of(
    st.binary(min_size=1, max_size=30), st.text("aé漢 -'\"*\\:$`", min_size=1, max_size=60).map(os.fsencode)
).filter(lambda n: not any(b < 32 or b in (47, 127) for b in n) and n not in (b".", b".."))


@settings(max_examples=20, deadline=None)
@given(
    tree=st.dictionaries(
        st.lists(NAME, min_size=1, max_size=3).map(tuple), st.binary(max_size=600), max_size=6
    )
)
def test_any_tree_without_control_characters_round_trips(tree, open_local_session, see):
    """Names of any other bytes survive both ways."""
    with tempfile.TemporaryDirectory() as here:
        top = Path(here, "in")
        top.mkdir()
        for parts, content in tree.items():
            path = os.path.join(os.fsencode(top), *parts)
            try:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                Path(os.fsdecode(path)).write_bytes(content)
            except OSError:
                continue
        (top / "always").touch()
        send_stream(open_local_session, manifest(top), f"{here}/up", runtime=RealRuntime())
        fetched = fetch_stream(open_local_session, here, "up", Path(here, "down"), runtime=RealRuntime())
        odd = [line for line in fetched.refused if "control" not in line]
        assert not odd
        if not fetched.refused:
            assert see(Path(here, "down")) == see(top)


def test_sending_again_converges(tmp_path, open_local, runtime, see):
    """D-047: an upload cut in the middle and sent again ends with exactly the tree."""
    top = tmp_path / "in"
    fill(top, 60, 50_000)
    with pytest.raises(ConnectionLost):
        send_stream(
            lambda s: open_local(s, cut_after=1_000_000), manifest(top), f"{tmp_path}/up", runtime=runtime
        )
    send_stream(open_local, manifest(top), f"{tmp_path}/up", runtime=runtime)
    assert see(tmp_path / "up") == see(top)


def test_a_full_remote_disk_is_told_before_anything_is_sent(tmp_path, open_local, runtime, small_disk):
    """The space check refuses what can't fit, with numbers, and makes no file."""
    top = tmp_path / "in"
    fill(top, 10, 1_000_000)
    with pytest.raises(TransferError, match=r"no space: .* KiB free, .* KiB needed") as caught:
        send_stream(open_local, manifest(top), f"{small_disk}/up", runtime=runtime)
    assert "disk" in caught.value.hint
    assert not any((small_disk / "up").iterdir())


def test_a_disk_that_fills_on_the_way_stops_the_upload_early(tmp_path, runtime, open_local, small_disk):
    """Without a warning beforehand, the first complaint of tar ends the stream long before its end."""
    top = tmp_path / "in"
    fill(top, 20, 10_000_000)
    env = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "df").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bin" / "df").chmod(0o755)
    sent: list[int] = []
    with pytest.raises(TransferError, match="disk is full"):
        send_stream(
            lambda s: open_local(s, env=env),
            manifest(top),
            f"{small_disk}/up",
            runtime=runtime,
            progress=sent.append,
        )
    assert max(sent) < 150_000_000


def test_a_tree_that_is_there_already_needs_no_second_room(tmp_path, open_local, runtime, small_disk, see):
    """Sending 3 MB a second time onto a 4 MiB disk works."""
    top = tmp_path / "in"
    fill(top, 3, 1_000_000)
    for _ in range(2):
        send_stream(open_local, manifest(top), f"{small_disk}/up", runtime=runtime)
    assert see(small_disk / "up") == see(top)


def test_a_base_that_cannot_be_made_is_named(tmp_path, open_local, runtime):
    """The remote's own words come with the error."""
    top = tmp_path / "in"
    fill(top, 1)
    (tmp_path / "file").touch()
    with pytest.raises(TransferError, match="file"):
        send_stream(open_local, manifest(top), f"{tmp_path}/file/up", runtime=runtime)


def test_noise_on_stderr_before_our_start_is_not_an_error(tmp_path, open_local, runtime):
    """What a shell start file says, and times in the future, don't fail an upload."""
    top = tmp_path / "in"
    fill(top, 2)
    os.utime(top / "d0" / "f0", (4_000_000_000, 4_000_000_000))

    def noisy(script: str):
        return open_local("echo 'bash: warning: cannot do it: No space left on device' >&2\n" + script)

    send_stream(noisy, manifest(top), f"{tmp_path}/up", runtime=runtime)


def test_a_volume_that_keeps_no_modes_still_takes_files(tmp_path, fake_tar, runtime):
    """tar's status 2 with nothing but "Cannot change mode" is success; any other 2 is not."""
    top = tmp_path / "in"
    fill(top, 2)
    soft = fake_tar(
        '$REAL "$@"; echo "tar: x: Cannot change mode to rw-------: Operation not permitted" >&2; exit 2'
    )
    send_stream(soft, manifest(top), f"{tmp_path}/up", runtime=runtime)
    for body in (
        '$REAL "$@"; exit 2',
        '$REAL "$@"; echo "tar: x: Cannot open: Permission denied" >&2; exit 2',
    ):
        with pytest.raises(TransferError):
            send_stream(fake_tar(body), manifest(top), f"{tmp_path}/up", runtime=runtime)


def test_status_zero_without_the_mark_is_a_failure(tmp_path, open_local, runtime):
    """A shell that ends with 0 before it ran anything has not unpacked anything."""
    top = tmp_path / "in"
    fill(top, 1)
    with pytest.raises(TransferError):
        send_stream(
            lambda script: open_local("cat >/dev/null; exit 0"), manifest(top), "/nowhere", runtime=runtime
        )


def test_stop_ends_both_directions(tmp_path, open_local, runtime):
    """A raised stop flag gives Stopped, up and down, and leaves no staging folder."""
    top = tmp_path / "in"
    fill(top, 3, 1_000_000)
    stop = runtime.event()
    stop.set()
    with pytest.raises(Stopped):
        send_stream(open_local, manifest(top), f"{tmp_path}/up", runtime=runtime, stop=stop)
    with pytest.raises(Stopped):
        fetch_stream(open_local, str(tmp_path), "in", tmp_path / "down", runtime=runtime, stop=stop)
    assert not list(tmp_path.glob(f"**/{PREFIX}*"))


def test_an_absent_source_is_missing(tmp_path, open_local, runtime):
    """Nothing there, no base there: told in `missing`, nothing made here."""
    for base in (str(tmp_path), f"{tmp_path}/no/such"):
        fetched = fetch_stream(open_local, base, "gone", tmp_path / "down", runtime=runtime)
        assert fetched.missing == ("gone: not there",)
        assert not fetched.whole
    assert not (tmp_path / "down").exists()


def test_a_file_becomes_dest(tmp_path, open_local, runtime):
    """One file, also through a link and in a subfolder, gets the name that was asked for."""
    (tmp_path / "r/sub").mkdir(parents=True)
    (tmp_path / "r/sub/-out: x").write_bytes(b"1")
    (tmp_path / "r/link").symlink_to("sub/-out: x")
    for source in ("sub/-out: x", "link"):
        fetched = fetch_stream(open_local, f"{tmp_path}/r", source, tmp_path / "here/got", runtime=runtime)
        assert (tmp_path / "here/got").read_bytes() == b"1"
        assert [f[0] for f in fetched.files] == ["got"]
        (tmp_path / "here/got").unlink()


def test_an_empty_folder_becomes_an_empty_folder(tmp_path, open_local, runtime):
    """And what was in the destination before stays."""
    (tmp_path / "r/empty").mkdir(parents=True)
    fetched = fetch_stream(open_local, f"{tmp_path}/r", "empty", tmp_path / "down", runtime=runtime)
    assert fetched.whole
    assert list((tmp_path / "down").iterdir()) == []


CHANGING = [
    pytest.param('$REAL "$@"; s=$?; echo "tar: ./d0/f0: file changed as we read it" >&2; exit 1', id="gnu"),
    pytest.param(PLAIN + '$REAL "$@"; s=$?; echo longer >> ./d0/f0; exit $s', id="plain"),
]


@pytest.mark.parametrize("body", CHANGING)
def test_a_file_that_changed_keeps_its_old_version_here(tmp_path, fake_tar, runtime, body):
    """Named in `changed`; the old local version stays, where there is one; the others are renewed."""
    top, down = tmp_path / "in", tmp_path / "down"
    fill(top, 6)
    (down / "d0").mkdir(parents=True)
    (down / "d0" / "f0").write_bytes(b"old")
    fetched = fetch_stream(fake_tar(body), str(tmp_path), "in", down, runtime=runtime)
    assert fetched.changed == ("d0/f0",)
    assert (down / "d0" / "f0").read_bytes() == b"old"
    assert (down / "d1" / "f1").read_bytes() == (top / "d1" / "f1").read_bytes()
    assert "d0/f0" not in [f[0] for f in fetched.files]


def test_a_file_that_really_changes_is_noticed(tmp_path, open_local, runtime):
    """A file that is appended to while GNU tar reads it is named, its old version kept."""
    top, down = tmp_path / "in", tmp_path / "down"
    top.mkdir()
    down.mkdir()
    (top / "a").write_bytes(bytes(8_000_000))
    (down / "a").write_bytes(b"old")

    class Writes:
        """Appends to the file once the first piece has come."""

        def __init__(self, inner) -> None:
            self.inner = inner

        def read(self, n: int) -> bytes:
            data = self.inner.read(n)
            with open(top / "a", "ab") as file:
                file.write(b"more")
            return data

        def __getattr__(self, name: str):
            return getattr(self.inner, name)

    fetched = fetch_stream(lambda s: Writes(open_local(s)), str(tmp_path), "in", down, runtime=runtime)
    assert fetched.changed == ("a",)
    assert (down / "a").read_bytes() == b"old"


def test_d_063_a_full_disk_here_names_what_was_saved(tmp_path, open_local, runtime, small_disk):
    """Whole files that fitted are home, the message names path and files, no torn file, no staging left."""
    top = tmp_path / "in"
    fill(top, 12, 1_000_000)
    with pytest.raises(
        TransferError, match=r"No space left on device; saved before that: [1-4] files"
    ) as caught:
        fetch_stream(open_local, str(tmp_path), "in", small_disk / "down", runtime=runtime)
    assert str(small_disk / "down") in caught.value.message
    saved = [p for p in (small_disk / "down").rglob("*") if p.is_file()]
    assert 0 < len(saved) <= 4
    assert all(p.read_bytes() == (top / p.relative_to(small_disk / "down")).read_bytes() for p in saved)


def test_d_063_a_destination_that_cannot_be_written_is_named(open_folder):
    """As an ordinary user, a folder without permission gives a TransferError with its path."""
    (open_folder / "in").mkdir()
    (open_folder / "in/f").write_bytes(b"x")
    closed = open_folder / "closed"
    closed.mkdir(mode=0o555)
    code = """
        import os, sys
        sys.path[:0] = [sys.argv[1], os.path.dirname(sys.argv[1])]
        from pathlib import Path
        from conftest import LocalChannel
        from gipper.errors import TransferError
        from gipper.runtime import RealRuntime
        from gipper.transfer.download import fetch_stream
        if os.getuid() == 0:
            os.setgid(65534); os.setuid(65534)
        here = Path(sys.argv[2])
        for dest in (here / "closed", here / "closed/new"):
            try:
                fetch_stream(LocalChannel, str(here), "in", dest, runtime=RealRuntime())
            except TransferError as error:
                print(error.message)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), Path(__file__).parent, open_folder],
        capture_output=True,
        text=True,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 2, done.stderr
    assert all(f"{closed}" in line and "Permission denied; nothing was saved" in line for line in lines)


def test_a_cut_download_keeps_whole_files_and_a_second_one_ends_it(tmp_path, open_local, runtime, see):
    """D-047: what was whole before the cut is home; fetching again makes the tree complete."""
    top, down = tmp_path / "in", tmp_path / "down"
    fill(top, 40, 100_000)
    with pytest.raises(ConnectionLost):
        fetch_stream(lambda s: open_local(s, cut_after=2_000_000), str(tmp_path), "in", down, runtime=runtime)
    part = see(down)
    assert 5 < len(part) < 40
    assert all(see(top)[path] == what for path, what in part.items())
    assert fetch_stream(open_local, str(tmp_path), "in", down, runtime=runtime).whole
    assert see(down) == see(top)


def test_a_budget_refuses_what_is_too_much(tmp_path, open_local, runtime):
    """Over `max_bytes`: named in `refused`, the rest home."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/big").write_bytes(bytes(5000))
    (tmp_path / "in/small").write_bytes(bytes(50))
    fetched = fetch_stream(
        open_local, str(tmp_path), "in", tmp_path / "down", runtime=runtime, max_bytes=1000
    )
    assert [f[0] for f in fetched.files] == ["small"]
    assert "big" in fetched.refused[0]


def test_hard_links_come_home_as_files(tmp_path, open_local, runtime):
    """Two names of one file are two whole files here."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a").write_bytes(b"x")
    os.link(tmp_path / "in/a", tmp_path / "in/b")
    fetched = fetch_stream(open_local, str(tmp_path), "in", tmp_path / "down", runtime=runtime)
    assert fetched.whole
    assert (tmp_path / "down/b").read_bytes() == b"x"


def test_a_remote_tar_that_fails_is_told(tmp_path, fake_tar, runtime):
    """No stream, or one that ends in the middle, is a TransferError with tar's words."""
    fill(tmp_path / "in", 3)
    body = '[ "$1" = --version ] && exec $REAL --version; echo "tar: out of luck" >&2; exit 2'
    with pytest.raises(TransferError, match="out of luck"):
        fetch_stream(fake_tar(body), str(tmp_path), "in", tmp_path / "down", runtime=runtime)
