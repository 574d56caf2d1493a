"""Archives made by an enemy: nothing leaves the destination, no torn file, the good rest comes home."""

from __future__ import annotations

import io
import os
import stat
import subprocess
from pathlib import Path

import pytest

from gipper.transfer.extract import Extractor
from gipper.transfer.staging import PREFIX
from gipper.transfer.tarhead import END, header, padding
from gipper.transfer.tarread import ByteSource, TornArchive


def member(
    name: bytes, kind: bytes = b"0", data: bytes = b"", *, link: bytes = b"", mode: int = 0o644
) -> bytes:
    return (
        header(name, kind, mode=mode, size=len(data), mtime=1, link=link) + data + bytes(padding(len(data)))
    )


def raw_mode(block: bytes, mode: int) -> bytes:
    changed = bytearray(block)
    changed[100:108] = b"%07o\0" % mode
    changed[148:156] = b" " * 8
    changed[148:156] = b"%06o\0 " % sum(changed[:512])
    return bytes(changed)


GOOD = member(b"good", data=b"fine")


@pytest.fixture
def dest(tmp_path):
    top = tmp_path / "in" / "dest"
    top.mkdir(parents=True)
    (tmp_path / "in" / "victim").write_bytes(b"untouched")
    (top / "mine").write_bytes(b"the user's own")
    return top


def extract(dest: Path, archive: bytes, **options) -> Extractor:
    extractor = Extractor(dest, **options)
    try:
        extractor.run(ByteSource(io.BytesIO(archive + END).read))
        extractor.finish()
    finally:
        extractor.close()
    return extractor


def everything(top: Path) -> set[str]:
    return {str(p.relative_to(top)) for p in top.rglob("*")}


CHAIN = b"".join(
    member(b"/".join([b"d" * 247] * n) + b"/" + c, b"2", link=b"d" * 247)
    for n, c in zip(range(1, 17), [bytes([97 + i]) for i in range(16)], strict=True)
)
HOSTILE = {
    "parent": member(b"../victim", data=b"evil"),
    "parent inside": member(b"a/../../victim", data=b"evil"),
    "absolute": member(b"/tmp/gipper-evil", data=b"evil"),
    "absolute folder": member(b"/tmp/gipper-evil-dir/", b"5"),
    "parent folder": member(b"../newdir/", b"5"),
    "absolute link": member(b"l", b"2", link=b"/etc"),
    "outward link": member(b"l", b"2", link=b"../victim"),
    "climbing link": member(b"l", b"2", link=b"a/../../victim"),
    "link through a link": member(b"d/", b"5")
    + member(b"b", b"2", link=b"d")
    + member(b"l", b"2", link=b"b/../.."),
    "hard link outward": member(b"h", b"1", link=b"../victim"),
    "hard link to absolute": member(b"h", b"1", link=b"/etc/passwd"),
    "character device": member(b"dev", b"3"),
    "block device": member(b"dev", b"4"),
    "fifo": member(b"pipe", b"6"),
    "unknown kind": member(b"what", b"Z", data=b"??"),
    "sparse": member(b"sparse", b"S", data=b"x" * 600),
    "newline in a name": member(b"a\nb", data=b"x"),
    "escape in a name": member(b"\x1b[2J", data=b"x"),
    "C1 control in a name": member("a\x9bb".encode(), data=b"x"),
    "delete in a name": member(b"a\x7f", data=b"x"),
    "too long a component": member(b"n" * 300, data=b"x"),
    "too long a name": member(b"/".join([b"n" * 200] * 30), data=b"x"),
    "no name": member(b"./", data=b"x"),
    "link with a control target": member(b"l", b"2", link=b"a\x07b"),
    "file over its own folder": member(b"f/x", data=b"1") + member(b"f", data=b"2"),
    "folder over its own file": member(b"f", data=b"1") + member(b"f/x", data=b"2"),
    "chain longer than a path": CHAIN + member(b"a/b/c/../../../../victim", data=b"evil"),
}


@pytest.mark.parametrize("archive", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_hostile_is_named_and_the_rest_comes_home(dest, archive):
    """One refusal with a printable line; the good file beside it arrives; nothing outside is touched."""
    before = everything(dest.parent.parent)
    done = extract(dest, archive + GOOD)
    assert done.refused
    assert all(line.isprintable() for line in done.refused)
    assert (dest / "good").read_bytes() == b"fine"
    assert (dest / "mine").read_bytes() == b"the user's own"
    assert (dest.parent / "victim").read_bytes() == b"untouched"
    new = everything(dest.parent.parent) - before
    assert all(name.startswith("in/dest/") for name in new)
    assert not any(PREFIX in name for name in new)
    assert not Path("/tmp/gipper-evil").exists()
    for path in dest.rglob("*"):
        assert not path.is_symlink() or path.resolve().is_relative_to(dest)


def test_set_id_bits_are_stripped(dest):
    """A set-id file arrives as an ordinary one."""
    extract(dest, raw_mode(member(b"su", data=b"#!"), 0o6777) + raw_mode(member(b"d/", b"5"), 0o7777))
    assert stat.S_IMODE((dest / "su").stat().st_mode) & 0o7000 == 0
    assert stat.S_IMODE((dest / "d").stat().st_mode) & 0o7000 == 0


@pytest.mark.parametrize("existing", ["folder link", "file link", "file"])
def test_what_the_user_has_there_is_never_followed(dest, existing):
    """A link or file of the user in the place of a folder: the member is refused by name."""
    outside = dest.parent / "outside"
    outside.mkdir()
    if existing == "file":
        (dest / "sub").write_bytes(b"user")
    else:
        (dest / "sub").symlink_to(outside if existing == "folder link" else dest.parent / "victim")
    done = extract(dest, member(b"sub/", b"5") + member(b"sub/x", data=b"evil") + GOOD)
    assert any(line.startswith("sub/x: a file or link is in the way") for line in done.refused)
    assert list(outside.iterdir()) == []
    assert (dest / "good").exists()


def test_a_link_at_the_final_name_is_replaced_not_followed(dest):
    """A file that comes home takes the place of a link of that name; the link's target keeps its bytes."""
    (dest / "f").symlink_to(dest.parent / "victim")
    extract(dest, member(b"f", data=b"new"))
    assert not (dest / "f").is_symlink()
    assert (dest.parent / "victim").read_bytes() == b"untouched"


def test_a_folder_in_the_place_of_a_file_is_refused(dest):
    """The user's folder stays, with what is in it."""
    (dest / "f").mkdir()
    (dest / "f" / "inside").write_bytes(b"user")
    done = extract(dest, member(b"f", data=b"new") + GOOD)
    assert done.refused == ["f: a folder of that name is in the way"]
    assert (dest / "f" / "inside").read_bytes() == b"user"


def test_links_that_stay_inside_are_made_last_and_renewed(dest):
    """A link to a later member works, and a second archive may point it elsewhere."""
    extract(dest, member(b"d/latest", b"2", link=b"../one") + member(b"one", data=b"1"))
    assert (dest / "d" / "latest").read_bytes() == b"1"
    extract(dest, member(b"d/latest", b"2", link=b"two") + member(b"d/two", data=b"2"))
    assert (dest / "d" / "latest").read_bytes() == b"2"


def test_a_link_is_not_a_way_in_for_later_members(dest):
    """A link member and a file below its name: the file goes into a real folder, the link is refused."""
    done = extract(dest, member(b"x", b"2", link=b".") + member(b"x/mine", data=b"evil"))
    assert (dest / "mine").read_bytes() == b"the user's own"
    assert (dest / "x" / "mine").read_bytes() == b"evil"
    assert len(done.refused) == 1


def test_the_byte_budget_names_what_did_not_fit(dest):
    """A file beyond the budget is refused, a smaller one after it still comes home."""
    done = extract(dest, member(b"big", data=b"x" * 100) + GOOD, max_bytes=50)
    assert done.refused == ["big: its 100 bytes are more than what may still come home"]
    assert set(done.files) == {"good"}


def test_the_file_budget_ends_an_endless_archive(dest):
    """After so many members the rest is refused as a whole."""
    done = extract(dest, b"".join(member(b"f%d" % n) for n in range(20)), max_files=5)
    assert len(done.files) == 5
    assert "too many files" in done.refused[0]


def test_refusals_are_bounded(dest):
    """An archive of bad names alone doesn't fill the memory with complaints."""
    done = extract(dest, member(b"../x") * 1500)
    assert len(done.refused) == 1001


@pytest.mark.parametrize("old", [True, False])
@pytest.mark.parametrize("left", [-1, -511, -1000, 300_000])
def test_a_torn_stream_leaves_no_torn_file(dest, left, old):
    """Whatever the cut, only whole files have a final name, and the old version of the torn one stays."""
    if old:
        (dest / "sub").mkdir()
        (dest / "sub" / "big").write_bytes(b"old version")
    parts = [(b"sub/one", b"1" * 600), (b"sub/two", b"2" * 600), (b"sub/big", b"b" * 400_000)]
    archive = b"".join(member(name, data=data) for name, data in parts)[:left]
    extractor = Extractor(dest)
    with pytest.raises(TornArchive):
        extractor.run(ByteSource(io.BytesIO(archive).read))
    extractor.salvage(cut=True)
    extractor.close()
    assert (dest / "sub/one").read_bytes() == b"1" * 600
    assert everything(dest) - {"sub/two"} == {"mine", "sub", "sub/one"} | ({"sub/big"} if old else set())
    assert not old or (dest / "sub" / "big").read_bytes() == b"old version"


@pytest.mark.parametrize("extra", [b"L", b"K", b"x", b"g"])
def test_a_gigantic_name_is_not_read_into_memory(dest, extra):
    """A long-name or pax header that claims gigabytes ends the archive."""
    head = header(b"n", extra, mode=0, size=1 << 33, mtime=0)
    with pytest.raises(TornArchive, match="more than 1 MiB"):
        extract(dest, head)


def test_endless_extra_headers_end(dest):
    """Extra headers without a member are bounded."""
    with pytest.raises(TornArchive, match="too many extra headers"):
        extract(dest, member(b"n", b"x", b"") * 1000)


@pytest.mark.parametrize("mtime", [b"inf", b"nan", b"1e400", b"-9e99"])
def test_a_time_that_is_no_time_does_no_harm(dest, mtime):
    """The file comes home without it."""
    record = b"mtime=" + mtime + b"\n"
    record = b"%d %s" % (len(record) + 3, record)
    done = extract(dest, member(b"p", b"x", record) + GOOD)
    assert set(done.files) == {"good"}


def test_what_a_killed_process_left_is_removed(dest):
    """A staging folder without a holder goes away; one in use by another process stays."""
    stale = dest / f"{PREFIX}dead"
    (stale / "1" / "sub").mkdir(parents=True)
    (stale / "1" / "sub" / "f").write_bytes(b"half")
    busy = Extractor(dest)
    extract(dest, GOOD)
    assert not stale.exists()
    assert len([n for n in os.listdir(dest) if n.startswith(PREFIX)]) == 1
    busy.close()
    assert everything(dest) == {"mine", "good"}


def test_batches_merge_into_what_earlier_batches_made(dest, monkeypatch):
    """Small batches give the same tree and hashes as one large batch."""
    from gipper.transfer import extract as module

    archive = b"".join(
        member(b"d%d/" % (n % 7), b"5") + member(b"d%d/f%d" % (n % 7, n), data=b"%d" % n) for n in range(50)
    )
    whole = extract(dest, archive)
    monkeypatch.setattr(module, "_BATCH_FILES", 3)
    other = dest.parent / "other"
    other.mkdir()
    parts = extract(other, archive)
    assert parts.files == whole.files
    assert len(parts.files) == 50
    assert subprocess.run(["diff", "-r", "--exclude=mine", dest, other]).returncode == 0


def test_the_first_of_two_members_with_one_name_wins(dest):
    """The second is refused: it must not tear what is whole."""
    done = extract(dest, member(b"f", data=b"first") + member(b"f", data=b"second"))
    assert (dest / "f").read_bytes() == b"first"
    assert done.refused == ["f: the archive has something else of that name, too"]


def test_a_single_file_gets_the_name_that_was_asked_for(dest):
    """One regular member becomes `single`; whatever else is in the archive is refused."""
    done = extract(
        dest, member(b"../../etc/x") + member(b"theirs", data=b"1") + member(b"mine", data=b"2"), single="out"
    )
    assert (dest / "out").read_bytes() == b"1"
    assert (dest / "mine").read_bytes() == b"the user's own"
    assert len(done.refused) == 2
