"""Only what changed comes home; what is being written doesn't get its name, with GNU's tools and busybox's."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from support_root import need_program

from gipper.errors import ConfigError, ConnectionLost, Stopped, TransferError
from gipper.redact import KeyScanner
from gipper.remote import Known
from gipper.transfer.incremental import fetch, portions
from gipper.transfer.inputs import survey
from gipper.transfer.listing import State
from gipper.transfer.portion import accepted
from gipper.transfer.staging import PREFIX
from gipper.transfer.upload import send_stream
from gipper.values.jobs import Input

APPLETS = ("tar", "find", "stat", "cat", "ls", "sed", "date", "sleep", "mkdir")
OLD_NS = 1_600_000_000_000_000_000


def fill(top: Path, files: int = 12, size: int = 5000) -> None:
    """Files in three folders, all of them old."""
    for n in range(files):
        path = top / f"d{n % 3}" / f"f{n}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size))
        os.utime(path, ns=(OLD_NS, OLD_NS))


class Counting:
    """A channel opener that counts what comes and can act at each piece of a tar stream."""

    def __init__(self, opener, each=lambda: None) -> None:
        self.bytes = self.streams = 0
        self._open, self._each = opener, each

    def __call__(self, script: str):
        inner, outer = self._open(script), self
        is_stream = "no-recursion" in script
        outer.streams += is_stream

        class Channel:
            def read(self, n: int) -> bytes:
                data = inner.read(n)
                if is_stream:
                    outer.bytes += len(data)
                    outer._each()
                return data

            def __getattr__(self, name: str):
                return getattr(inner, name)

        return Channel()


@pytest.fixture(params=["gnu", "busybox"])
def tools(request, tmp_path, open_local):
    """A machine with GNU's tools, and one with busybox's."""
    if request.param == "gnu":
        return open_local
    real = need_program("busybox")
    folder = tmp_path / "busybox"
    folder.mkdir()
    for name in APPLETS:
        (folder / name).symlink_to(real)
    return lambda script: open_local(script, env={"PATH": str(folder)})


@pytest.fixture
def bring(tmp_path, runtime):
    """Fetch `in` to `down`."""

    def run(opener, known, *, live=True, source="in", dest=None, stop=None, max_bytes=None):
        return fetch(
            opener, str(tmp_path), source, dest or tmp_path / "down", known=known, live=live,
            max_bytes=max_bytes, progress=None, stop=stop, runtime=runtime,
        )  # fmt: skip

    return run


def test_the_second_time_only_changes_travel(tmp_path, tools, bring, see):
    """Names, modes, times, links, folders arrive; then one changed file alone does, byte for byte."""
    top, known = tmp_path / "in", {}
    fill(top)
    for name in ("a b'$", "ЁЂЃЈ ā é", "-rf", "*", "\\n"):
        (top / name).write_bytes(name.encode())
        os.utime(top / name, ns=(OLD_NS, OLD_NS))
    (top / "l").symlink_to("d0/f0")
    (top / "empty").mkdir()
    (top / "d0" / "f0").chmod(0o750)
    first = bring(tools, known)
    assert first.whole, first
    assert see(tmp_path / "down") == see(top)
    assert len(first.files) == len(first.home) == len(known) == 17
    (top / "d1" / "f1").write_bytes(b"new")
    os.utime(top / "d1" / "f1", ns=(OLD_NS + 5 * 10**9, OLD_NS))
    os.utime(top / "d1" / "f1", ns=(OLD_NS + 5 * 10**9, OLD_NS + 5 * 10**9))
    counting = Counting(tools)
    second = bring(counting, known)
    assert second.whole
    assert [f[0] for f in second.files] == ["d1/f1"]
    assert len(second.home) == 17
    assert counting.bytes < 80_000
    assert see(tmp_path / "down") == see(top)


def test_nothing_new_takes_one_listing(tmp_path, open_local, bring):
    """Where nothing changed no tar is started."""
    known: dict[str, Known] = {}
    fill(tmp_path / "in")
    bring(open_local, known)
    counting = Counting(open_local)
    assert bring(counting, known).files == ()
    assert counting.streams == 0


@pytest.mark.parametrize("what", ["changed", "gone", "touched"])
def test_a_local_file_that_is_no_longer_what_came_is_fetched_again(tmp_path, open_local, bring, what):
    """Size and time here are compared too; the file comes back as it is there."""
    known: dict[str, Known] = {}
    fill(tmp_path / "in")
    bring(open_local, known)
    here = tmp_path / "down" / "d0" / "f0"
    if what == "changed":
        here.write_bytes(b"mine")
    elif what == "gone":
        here.unlink()
    else:
        os.utime(here)
    assert [f[0] for f in bring(open_local, known).files] == ["d0/f0"]
    assert here.read_bytes() == (tmp_path / "in" / "d0" / "f0").read_bytes()


def test_the_users_files_stay_and_deletions_are_not_mirrored(tmp_path, open_local, bring):
    """What the machine doesn't have is left as it is here."""
    known: dict[str, Known] = {}
    fill(tmp_path / "in")
    bring(open_local, known)
    (tmp_path / "down" / "mine").write_text("mine")
    (tmp_path / "in" / "d0" / "f0").unlink()
    fetched = bring(open_local, known)
    assert fetched.whole
    assert "d0/f0" not in fetched.home
    assert (tmp_path / "down" / "mine").exists()
    assert (tmp_path / "down" / "d0" / "f0").exists()


def test_d_061_a_file_that_is_open_for_writing_is_left_alone(tmp_path, tools, bring):
    """Nobody has written to it for long, but its writer isn't done: the old version stays, it is named."""
    known: dict[str, Known] = {}
    fill(tmp_path / "in", 3)
    bring(tools, known)
    old = (tmp_path / "down" / "d0" / "f0").read_bytes()
    with open(tmp_path / "in" / "d0" / "f0", "wb") as half, open(tmp_path / "in" / "d0" / "new", "wb") as new:
        half.write(b"half")
        new.write(b"half")
        half.flush()
        new.flush()
        for file in (half, new):
            os.utime(file.fileno(), ns=(OLD_NS, OLD_NS))
        fetched = bring(tools, known)
        assert sorted(fetched.changed) == ["d0/f0", "d0/new"]
        assert (tmp_path / "down" / "d0" / "f0").read_bytes() == old
        assert not (tmp_path / "down" / "d0" / "new").exists()
    assert bring(tools, known).whole
    assert (tmp_path / "down" / "d0" / "f0").read_bytes() == b"half"


def test_d_061_a_file_that_is_rewritten_while_it_travels(tmp_path, tools, bring):
    """Opened, written and closed again during the stream, its folder new here: no torn file, no folder of it."""
    known: dict[str, Known] = {}
    top = tmp_path / "in"
    (top / "sub").mkdir(parents=True)
    (top / "sub" / "a").write_bytes(bytes(3_000_000))
    (top / "sub" / "b").write_bytes(b"b")

    def rewrite() -> None:
        with (top / "sub" / "a").open("r+b") as file:
            file.write(os.urandom(4_000_000))

    fetched = bring(Counting(tools, rewrite), known)
    assert fetched.changed == ("sub/a",)
    assert [p.name for p in (tmp_path / "down" / "sub").iterdir()] == ["b"]
    assert bring(tools, known).whole
    assert (tmp_path / "down" / "sub" / "a").read_bytes() == (top / "sub" / "a").read_bytes()


def test_d_061_a_file_that_is_replaced_while_it_travels_is_whole(tmp_path, tools, bring):
    """Renamed over at each piece: what is here is one of the versions, or the old one and named."""
    known: dict[str, Known] = {}
    top = tmp_path / "in"
    top.mkdir()
    versions = [bytes([n]) * 2_000_000 for n in range(3)]
    (top / "a").write_bytes(versions[0])
    turn = iter(range(1, 10_000))

    def replace() -> None:
        (tmp_path / "next").write_bytes(versions[next(turn) % 3])
        (tmp_path / "next").rename(top / "a")

    for _ in range(5):
        fetched = bring(Counting(tools, replace), known)
        here = tmp_path / "down" / "a"
        assert here.read_bytes() in versions if here.exists() else fetched.changed == ("a",)


STATE = State("file", 10, 5_500_000_000, 1)


@pytest.mark.parametrize(
    ("head", "after", "good"),
    [
        ((10, 5), STATE, STATE),
        ((9, 5), STATE, None),
        ((10, 5), STATE._replace(mtime_ns=5_600_000_000), None),
        ((10, 5), STATE._replace(size=11), None),
        ((10, 5), None, STATE),
        ((10, 5), STATE._replace(inode=2, size=12), STATE),
        ((12, 5), STATE._replace(inode=2, size=12), STATE._replace(inode=2, size=12)),
        ((11, 5), STATE._replace(inode=2, size=12), None),
    ],
)
def test_which_state_was_read(head, after, good):
    """Unchanged or replaced: whole; written to, or neither the old nor the new one: not."""
    assert accepted(head, STATE, after) == good


def test_portions_are_bounded():
    """No portion has more bytes, files or names than the bounds; each path is in one of them, in order."""
    things = {f"{n:05}": State("file", 7 << 20, 0, n) for n in range(50)}
    things |= {f"x{n:05}": State("file", 1, 0, n) for n in range(9000)}
    things |= {"y" * 3000 + str(n): State("file", 1, 0, n) for n in range(50)}
    cut = list(portions(list(things), things))
    assert [p for part in cut for p in part] == list(things)
    for part in cut:
        assert sum(things[p].size for p in part) <= 32 << 20
        assert len(part) <= 4000
        assert sum(len(p) + 3 for p in part) <= 100_000


def test_a_single_file(tmp_path, tools, bring):
    """A file becomes the destination, and is not fetched twice; also through a link."""
    fill(tmp_path / "in", 3)
    (tmp_path / "in" / "l").symlink_to("d0/f0")
    for source in ("in/d0/f0", "in/l"):
        known: dict[str, Known] = {}
        there = (tmp_path / "in" / "d0" / "f0").read_bytes()
        first = bring(tools, known, source=source, dest=tmp_path / "got" / "name")
        assert first.whole and [f[0] for f in first.files] == ["name"], first
        assert (tmp_path / "got" / "name").read_bytes() == there
        assert bring(tools, known, source=source, dest=tmp_path / "got" / "name").files == ()
        shutil.rmtree(tmp_path / "got")


def test_what_is_missing_and_what_is_hostile_is_told(tmp_path, open_local, bring):
    """An absent source, a name with control characters, a fifo: named; the rest is home."""
    assert bring(open_local, {}, source="nothere").missing == ("nothere: not there",)
    fill(tmp_path / "in", 3)
    (tmp_path / "in" / "a\nb").write_text("x")
    os.mkfifo(tmp_path / "in" / "pipe")
    fetched = bring(open_local, {})
    assert len(fetched.files) == 3
    assert sorted(r.partition(":")[0] for r in fetched.refused) == ["./a\\nb", "./pipe"]


def test_a_cut_goes_on_with_what_arrived(tmp_path, open_local, bring):
    """D-047: after a cut the second fetch brings only what did not arrive, live or not."""
    fill(tmp_path / "in", 60, 2_000_000)
    for live in (False, True):
        known: dict[str, Known] = {}
        dest = tmp_path / f"down-{live}"

        streams = itertools.count()

        def cut(script: str, streams=streams):
            third = "no-recursion" in script and next(streams) == 2
            return open_local(script, cut_after=20_000_000 if third else None)

        counting = Counting(cut)
        with pytest.raises(ConnectionLost):
            bring(counting, known, live=live, dest=dest)
        here = {str(p.relative_to(dest)) for p in dest.rglob("f*") if PREFIX not in str(p)}
        assert set(known) == here
        assert len(here) >= 2 * 15
        again = bring(open_local, known, live=live, dest=dest)
        assert again.whole and len(again.files) == 60 - len(here)


def test_d_063_a_full_disk_here_keeps_the_old_versions(tmp_path, open_local, bring, small_disk):
    """What does not fit is told; the version that was here is still whole, nothing torn or staged is left."""
    known: dict[str, Known] = {}
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(b"1" * 1_500_000)
    bring(open_local, known, dest=small_disk / "down")
    (tmp_path / "in" / "a").write_bytes(b"2" * 3_500_000)
    with pytest.raises(TransferError, match="No space left on device"):
        bring(open_local, known, dest=small_disk / "down")
    assert (small_disk / "down" / "a").read_bytes() == b"1" * 1_500_000
    assert os.listdir(small_disk / "down") == ["a"]
    (tmp_path / "in" / "a").write_bytes(b"3" * 1_000_000)
    assert bring(open_local, known, dest=small_disk / "down").whole


def test_asked_to_stop_nothing_gets_its_name(tmp_path, open_local, bring, runtime):
    """A sync that is given up leaves everything as it was."""
    fill(tmp_path / "in", 3)
    stop = runtime.event()
    with pytest.raises(Stopped):
        bring(Counting(open_local, stop.set), {}, stop=stop)
    assert list((tmp_path / "down").rglob("f*")) == []


def test_a_machine_without_the_tools_gets_a_whole_copy(tmp_path, open_local, bring):
    """No find there: everything travels, each time, and nothing is claimed to be known."""
    fill(tmp_path / "in", 3)
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("tar", "cat"):
        (folder / name).symlink_to(str(shutil.which(name)))
    known: dict[str, Known] = {}
    fetched = bring(lambda s: open_local(s, env={"PATH": str(folder)}), known)
    assert fetched.whole and len(fetched.files) == 3
    assert known == {} and fetched.home == {}


def test_a_budget_holds_over_all_portions(tmp_path, open_local, bring):
    """`max_bytes` counts what travels; what is over it is refused by name."""
    fill(tmp_path / "in", 3, 1000)
    fetched = bring(open_local, {}, max_bytes=2500)
    assert len(fetched.files) == 2 and len(fetched.refused) == 1


def test_ten_thousand_files_with_one_in_a_hundred_changed(tmp_path, open_local, bring):
    """The changed hundred travel, and nothing else."""
    top, known = tmp_path / "in", {}
    for n in range(10_000):
        path = top / f"d{n // 100:03}" / f"f{n % 100:03}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%09d" % n * 400)
    assert len(bring(open_local, known).files) == 10_000
    for n in range(0, 10_000, 100):
        (top / f"d{n // 100:03}" / "f007").write_bytes(os.urandom(4000))
    counting = Counting(open_local)
    fetched = bring(counting, known)
    assert len(fetched.files) == 100 and fetched.whole and len(fetched.home) == 10_000
    assert counting.bytes < 1_000_000
    assert subprocess.run(["diff", "-r", top, tmp_path / "down"], check=False).returncode == 0


def test_an_input_that_now_holds_a_key_is_the_users_mistake(tmp_path, open_local, runtime):
    """Clean when it was read, dirty when it is sent: ConfigError (exit 2), the host isn't to blame."""
    (tmp_path / "in").write_text("clean")
    found = survey(
        [Input(src="in", dst="x")], tmp_path, scanner=None, classify=None, progress=None, runtime=runtime
    )
    (tmp_path / "in").write_text("my key is key-abcdefgh-12345678")
    scanner = KeyScanner({"ACME_API_KEY": "key-abcdefgh-12345678"})
    with pytest.raises(ConfigError, match="ACME_API_KEY") as raised:
        send_stream(
            open_local, found.manifests["."], str(tmp_path / "up"), runtime=runtime, scanner=scanner.fresh
        )
    assert raised.value.exit_code == 2
    assert "key-abcdefgh" not in str(raised.value)
