"""The tar writer and reader against each other, against GNU tar, and over files that won't keep still."""

from __future__ import annotations

import io
import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_root import need_program

from gipper.errors import ConfigError, TransferError
from gipper.runtime import RealRuntime
from gipper.ssh.bytechannel import BLOCK
from gipper.transfer.inputs import survey
from gipper.transfer.tarhead import number
from gipper.transfer.tarread import ByteSource, TornArchive, next_member
from gipper.transfer.tarwrite import AT_ONCE, TarWriter
from gipper.values.jobs import Input

NAME = st.one_of(
    st.binary(min_size=1, max_size=40),
    st.text("aé漢\n -'\"*\\", min_size=1, max_size=60).map(os.fsencode),
    st.just(b"n" * 255),
).filter(lambda n: not set(n) & {0, 47} and n not in (b".", b"..") and len(n) <= 255)
TREE = st.dictionaries(
    st.lists(NAME, min_size=1, max_size=4).map(tuple),
    st.tuples(
        st.one_of(st.binary(max_size=1500), st.integers(0, 3 * BLOCK).map(bytes)), st.integers(0, 0o777)
    ),
    max_size=8,
)


def build(top: Path, tree: dict) -> None:
    for parts, (content, mode) in tree.items():
        path = os.path.join(os.fsencode(top), *parts)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "xb") as file:
                file.write(content)
        except OSError:
            continue
        os.chmod(path, mode | 0o400)
        os.utime(path, (1, 1_700_000_000 + len(content)))


def manifest(top: Path, **options):
    given = {"scanner": None, "classify": None, "progress": None, "runtime": RealRuntime(), **options}
    return survey([Input(src=str(top), dst=".")], top, **given).manifests.get(".")


def stream(top: Path) -> bytes:
    return b"".join(TarWriter(manifest(top)).blocks())


@settings(max_examples=60, deadline=None)
@given(tree=TREE)
def test_gnu_tar_reads_what_is_written(tree, see):
    """Any tree (any bytes in names, long paths, modes, empty files) comes out of GNU tar as it went in."""
    with tempfile.TemporaryDirectory() as here:
        top, out = Path(here, "in"), Path(here, "out")
        top.mkdir()
        out.mkdir()
        build(top, tree)
        if manifest(top) is not None:
            subprocess.run(["tar", "-xopf", "-", "-C", out], input=stream(top), check=True)
        assert see(out) == see(top)


def members(data: bytes) -> list:
    source, out = ByteSource(io.BytesIO(data).read, piece=1000), []
    while (member := next_member(source)) is not None:
        content = source.take(member.size)
        source.skip(-member.size % 512)
        out.append((member.name.strip(b"/"), member.kind, content, member.link))
    return out


@pytest.mark.parametrize("form", ["gnu", "pax", "ustar"])
def test_the_reader_understands_every_format_of_gnu_tar(tmp_path, form):
    """Long and odd names, links and content are the same in all three formats."""
    top = tmp_path / "in"
    long = "/".join(["d" * 50] * (3 if form == "ustar" else 8))
    (top / long).mkdir(parents=True)
    (top / long / "é漢").write_bytes(b"x" * 1000)
    (top / "empty").touch()
    (top / "link").symlink_to("empty")
    made = subprocess.run(
        ["tar", f"--format={form}", "-cC", top, "."], check=True, capture_output=True
    ).stdout
    found = {name: (kind, content, link) for name, kind, content, link in members(made)}
    assert found[f"./{long}/é漢".encode()] == (b"0", b"x" * 1000, b"")
    assert found[b"./empty"] == (b"0", b"", b"")
    assert found[b"./link"] == (b"2", b"", b"empty")


@given(st.integers(-(2**80), 2**80))
def test_numbers_of_any_size_survive(value):
    """Sizes over 8 GiB and times before 1970 are written so that the reader gets them back."""
    from gipper.transfer.tarread import _number

    assert _number(number(value)) == value


@given(st.integers(0, 6000), st.integers(0, 255))
def test_a_damaged_archive_is_torn_and_nothing_worse(where, byte):
    """Any one wrong byte or an early end gives members or TornArchive, never another error."""
    head = subprocess.run(["tar", "-cf", "-", "-C", "/usr/bin", "env"], capture_output=True).stdout[:6144]
    for data in (head[:where] + bytes([byte]) + head[where + 1 :], head[:where]):
        try:
            members(data)
        except TornArchive:
            pass


def test_blocks_fill_packets_exactly(tmp_path):
    """Every block but the last fills a whole number of SSH packets."""
    for n, size in enumerate((0, 1, 511, 512, 40_000, 70_000, BLOCK, 30 * BLOCK + 5)):
        (tmp_path / str(n)).write_bytes(os.urandom(size))
    sizes = [len(b) for b in TarWriter(manifest(tmp_path)).blocks()]
    assert set(sizes[:-1]) == {AT_ONCE}
    assert AT_ONCE % BLOCK == 0
    assert 0 < sizes[-1] < AT_ONCE
    assert sum(sizes) % 512 == 0


def test_set_id_bits_and_owners_stay_here(tmp_path):
    """What is sent carries no set-id bits and belongs to nobody in particular."""
    (tmp_path / "f").touch()
    (tmp_path / "f").chmod(0o6755)
    listing = subprocess.run(
        ["tar", "--numeric-owner", "-tvf", "-"], input=stream(tmp_path), check=True, capture_output=True
    ).stdout
    assert listing.startswith(b"-rwxr-xr-x 0/0 ")


@pytest.mark.parametrize("now", [10, 100_000, 300_000])
def test_a_file_that_shrinks_or_grows_keeps_the_archive_whole(tmp_path, see, now):
    """Changed under way: the announced size is sent, padded or cut, the next file is intact, both told."""
    top, out = tmp_path / "in", tmp_path / "out"
    top.mkdir()
    out.mkdir()
    (top / "a").write_bytes(b"a" * 200_000)
    (top / "b").write_bytes(b"b" * 100)
    writer = TarWriter(manifest(top), block=BLOCK)
    blocks = writer.blocks()
    data = next(blocks)
    with open(top / "a", "r+b") as file:
        file.truncate(now)
    data += b"".join(blocks)
    subprocess.run(["tar", "-xf", "-", "-C", out], input=data, check=True)
    assert writer.changed == ["a"]
    assert (out / "a").stat().st_size == 200_000
    assert (out / "b").read_bytes() == b"b" * 100


def test_content_that_changed_since_the_pass_is_told(tmp_path):
    """A rewritten file is named in `changed`; one whose time alone moved is not."""
    (tmp_path / "new").write_bytes(b"one")
    (tmp_path / "touched").write_bytes(b"one")
    writer = TarWriter(manifest(tmp_path))
    (tmp_path / "new").write_bytes(b"two")
    os.utime(tmp_path / "touched", (5, 5))
    assert b"two" in b"".join(writer.blocks())
    assert writer.changed == ["new"]


class KeyInside:
    """Finds the word KEY."""

    def __init__(self) -> None:
        self.seen = b""

    def feed(self, data: bytes) -> None:
        self.seen += data

    @property
    def found(self) -> frozenset[str]:
        return frozenset({"ACME_API_KEY"} if b"KEY" in self.seen else ())


def test_a_key_that_came_into_a_file_later_never_leaves(tmp_path):
    """A file that is dirty since the pass stops the stream before any of its bytes."""
    (tmp_path / "a").write_bytes(b"clean")
    writer = TarWriter(manifest(tmp_path), scanner=KeyInside)
    (tmp_path / "a").write_bytes(b"now a KEY")
    sent = bytearray()
    with pytest.raises(ConfigError, match="ACME_API_KEY"):
        for block in writer.blocks():
            sent += block
    assert b"KEY" not in sent


@pytest.mark.parametrize("fate", ["gone", "fifo", "link"])
def test_a_file_that_is_no_longer_one_stops_the_stream(tmp_path, fate):
    """Removed, or replaced by a fifo or a link: a TransferError that names it, and no hang."""
    path = tmp_path / "a"
    path.write_bytes(b"x")
    writer = TarWriter(manifest(tmp_path))
    path.unlink()
    if fate == "fifo":
        os.mkfifo(path)
    elif fate == "link":
        path.symlink_to("/etc/passwd")
    with pytest.raises(TransferError, match="can't be read any more"):
        list(writer.blocks())


def test_d_051_line_ends_of_inputs_are_not_altered(tmp_path):
    """A file with CRLF leaves with CRLF."""
    (tmp_path / "a").write_bytes(b"one\r\ntwo\r\n")
    assert b"one\r\ntwo\r\n" in stream(tmp_path)


def test_busybox_reads_what_is_written(tmp_path, see):
    """busybox tar, the other one that is met on machines, unpacks the same tree."""
    need_program("busybox")
    top, out = tmp_path / "in", tmp_path / "out"
    out.mkdir()
    build(top, {(b"d", b"n" * 200): (b"x" * 5000, 0o640), (b"e" * 120, b"f" * 120): (b"", 0o755)})
    subprocess.run(["busybox", "tar", "-xopf", "-", "-C", out], input=stream(top), check=True)
    assert see(out) == see(top)
